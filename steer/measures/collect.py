"""One collector for each measure, fed by a session."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from steer.engine.engine import Part, Session, Values
from steer.measures.arrived import Arrived
from steer.measures.counts import Answers, Attention, Attribution
from steer.measures.setting import Collector, Setting
from steer.measures.structure import Alignments, Patterns, Represented
from steer.plan.plan import EVERYTHING, NOTHING, UNCHANGED, Plan
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

    def __init__(self, setting: Setting, plan: Plan) -> None:
        self.setting, self.unmoved = setting, set(plan.unmoved)
        self.each = [_collector(setting, measure) for measure in setting.recipe.measures]
        self.arrived = Arrived(setting, plan.numbers, plan.clean_condition)

    def add(self, part: Part, condition: str, values: Values) -> None:
        """A measure that a condition cannot change has no row there: it would be the clean number again."""
        moved = [number for number in range(len(self.each)) if (condition, number) not in self.unmoved]
        for number in moved:
            self.each[number].add(part, condition, values)
        self.arrived.add(part, condition, values, moved)

    def generate(self, session: Session) -> None:
        """Answers that the model writes itself, with each condition's interventions on."""
        greedy = [(n, c) for n, c in enumerate(self.each) if isinstance(c, Answers) and c.measure.decoding == "greedy"]
        conditions = [session.plan.clean_condition, *(run.condition for run in session.plan.runs)]
        for condition in dict.fromkeys(c for c in conditions if c is not None):
            moved = [collector for number, collector in greedy if (condition, number) not in self.unmoved]
            for part in session.parts if moved else ():
                written = session.generate(condition, part)
                for collector in moved:
                    collector.add_written(part, condition, written)

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


def _collector(setting: Setting, measure: Measure) -> Collector:
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
