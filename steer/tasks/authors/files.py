"""The authors' episode files: a support, questions about it, and the grammar that both follow.

    *SUPPORT*
    IN: zup OUT: GREEN
    IN: zup lug kiki OUT: PINK GREEN PINK

    *QUERY*
    IN: kiki lug zup OUT: GREEN PINK GREEN

    *GRAMMAR*
    zup -> GREEN
    x1 lug x2 -> [x2] [x1] [x2]

Blank lines and spaces at the ends of lines mean nothing. A folder holds a file for each episode, or has them in `val/`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from steer.base.errors import SteerError, unknown
from steer.base.files import is_there, read_text
from steer.tasks.authors.episode import AuthorsEpisode, join_items
from steer.tasks.authors.vocabulary import COLOURS, WORDS
from steer.tasks.compositional.episode import TWO_ARGUMENTS, make_call, make_item
from steer.tasks.compositional.vocabulary import EQUALS
from steer.tasks.task import PlainExample, Tokens

SUPPORT, QUERY, GRAMMAR = "*SUPPORT*", "*QUERY*", "*GRAMMAR*"
MAX_BYTES, MOST = 100_000, 200_000  # bytes of a file, files in a folder
AuthorsExample: TypeAlias = AuthorsEpisode | PlainExample
Line: TypeAlias = tuple[Tokens, Tokens]  # words in, colours out


@dataclass(frozen=True)
class EpisodeFile:
    support: tuple[Line, ...]
    questions: tuple[Line, ...]
    rules: tuple[Line, ...] = ()  # left side, right side

    @property
    def functions(self) -> frozenset[str]:
        """The words that take arguments."""
        return frozenset(word for left, _ in self.rules if len(left) > 1 for word in left if word in WORDS)

    def examples(self) -> Iterator[AuthorsExample]:
        """Each question with the support: as an episode if it is one, otherwise as plain tokens."""
        for words, colours in self.questions:
            if self._is_plain_call(words) and all(self._is_plain_call(left) for left, _ in self.support):
                support = tuple(make_item(make_call(left), right) for left, right in self.support)
                yield AuthorsEpisode(make_call(words), support, colours)
            else:
                items = (words, *((*left, EQUALS, *right) for left, right in self.support))
                yield PlainExample(join_items(items), colours)

    def _is_plain_call(self, words: Tokens) -> bool:
        """A primitive, or a function with primitives for arguments: no nesting and nothing strung together."""
        function = words[1:2]
        arguments = {word for place, word in enumerate(words) if place != 1}
        return len(words) <= TWO_ARGUMENTS and set(function) <= self.functions and not arguments & self.functions

    def __str__(self) -> str:
        parts = [(SUPPORT, self.support), (QUERY, self.questions)]
        lines = [line for name, items in parts for line in (name, *map(_item_text, items), "")]
        rules = " \n ".join(f"{' '.join(left)} -> {' '.join(right)}" for left, right in self.rules)
        return "\n".join((*lines, GRAMMAR, rules)) + " \n "


def _item_text(line: Line) -> str:
    return f"IN: {' '.join(line[0])} OUT: {' '.join(line[1])}"


def read_folder(folder: Path) -> list[AuthorsExample]:
    """Every question of every file, in the order of the files' names."""
    if not is_there(folder):
        raise SteerError(f"there is no folder {folder}")
    files = next((texts for place in (folder, folder / "val") if (texts := sorted(place.glob("*.txt")))), [])
    if not files:
        raise SteerError(f"{folder}: holds no episode files (*.txt), nor does a folder val in it")
    if len(files) > MOST:
        raise SteerError(f"{folder}: more than {MOST:,} files")
    return [example for file in files for example in read_episode_file(file).examples()]


def read_episode_file(path: Path) -> EpisodeFile:
    return parse_file(read_text(path, MAX_BYTES), str(path))


def parse_file(text: str, place: str) -> EpisodeFile:
    parts: dict[str, list[Line]] = {SUPPORT: [], QUERY: [], GRAMMAR: []}
    now, faults = "", []  # type: tuple[str, list[str]]
    lines = list(enumerate(map(str.strip, text.splitlines()), start=1))
    first = next(((number, line) for number, line in lines if line), (1, SUPPORT))
    if first[1] not in parts:
        raise SteerError(f"{place}:{first[0]}: an episode file begins with {SUPPORT}")
    for number, line in lines:
        try:
            if line in parts:
                now = line
            elif line:
                parts[now].append(_rule(line) if now == GRAMMAR else _item(line))
        except SteerError as error:
            faults += [f"{place}:{number}: {fault}" for fault in error.faults]
    faults = faults or [f"{place}: has no items under {name}" for name in (SUPPORT, QUERY) if not parts[name]]
    if faults:
        raise SteerError(*faults)
    return EpisodeFile(*(tuple(parts[name]) for name in (SUPPORT, QUERY, GRAMMAR)))


def _item(line: str) -> Line:
    """`IN: zup lug kiki OUT: PINK GREEN PINK`."""
    left, out, right = line.removeprefix("IN:").partition("OUT:")
    words, colours = tuple(left.split()), tuple(right.split())
    if not line.startswith("IN:") or not out or not words or not colours:
        raise SteerError(f"{line!r:.80} is not of the form 'IN: dax lug zup OUT: RED BLUE'")
    _check(words, "word", WORDS)
    _check(colours, "colour", COLOURS)
    return words, colours


def _rule(line: str) -> Line:
    """`x1 lug x2 -> [x2] [x1] [x2]`."""
    left, arrow, right = line.partition("->")
    if not arrow or not left.split() or not right.split():
        raise SteerError(f"{line!r:.80} is not of the form 'x1 lug x2 -> [x2] [x1]'")
    return tuple(left.split()), tuple(right.split())


def _check(given: Sequence[str], kind: str, known: Sequence[str]) -> None:
    strange = [word for word in dict.fromkeys(given) if word not in known]
    if strange:
        raise SteerError(*(unknown(kind, word[:40], known) for word in strange))
