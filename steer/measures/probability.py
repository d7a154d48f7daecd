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
        whole = answer_likelihood(logits, target, self.setting.model.pad)[:, None].exp()
        labels = Labels(condition, self.measure.name, "", self.measure.against)
        self.book.put(batch, 1, whole, whole.new_ones(whole.shape), False, labels)


def answer_likelihood(logits: Tensor, target: Tensor, pad: int) -> Tensor:
    """The log-likelihood of each example's answer, the end included: B. What fills a target need not be a token."""
    known = target.clamp(0, logits.shape[-1] - 1)
    chances = logits.double().log_softmax(-1).gather(-1, known[..., None])[..., 0]  # B T
    return (chances * (target != pad)).sum(-1)
