"""How a thing looks at a prompt and in a notebook: a short text, and a table with its figure.

A thing says in a `Card` what there is to say; `steer.drawing.html` makes a page of it when a notebook asks, and is
loaded no earlier.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module

RENDERER = "steer.drawing.html"  # its function `html` takes a thing that is `Shown`
MOST = 2_000  # letters of a plain text


@dataclass(frozen=True)
class Card:
    """A title, names with what belongs to them, a table, and a text that keeps its lines."""

    title: str
    pairs: Sequence[tuple[str, str]] = ()
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    text: str = ""

    def __str__(self) -> str:
        lines = [self.title, *(f"  {name}: {value}" for name, value in self.pairs)]
        lines += ["  " + "  ".join(filter(None, row)) for row in self.rows]
        lines += self.text.splitlines()
        return _cut(lines)


def counted(number: int, word: str) -> str:
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"


def _cut(lines: list[str]) -> str:
    """As many whole lines as fit; then how many there are more."""
    kept: list[str] = []
    for number, line in enumerate(lines):
        if sum(map(len, kept)) + len(kept) + len(line) > MOST - 40:
            return "\n".join([*kept, f"  … {len(lines) - number} more lines"])[:MOST]
        kept.append(line)
    return "\n".join(kept)


class Shown:
    """Has a short `repr`, and a table (and figure) in a notebook."""

    __slots__ = ()

    def card(self) -> Card:
        raise NotImplementedError

    def __repr__(self) -> str:
        return str(self.card())

    def _repr_html_(self) -> str:
        page: str = import_module(RENDERER).html(self)
        return page
