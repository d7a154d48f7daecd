"""answer-probability: how likely the model is to say the answer.

`steps: all`: the whole answer, the end that closes it included where there is one: the product over its tokens.
`steps: first`: its first token alone. Of another answer than the right one, which is fed in, only the first is known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from steer.anatomy.keyed import KeyedNames
from steer.base.errors import Key
from steer.measures.measure import Measure, Reads, Sums
from steer.measures.rivals import Steps, answer_logits
from steer.measures.setting import Counted, Setting
from steer.results.rows import Labels
from steer.tasks.task import Task

if TYPE_CHECKING:
    from torch import Tensor

    from steer.models.protocol import Batch, Reading


class ProbabilityMeasure(Measure):
    """How likely the model is to say the answer (or its first token), given the prompt."""

    name: Literal["answer-probability"]
    against: Annotated[
        Literal["answer", "counterfactual"], Field(description="the right answer, or the counterpart's")
    ] = "answer"
    steps: Annotated[Steps, Field(description="of the answer: its first token, or all with its end")] = "all"

    def reads(self, names: KeyedNames, task: Task, key: Key) -> Reads:
        if self.against == "counterfactual" and self.steps == "all":
            text = "the right answer is fed in: of another one only the first token is known (steps: first)"
            names.fault((*key, "steps"), text)
        logits = (names.layout.logits,)
        return Reads(logits, logits, ((self.name, self.against),))

    def sums(self, setting: Setting) -> Sums:
        return Probabilities(setting, self)

    def compared(self, setting: Setting, batch: Batch, value: Tensor) -> Tensor:
        return answer_logits(batch, value, self.steps)


class Probabilities(Counted):
    def __init__(self, setting: Setting, measure: ProbabilityMeasure) -> None:
        super().__init__(setting)
        self.measure = measure

    def add(self, batch: Batch, condition: str, values: Reading) -> None:
        logits = answer_logits(batch, values[self.setting.model.layout.logits], self.measure.steps)  # B T V
        target = self.setting.target(batch, self.measure.against)[:, : logits.shape[1]]
        said = target != self.setting.model.pad
        chances = logits.double().log_softmax(-1).gather(-1, self.setting.known(target)[..., None])[..., 0]
        whole = (chances * said).sum(-1, keepdim=True).exp()
        labels = Labels(condition, self.measure.name, "", self.measure.against)
        self.book.put(batch, 1, whole, said.new_ones(whole.shape), False, labels)
