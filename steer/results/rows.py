"""Rows: one number with its 95 % interval, and what it is of.

Every experiment gives rows, and tables, figures and verdicts are made from them alone. A row is found by its fields,
never by the wording of a name: `unit` says how its number is to be read, `end` whether its condition is an end of a
sweep's scale.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Literal, TypeAlias

from pydantic import ConfigDict

from steer.base.json import Json

Decoding: TypeAlias = Literal["forced", "greedy"]
Unit: TypeAlias = Literal["share", "logit", "r2", "product", "ratio", "number"]
# An end of a sweep's scale. "unchanged" is a chain's own: its ports rebuilt, nothing ablated before the first link.
End: TypeAlias = Literal["", "nothing", "unchanged", "everything"]
# What varies between conditions, and its value in one of them: ("scale", 2.0), ("k", 4), ("checkpoint", "seed1").
Level: TypeAlias = tuple[str, float | int | str]
# Two levels have names of their own: what is done whatever varies, and which control it is (without it, none).
SET, CONTROL = "set", "control"
JOINT = "; "  # between the warnings of a row
CLOSED = ConfigDict(extra="forbid", allow_inf_nan=False)  # how results are read back: no other keys, no NaN


@dataclass(frozen=True)
class Mark:
    """What a condition is beside its name: an end of the scale, or the site and the place that it patches."""

    end: End = ""
    site: str = ""
    place: str = ""
    levels: tuple[Level, ...] = ()


@dataclass(frozen=True)
class Labels:
    """What the rows of one measure in one condition have in common."""

    condition: str = ""
    measure: str = ""
    of: str = ""  # head, site or component
    against: str = "answer"
    decoding: Decoding = "forced"
    group: str = ""  # a part of what is counted, such as one token of the answer
    unit: Unit = "share"


@dataclass(frozen=True)
class Row:
    """A number and its interval. `position`: a step of the answer, from 1; None: all of them."""

    __pydantic_config__ = CLOSED

    condition: str
    measure: str
    value: float
    low: float
    high: float
    counted: int
    examples: int
    of: str = ""
    against: str = "answer"
    decoding: Decoding = "forced"
    group: str = ""
    position: int | None = None
    unit: Unit = "share"
    end: End = ""
    site: str = ""  # patched in this condition, where an experiment goes from site to site
    place: str = ""  # a place from 1, `last`, the name of a span, or `all`
    chance: float | None = None  # what shuffled labels reach
    tokens: str = ""  # the tokens whose activations R² is of
    warning: str = ""
    levels: tuple[Level, ...] = ()  # what varies between conditions: a column each in tables

    def level(self, name: str) -> float | int | str | None:
        return dict(self.levels).get(name)

    def meets(self, other: Row) -> bool:
        """Do the two intervals have a number in common?"""
        return self.low <= other.high and other.low <= self.high

    @property
    def above_chance(self) -> bool:
        """Does the whole interval lie above chance?"""
        return self.low > (self.chance or 0.0)


def shared_warnings(rows: Sequence[Row]) -> list[str]:
    """What must be said about every one of these rows: it is said once."""
    said = [row.warning.split(JOINT) for row in rows]
    return [text for text in dict.fromkeys(said[0] if said else ()) if text and all(text in one for one in said)]


def own_warning(row: Row, shared: Sequence[str]) -> str:
    """What is to be said about a row beside what it shares with all."""
    return JOINT.join(text for text in row.warning.split(JOINT) if text not in shared)


def overall(rows: Iterable[Row]) -> list[Row]:
    """The rows over all positions."""
    return [row for row in rows if row.position is None]


def select(rows: Iterable[Row], **fields: object) -> list[Row]:
    """The rows with these fields: `select(rows, condition="clean", of="dec-cross-1.4")`."""
    return [row for row in rows if all(getattr(row, name) == value for name, value in fields.items())]


def find(rows: Iterable[Row], position: int | None = None, **fields: object) -> Row | None:
    """The first row with these fields, over all positions unless one is given; None if there is none."""
    return next(iter(select(rows, position=position, **fields)), None)


def plain(row: Row) -> Json:
    """A row for a file: without levels where nothing varies."""
    return {name: value for name, value in asdict(row).items() if name != "levels" or value}


def flat(row: Row) -> Json:
    """A row's fields, its levels among them."""
    return {name: value for name, value in asdict(row).items() if name != "levels"} | dict(row.levels)


def level_names(rows: Iterable[Row]) -> tuple[str, ...]:
    """What varies between conditions, in the order in which rows name it."""
    return tuple(dict.fromkeys(name for row in rows for name, _ in row.levels))


ROW_TITLES = ("condition", "measure", "of", "against", "value", "95 % interval", "warning")


def row_lines(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """What a short table says of rows: of a sweep's, each condition with the values of what is swept."""
    name, swept = measure_names(rows), swept_names(rows)
    return [
        _line(row, name(row), ", ".join([row.condition, *(f"{one} {row.level(one)}" for one in swept)])) for row in rows
    ]


def _line(row: Row, measure: str, condition: str) -> tuple[str, ...]:
    numbers = number(row.value, row.unit), f"{number(row.low, row.unit)} to {number(row.high, row.unit)}"
    return (condition, measure, row.of, row.against, *numbers, row.warning)


def swept_names(rows: Sequence[Row]) -> list[str]:
    """The levels that every row has: those of a sweep, which no condition's name tells."""
    return [name for name in level_names(rows) if all(row.level(name) is not None for row in rows)]


def measure_names(rows: Iterable[Row]) -> Callable[[Row], str]:
    """What tables call the measure of a row: with its decoding, or its tokens, where these rows have several."""
    decodings: dict[str, set[str]] = {}
    tokens: dict[tuple[str, str], set[str]] = {}
    for row in rows:
        decodings.setdefault(row.measure, set()).add(row.decoding)
        tokens.setdefault((row.measure, row.of), set()).add(row.tokens)

    def name(row: Row) -> str:
        how = [row.decoding] if len(decodings[row.measure]) > 1 else []
        where = [f"at {row.tokens}"] if len(tokens[row.measure, row.of]) > 1 else []
        return ", ".join([row.measure, *how, *where])

    return name


def number(value: float, unit: str = "share") -> str:
    """A share as a percentage, any other number with three digits."""
    return f"{value:.1%}" if unit == "share" else f"{value:.3f}"
