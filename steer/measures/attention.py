"""attention-accuracy, attention-mass: what a head that attends to the prompt looks at, against the tokens to say next.

Both take a head's pattern (B T S), the prompt (B S) and the tokens that each step should say (B T) and give a
value for every step (B T). Which steps count is the task's to say.

By the definition of the authors' code a token counts with all its copies, and only questions that the clean run answers
right are counted. Of the mass there is then also its ratio to the clean run's, which they call a head's contribution.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from steer.anatomy.keyed import KeyedNames
from steer.anatomy.named import Heads
from steer.anatomy.nodes import Site
from steer.base.errors import Key
from steer.base.fields import refined
from steer.measures.measure import Measure, Reads, Sums, crossing_heads, pattern_reads, rows_of
from steer.measures.right import AUTHORS, PAPER, Definition, RightSteps, by_definition
from steer.measures.setting import Counted, Setting
from steer.results.rows import Labels, Row
from steer.results.tally import Floats, Tally
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
    definition: Definition = PAPER

    @classmethod
    def task_fields(cls, task: Task) -> dict[str, Any]:
        return {"against": refined(cls, "against", words=vars(task.words))}

    @property
    def row_name(self) -> str:
        return by_definition(self.name, self.definition)

    def reads(self, names: KeyedNames, task: Task, key: Key) -> Reads:
        heads = crossing_heads(names, self.heads, (*key, "heads"), "attention")
        found = pattern_reads(heads, rows_of(self.row_name, heads, self.against))
        if self.definition == PAPER or not heads:
            return found
        return replace(found, all=(*found.all, names.layout.logits))  # which questions are answered right

    def sums(self, setting: Setting) -> Sums:
        return Attention(setting, self) if self.definition == PAPER else AuthorsAttention(setting, self)

    def compared(self, setting: Setting, batch: Batch, value: Tensor) -> Tensor:
        """Only some of its steps count."""
        return batch.at(ANSWER, value)[setting.scoring.counts(setting.target(batch, "answer"))]


class Attention(Counted):
    def __init__(self, setting: Setting, measure: AttentionMeasure) -> None:
        super().__init__(setting)
        self.measure, self.heads = measure, setting.heads(measure.heads)

    def add(self, batch: Batch, condition: str, values: Reading) -> None:
        target = self.setting.target(batch, self.measure.against)
        counted = self.counted(batch, values, target)
        for head in self.heads:
            pattern = batch.at(ANSWER, values[Site(head, "pattern")])  # B T S
            looked = self.looked(pattern, batch.tokens[self.setting.model.layout.looks_at(head)], target)
            labels = Labels(condition, self.measure.row_name, str(head), self.measure.against)
            hits = self.measure.name == "attention-accuracy"
            self.book.put(batch, self.positions, looked, counted, hits, labels)

    def looked(self, pattern: Tensor, prompt: Tensor, target: Tensor) -> Tensor:
        return LOOKED[self.measure.name](pattern, prompt, target)

    def counted(self, batch: Batch, values: Reading, target: Tensor) -> Tensor:
        return self.setting.scoring.counts(target)


class AuthorsAttention(Attention):
    """Tokens with all their copies, on questions that the clean run answers right.

    For the accuracy every step must be right, the end among them; for the mass every step that is counted.
    """

    def __init__(self, setting: Setting, measure: AttentionMeasure) -> None:
        super().__init__(setting, measure)
        self.right = RightSteps(setting)

    def looked(self, pattern: Tensor, prompt: Tensor, target: Tensor) -> Tensor:
        if self.measure.name == "attention-mass":
            return attention_mass(pattern, prompt, target)
        left_out = [token for token in (self.setting.model.end, self.setting.model.pad) if token is not None]
        return accuracy_by_copies(pattern, prompt, target, left_out)

    def counted(self, batch: Batch, values: Reading, target: Tensor) -> Tensor:
        answer, counts = self.setting.target(batch, "answer"), self.setting.scoring.counts
        asked = counts(answer) if self.measure.name == "attention-mass" else answer != self.setting.model.pad
        return counts(target) & self.right.whole(batch, values, asked)

    def rows(self, weights: Floats) -> list[Row]:
        rows = super().rows(weights)
        if self.measure.name == "attention-accuracy":
            return rows
        clean = next(iter(self.book.tallies), Labels()).condition  # it comes first
        pairs = [(tally, self.book.tallies[replace(key, condition=clean)]) for key, tally in self.book.tallies.items()]
        return [*rows, *(row for changed, before in pairs for row in contribution(changed, before, weights))]


def contribution(changed: Tally, clean: Tally, weights: Floats) -> list[Row]:
    """The mean mass in a condition over that in the clean run, on the same steps."""
    import numpy as np

    over, under = changed.values.sum(1), clean.values.sum(1)
    if not under.sum() > 0:
        return []
    drawn = weights @ over, weights @ under
    low, high = map(float, np.percentile((drawn[0] / drawn[1])[drawn[1] > 0], [2.5, 97.5]))
    labels = replace(changed.labels, measure=CONTRIBUTION, unit="ratio")
    count = int(changed.counts.sum())
    return [Row(**vars(labels), value=float(over.sum() / under.sum()), low=low, high=high, counted=count,
                examples=len(over))]  # fmt: skip


def attention_accuracy(pattern: Tensor, prompt: Tensor, target: Tensor) -> Tensor:
    """Is the most attended token the one that should come next?"""
    looked_at = prompt.gather(1, pattern.argmax(-1))  # B T
    return (looked_at == target).double()


def attention_mass(pattern: Tensor, prompt: Tensor, target: Tensor) -> Tensor:
    """How much attention falls on tokens that are the one that should come next?"""
    right = prompt[:, None, :] == target[:, :, None]  # B T S
    return (pattern * right).sum(-1).double()


def accuracy_by_copies(pattern: Tensor, prompt: Tensor, target: Tensor, left_out: list[int]) -> Tensor:
    """Is the token whose copies together get most attention the one that should come next?"""
    size = max(int(prompt.max()), int(target.max()), *left_out) + 1
    together = pattern.new_zeros(*pattern.shape[:2], size)  # B T V
    together.scatter_add_(2, prompt[:, None].expand_as(pattern), pattern)
    together[..., left_out] = -1.0
    return (together.argmax(-1) == target).double()


CONTRIBUTION = by_definition("contribution", AUTHORS)
LOOKED = {"attention-accuracy": attention_accuracy, "attention-mass": attention_mass}
