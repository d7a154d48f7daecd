"""The sums of every measure, fed by a session."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from steer.anatomy.nodes import Site
from steer.base.errors import SteerError, keyed
from steer.measures.arrived import Arrived, Change
from steer.measures.measure import Gathered, Sums
from steer.measures.setting import Setting
from steer.results.details import Detail
from steer.results.rows import Mark, Row
from steer.results.tally import Tally, bootstrap_weights

if TYPE_CHECKING:
    from torch import Tensor

    from steer.models.protocol import Batch, Reading

SLACK = 1e-3  # sums in float32 or bfloat16 may pass an end


class Collectors:
    """Every measure of a recipe in every condition."""

    def __init__(
        self, setting: Setting, numbers: Sequence[Sequence[Site]], clean: str, unmoved: Collection[tuple[str, int]],
        marks: Mapping[str, Mark],
    ) -> None:  # fmt: skip
        """`numbers`: what each measure's are made of; `clean`: the condition of the clean run; `unmoved`: (condition,
        measure that it cannot change); `marks`: what the rows of a condition say about it."""
        self.setting, self.unmoved, self.marks = setting, unmoved, marks
        self.each = [_sums(setting, number) for number in range(len(setting.measures))]
        self.arrived = Arrived(setting, numbers, clean)

    def add(self, batch: Batch, condition: str, values: Reading) -> None:
        """A measure that a condition cannot change has no row there: it would be the clean number again."""
        moved = [number for number in range(len(self.each)) if (condition, number) not in self.unmoved]
        for number in moved:
            self.each[number].add(batch, condition, values)
        self.arrived.add(batch, condition, values, moved)

    def add_written(self, batch: Batch, condition: str, written: Tensor) -> None:
        """Answers that the model wrote itself; a condition that cannot change them has no such run."""
        for sums in self.each:
            sums.add_written(batch, condition, written)

    @property
    def mergeable(self) -> bool:
        return all(sums.gathers is not None for sums in self.each)

    def take(self) -> tuple[list[Gathered], dict[Change, float]]:
        """Hand out what every measure has gathered, to be merged elsewhere, and begin again with nothing."""
        return [sums.take() for sums in self.each], self.arrived.take()

    def merge(self, gathered: Sequence[Gathered], arrived: Mapping[Change, float]) -> None:
        for sums, its in zip(self.each, gathered, strict=True):
            sums.merge(its)
        self.arrived.merge(arrived)

    def rows(self) -> list[Row]:
        weights = bootstrap_weights(len(self.setting.episodes), self.setting.seed)
        return [self._finished(row, number) for number, sums in enumerate(self.each) for row in sums.rows(weights)]

    def _finished(self, row: Row, number: int) -> Row:
        """The row with what only the whole experiment knows: its condition's place on the scale, and warnings."""
        check_unit(row)
        mark = self.marks.get(row.condition, Mark())
        nothing = any(name.startswith("scale") and value == 0 for name, value in mark.levels)  # a dose of zero
        of = row.of if self.setting.measures[number].apart else ""
        arrived = "" if mark.end == "unchanged" or nothing else self.arrived.warning(row.condition, number, of)
        row = self.setting.warned(row, arrived)
        site, place = mark.site or row.site, mark.place or row.place
        return replace(row, end=mark.end, site=site, place=place, levels=(*mark.levels, *row.levels))

    def tallies(self) -> list[Tally]:
        """What each example gave."""
        return [tally for sums in self.each for tally in sums.tallies()]

    def details(self) -> list[Detail]:
        return [detail for sums in self.each for detail in sums.details()]


def check_unit(row: Row) -> None:
    """Shares are printed in percent: a measure of anything else must say so, or 12.7 would be shown as 1270 %."""
    if row.unit == "share" and (row.value < -SLACK or row.value > 1 + SLACK):
        raise SteerError(f"{row.measure}: {row.value:.4g} is not a share: its rows must say their unit")


def _sums(setting: Setting, number: int) -> Sums:
    with keyed("measures", number):
        return setting.measures[number].sums(setting)
