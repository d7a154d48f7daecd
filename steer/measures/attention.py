"""attention-accuracy, attention-mass: what a head that attends to the prompt looks at, against the tokens to say next.

Both take a head's pattern (B T S), the prompt (B S) and the tokens that each step should say (B T) and give a
value for every step (B T). Which steps count is the task's to say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from steer.anatomy.keyed import KeyedNames
from steer.anatomy.named import Heads
from steer.anatomy.nodes import Site
from steer.base.errors import Key
from steer.base.fields import refined
from steer.measures.measure import Measure, Reads, Sums, crossing_heads, pattern_reads, rows_of
from steer.measures.setting import Counted, Setting
from steer.results.rows import Labels
from steer.tasks.task import ANSWER, Task

if TYPE_CHECKING:
    from torch import Tensor

    from steer.models.protocol import Batch, Reading


class AttentionMeasure(Measure):
    """`accuracy`: the most attended token is the right next one. `mass`: how much attention right tokens get."""

    step_by_step: ClassVar[bool] = True
    name: Literal["attention-accuracy", "attention-mass"]
    heads: Annotated[Heads, Field(description="heads to measure")]
    against: Annotated[
        Literal["answer", "counterfactual"], Field(description="the right answer, or {program}'s under the swap")
    ] = "answer"

    @classmethod
    def task_fields(cls, task: Task) -> dict[str, Any]:
        return {"against": refined(cls, "against", words=vars(task.words))}

    def reads(self, names: KeyedNames, task: Task, key: Key) -> Reads:
        heads = crossing_heads(names, self.heads, (*key, "heads"), "attention")
        return pattern_reads(heads, rows_of(self.name, heads, self.against))

    def sums(self, setting: Setting) -> Sums:
        return Attention(setting, self)

    def compared(self, setting: Setting, batch: Batch, value: Tensor) -> Tensor:
        """Only some of its steps count."""
        return batch.at(ANSWER, value)[setting.scoring.counts(setting.target(batch, "answer"))]


class Attention(Counted):
    def __init__(self, setting: Setting, measure: AttentionMeasure) -> None:
        super().__init__(setting)
        self.measure, self.heads = measure, setting.heads(measure.heads)

    def add(self, batch: Batch, condition: str, values: Reading) -> None:
        target = self.setting.target(batch, self.measure.against)
        for head in self.heads:
            pattern = batch.at(ANSWER, values[Site(head, "pattern")])  # B T S
            looked = LOOKED[self.measure.name](pattern, batch.tokens[self.setting.model.layout.looks_at(head)], target)
            labels = Labels(condition, self.measure.name, str(head), self.measure.against)
            hits = self.measure.name == "attention-accuracy"
            self.book.put(batch, self.positions, looked, self.setting.scoring.counts(target), hits, labels)


def attention_accuracy(pattern: Tensor, prompt: Tensor, target: Tensor) -> Tensor:
    """Is the most attended token the one that should come next?"""
    looked_at = prompt.gather(1, pattern.argmax(-1))  # B T
    return (looked_at == target).double()


def attention_mass(pattern: Tensor, prompt: Tensor, target: Tensor) -> Tensor:
    """How much attention falls on tokens that are the one that should come next?"""
    right = prompt[:, None, :] == target[:, :, None]  # B T S
    return (pattern * right).sum(-1).double()


LOOKED = {"attention-accuracy": attention_accuracy, "attention-mass": attention_mass}
