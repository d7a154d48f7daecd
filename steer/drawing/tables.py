"""Tables as text, laid out by rich: fitted to the width of a terminal, and as wide as needed elsewhere.

Nothing is cut off: on a narrow terminal a cell is folded into several lines.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from steer.results.details import Pattern
from steer.results.result import Result
from steer.results.rows import Row, overall, own_warning, shared_warnings

WIDEST = 100_000  # columns, if the output is not a terminal
EDITED = 12  # sites that fit on a line
# Kinds whose conditions have names, not sites.
NAMED = ("steer", "position-swap", "chained-swap", "intervene", "compare", "ablate-set")


def render(*parts: Table | str) -> str:
    """Tables and lines as one text for the standard output."""
    terminal = sys.stdout.isatty()
    width = Console().width if terminal else WIDEST
    text = StringIO()
    console = Console(file=text, width=width, force_terminal=terminal, highlight=False, markup=False, emoji=False)
    for part in parts:
        console.print(Text(part) if isinstance(part, str) else part, soft_wrap=isinstance(part, str))
    return "\n".join(line.rstrip() for line in text.getvalue().rstrip("\n").split("\n"))


def make_table(titles: Sequence[str], lines: Iterable[Sequence[str]], right: Sequence[str] = ()) -> Table:
    """A table of these lines, without columns that are empty everywhere. `right`: titles of right-aligned columns."""
    lines = list(lines)
    filled = [n for n in range(len(titles)) if any(line[n] for line in lines)]
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold", show_header=any(titles))
    for number in filled:
        side = "right" if titles[number] in right else "left"
        table.add_column(Text(titles[number]), justify=side, overflow="fold")  # type: ignore[arg-type]
    for line in lines:
        table.add_row(*(Text(line[number]) for number in filled))
    return table


def pairs(lines: Iterable[tuple[str, str]]) -> Table:
    """Names and what belongs to them, without a header."""
    return make_table(("", ""), lines)


def interval(low: float, high: float, unit: str = "share") -> str:
    return f"{number(low, unit)} to {number(high, unit)}"


def number(value: float, unit: str = "share") -> str:
    """A share as a percentage, any other number with three digits."""
    return f"{value:.1%}" if unit == "share" else f"{value:.3f}"


def row_table(rows: Sequence[Row], positions: bool = False) -> Table:
    """The rows over all positions; with `positions`, also those of each position."""
    titles = ("condition", "measure", "of", "against", "position", "value", "95 % interval", "by chance", "warning")
    shown, shared = rows if positions else overall(rows), shared_warnings(rows)
    return make_table(titles, (_cells(row, shared) for row in shown), ("position", "value"))


def _cells(row: Row, shared: Sequence[str]) -> tuple[str, ...]:
    place = "" if row.position is None else str(row.position)
    chance = "" if row.chance is None else f"{row.chance:.3f} (at {row.tokens})"
    numbers = number(row.value, row.unit), interval(row.low, row.high, row.unit)
    return (row.condition, row.measure, row.of, row.against, place, *numbers, chance, own_warning(row, shared))


def result_text(name: str, result: Result, pictures: Sequence[Path], known: bool) -> str:
    """One result as text: its table, what was edited, and where it was written."""
    origin = result.provenance
    fit = f"{origin.examples:,} episodes"
    if origin.examples < origin.wanted:
        fit += f" (all that fit; {origin.wanted:,} asked for)"
    state = "already known" if known else f"{origin.seconds:.1f} s"
    parts: list[Table | str] = [f"{name} on {origin.checkpoint.name}, {fit}: {result.folder} ({state})"]
    parts += [*filter(None, (origin.checkpoint.numbering,)), ""]
    parts += [row_table(result.rows, "positions" in origin.figures), ""] if result.rows else []
    parts += [f"warning: {text}" for text in shared_warnings(result.rows)]
    parts += [f"ablated: {origin.ablation}"] if origin.ablation else []
    parts += [f"edited in {condition!r}: {', '.join(sites)}" for condition, sites in _edited(result).items()]
    return render(*parts, *(f"picture: {path}" for path in pictures))


def _edited(result: Result) -> dict[str, tuple[str, ...]]:
    """Edited sites that a condition's name leaves out."""
    origin, ends = result.provenance, {row.condition for row in result.rows if row.end}
    return {
        condition: sites
        for condition, sites in origin.edited.items()
        if origin.kind in NAMED
        and condition not in ends
        and 0 < len(sites) <= EDITED
        and condition not in " ".join(sites)
    }


def pattern_text(pattern: Pattern, most: int = 4) -> str:
    """For each query, the keys it attends to most (places count from 1)."""
    head = f"{pattern.head} on: {pattern.prompt}", f"answer: {' '.join(pattern.answer)}", ""
    return render(*head, pattern_table(pattern, most))


def pattern_table(pattern: Pattern, most: int = 4) -> Table:
    lines = zip(pattern.queries, pattern.weights, strict=True)
    return make_table(("",) * (1 + most), ([query, *_most(pattern, row, most)] for query, row in lines))


def _most(pattern: Pattern, weights: Sequence[float], most: int) -> list[str]:
    top = sorted(range(len(weights)), key=lambda place: -weights[place])[:most]
    cells = [f"{pattern.keys[place]}@{place + 1} {weights[place]:.2f}" for place in top]
    return cells + [""] * (most - len(cells))
