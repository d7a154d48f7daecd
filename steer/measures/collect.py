"""One collector for each measure, fed by a session."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from torch import Tensor

from steer.anatomy.nodes import Site
from steer.base.errors import keyed
from steer.measures.arrived import Arrived
from steer.measures.counts import Answers, Attention, Attribution
from steer.measures.setting import Collector, Setting
from steer.measures.structure import Alignments, Patterns, Represented
from steer.models.protocol import Batch, Reading
from steer.plan.plan import EVERYTHING, NOTHING, UNCHANGED
from steer.recipe.schema import (
    AlignmentMeasure,
    AnswerMeasure,
    AttentionMeasure,
    AttributionMeasure,
    Measure,
    PatternMeasure,
    RSquaredMeasure,
)
from steer.results.details import Detail
from steer.results.rows import End, Row
from steer.results.tally import bootstrap_weights

ENDS: Mapping[str, End] = {NOTHING: "nothing", UNCHANGED: "unchanged", EVERYTHING: "everything"}


class Collectors:
    """Every measure of a recipe in every condition."""

    def __init__(
        self, setting: Setting, numbers: Sequence[Sequence[Site]], clean: str, unmoved: Collection[tuple[str, int]]
    ) -> None:
        """`numbers`: what each measure's are made of; `unmoved`: (condition, measure that it cannot change)."""
        self.setting, self.unmoved = setting, unmoved
        self.each = [_collector(setting, number) for number in range(len(setting.recipe.measures))]
        self.arrived = Arrived(setting, numbers, clean)

    def add(self, batch: Batch, condition: str, values: Reading) -> None:
        """A measure that a condition cannot change has no row there: it would be the clean number again."""
        moved = [number for number in range(len(self.each)) if (condition, number) not in self.unmoved]
        for number in moved:
            self.each[number].add(batch, condition, values)
        self.arrived.add(batch, condition, values, moved)

    def add_written(self, batch: Batch, condition: str, written: Tensor) -> None:
        """Answers that the model wrote itself; a condition that cannot change them has no such run."""
        for collector in self.each:
            if isinstance(collector, Answers):
                collector.add_written(batch, condition, written)

    def rows(self) -> list[Row]:
        weights = bootstrap_weights(len(self.setting.episodes), self.setting.recipe.seed)
        return [
            self._finished(row, number) for number, collector in enumerate(self.each) for row in collector.rows(weights)
        ]

    def _finished(self, row: Row, number: int) -> Row:
        """The row with what only the whole experiment knows: its condition's place on the scale, and warnings."""
        warned = self.setting.warned(row, self.arrived.warning(row.condition, number))
        return replace(warned, end=ENDS.get(row.condition, ""))

    def details(self) -> list[Detail]:
        return [detail for collector in self.each for detail in collector.details()]


def _collector(setting: Setting, number: int) -> Collector:
    with keyed("measures", number):
        return _of_measure(setting, setting.recipe.measures[number])


def _of_measure(setting: Setting, measure: Measure) -> Collector:
    match measure:
        case AttentionMeasure():
            return Attention(setting, measure)
        case AnswerMeasure():
            return Answers(setting, measure)
        case AttributionMeasure():
            return Attribution(setting, measure)
        case PatternMeasure():
            return Patterns(setting, measure)
        case AlignmentMeasure():
            return Alignments(setting, measure)
        case RSquaredMeasure():
            return Represented(setting, measure)
