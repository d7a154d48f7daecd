"""Two results side by side: which rows are of the same thing, how far apart they are, and with what interval.

The interval of a difference is made from the two rows' own intervals (MOVER: Newcombe 1998, Zou 2008): with a and b
the second and the first number and (l, u) their limits, d = a - b lies between

    d - sqrt((a - la)² - 2 r (a - la)(ub - b) + (ub - b)²)   and
    d + sqrt((ua - a)² - 2 r (ua - a)(b - lb) + (b - lb)²).

r is the correlation of the two numbers. Where both results are of the same examples it comes from what each example
gave (*paired*); otherwise it is 0 (*independent*), and so it is where examples were not kept. For two shares of
independent examples this is Newcombe's score interval.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import sqrt
from typing import Literal, TypeAlias

import numpy as np

from steer.base.errors import SteerError
from steer.base.json import Json
from steer.base.shown import Card, Shown
from steer.results.result import Result
from steer.results.rows import Row, measure_names, number
from steer.results.tally import Floats

Pairing: TypeAlias = Literal["paired", "independent"]
KEY = ("condition", "measure", "of", "against", "decoding", "group", "position", "tokens", "unit", "levels")
HOW = {
    "paired": "both are of the same examples: intervals of differences are paired, by what each example gave",
    "independent": "intervals of differences take the two results for independent of each other",
}


@dataclass(frozen=True)
class Difference:
    """A number of each result, and the second less the first with its 95 % interval."""

    first: Row
    second: Row
    value: float
    low: float
    high: float
    correlation: float = 0.0  # of the two numbers; 0 where they are independent, or nothing is known of it

    def cells(self, measure: str) -> tuple[str, ...]:
        """What a table says of it. `measure`: what the table calls that."""
        row, other, unit = self.first, self.second, self.first.unit
        of = row.of if row.of == other.of else f"{row.of} / {other.of}"
        numbers = number(row.value, unit), number(other.value, unit), signed(self.value, unit)
        limits = f"{signed(self.low, unit)} to {signed(self.high, unit)}"
        return (row.condition, measure, of, *numbers, limits, "clear" if self.is_clear else "")

    @property
    def is_clear(self) -> bool:
        """Does the whole interval lie on one side of zero?"""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True, repr=False)
class Comparison(Shown):
    names: tuple[str, str]
    pairing: Pairing
    differences: tuple[Difference, ...]
    only: tuple[tuple[Row, ...], tuple[Row, ...]]  # rows that one of them has alone

    def card(self) -> Card:
        titles = ("condition", "measure", "of", "first", "second", "difference", "95 % interval", "")
        listed = [one for one in self.differences if one.first.position is None]
        name = measure_names([one.first for one in listed])
        shown = [one.cells(name(one.first)) for one in listed]
        pairs = [("first", self.names[0]), ("second", self.names[1]), ("intervals", HOW[self.pairing])]
        return Card(f"{len(shown)} numbers side by side: the second less the first", pairs, titles, shown)

    def to_json(self) -> Json:
        plain = [asdict(one) | {"is_clear": one.is_clear} for one in self.differences]
        alone = [[asdict(row) for row in rows] for rows in self.only]
        return {
            "results": list(self.names), "pairing": self.pairing, "intervals": HOW[self.pairing],
            "differences": plain, "only_in_first": alone[0], "only_in_second": alone[1],
        }  # fmt: skip


def signed(value: float, unit: str) -> str:
    """A difference; of shares in points of a hundred."""
    return f"{100 * value:+.1f} pts" if unit == "share" else f"{value:+.3f}"


def compare_results(first: Result, second: Result) -> Comparison:
    """Rows of the same thing, in the order of the first result."""
    pairs, only = matched(first.rows, second.rows)
    if not pairs:
        raise SteerError(f"{named(first)} and {named(second)} have no row of the same thing to compare")
    paired = same_examples(first, second)
    differences = [difference(a, b, correlation(first, a, second, b) if paired else 0.0) for a, b in pairs]
    return Comparison((named(first), named(second)), "paired" if paired else "independent", tuple(differences), only)


def named(result: Result) -> str:
    origin = result.provenance
    return f"{origin.name} on {origin.checkpoint.name}"


def same_examples(first: Result, second: Result) -> bool:
    """Were both put to the same examples, and is it known what each example gave?"""
    return bool(first.samples and second.samples and first.samples.examples == second.samples.examples)


def matched(
    first: list[Row], second: list[Row]
) -> tuple[list[tuple[Row, Row]], tuple[tuple[Row, ...], tuple[Row, ...]]]:
    """Rows that agree in all that they are of; heads may have other names in another model where that is no doubt."""
    left = {key(row): row for row in second}
    pairs = [(row, left.pop(key(row))) for row in first if key(row) in left]
    taken = {key(row) for row, _ in pairs}
    alone = [row for row in first if key(row) not in taken]
    for row in list(alone):
        rivals = [one for one in alone if loose(one) == loose(row)]
        theirs = [one for one in left.values() if loose(one) == loose(row)]
        if len(rivals) == len(theirs) == 1:
            pairs.append((row, left.pop(key(theirs[0]))))
            alone.remove(row)
    return pairs, (tuple(alone), tuple(left.values()))


def key(row: Row) -> tuple[object, ...]:
    return tuple(getattr(row, name) for name in KEY)


def loose(row: Row) -> tuple[object, ...]:
    """All but the part of the model that it is of."""
    return tuple(getattr(row, name) for name in KEY if name != "of")


def difference(first: Row, second: Row, correlation: float = 0.0) -> Difference:
    """The second less the first."""
    below = _together(second.value - second.low, first.high - first.value, correlation)
    above = _together(second.high - second.value, first.value - first.low, correlation)
    value = second.value - first.value
    return Difference(first, second, value, value - below, value + above, correlation)


def _together(one: float, other: float, correlation: float) -> float:
    return sqrt(max(one * one - 2 * correlation * one * other + other * other, 0.0))


def correlation(first: Result, a: Row, second: Result, b: Row) -> float:
    """Of two means over the same examples; 0 where either does not vary, or its examples were not kept."""
    assert first.samples is not None
    assert second.samples is not None
    one, other = first.samples.of(a), second.samples.of(b)
    if one is None or other is None:
        return 0.0
    x, y = _influence(*one), _influence(*other)
    spread = sqrt(float(x @ x) * float(y @ y))
    return float(x @ y) / spread if spread > 0 else 0.0


def _influence(values: Floats, counts: Floats) -> Floats:
    """How far each example moves a ratio of sums: N."""
    total = counts.sum()
    influence: Floats = (values - values.sum() / total * counts) / total if total else np.zeros_like(values)
    return influence
