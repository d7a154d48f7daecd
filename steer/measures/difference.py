"""logit-difference: how far the right token's logit lies above those of other answers.

`steps: first`: at the first token of the answer. `steps: all`: the mean over the tokens of the answer, the right ones
before it fed in, at which the other answer has another token. Several other answers: their mean.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from steer.anatomy.keyed import KeyedNames
from steer.base.errors import Key
from steer.measures.measure import Measure, Reads, Sums
from steer.measures.rivals import RivalTokens, Steps, answer_logits
from steer.measures.setting import Counted, Setting
from steer.results.rows import JOINT, Labels, Row
from steer.tasks.task import ANSWER, Task

if TYPE_CHECKING:
    from torch import Tensor

    from steer.models.protocol import Batch, Reading
    from steer.results.tally import Floats

UNDECIDED = "the clean run does not prefer the right answer (its interval reaches down to zero)"


class DifferenceMeasure(Measure):
    """The right token's logit less the mean logit of what it is held against, at the first token or at all."""

    name: Literal["logit-difference"]
    against: Annotated[
        Literal["wrong", "counterfactual"], Field(description="the task's wrong answers, or the counterpart's answer")
    ] = "wrong"
    steps: Annotated[Steps, Field(description="of the answer: its first token, or the mean over all")] = "first"

    def reads(self, names: KeyedNames, task: Task, key: Key) -> Reads:
        logits = (names.layout.logits,)
        return Reads(logits, logits, ((self.name, self.against),))

    def sums(self, setting: Setting) -> Sums:
        return Differences(setting, self)

    def compared(self, setting: Setting, batch: Batch, value: Tensor) -> Tensor:
        return answer_logits(batch, value, self.steps)


class Differences(Counted):
    def __init__(self, setting: Setting, measure: DifferenceMeasure) -> None:
        super().__init__(setting)
        self.measure = measure
        if measure.steps == "first":
            self.positions = 1
        self.rivals = RivalTokens(setting, measure.against, measure.steps)

    def add(self, batch: Batch, condition: str, values: Reading) -> None:
        logits = batch.at(ANSWER, values[self.setting.model.layout.logits])  # B T V
        target = self.setting.target(batch, "answer")
        rivals = self.rivals.of(batch, target.shape[1])
        right = logits.gather(-1, self.setting.known(target)[..., None])[..., 0]
        labels = Labels(condition, self.measure.name, "", self.measure.against, unit="logit")
        difference = (right - rivals.mean_of_logits(logits)).double()
        self.book.put(batch, self.positions, difference, rivals.counted, False, labels)

    def rows(self, weights: Floats) -> list[Row]:
        rows = super().rows(weights)
        clean = [row for row in rows if row.condition == self.setting.own and row.position is None]
        warnings = [self.rivals.warning, UNDECIDED if any(row.low <= 0 for row in clean) else ""]
        warning = JOINT.join(filter(None, warnings))
        return [replace(row, warning=warning) for row in rows]
