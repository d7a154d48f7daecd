"""attention-accuracy, attention-mass: what a head that attends to the prompt looks at, against the tokens to say next.

Right to look at are the tokens that should come next, or those of a named span. Both measures take a head's pattern and
the places that are right (B T S) and give a value for every step (B T). Which steps count is the task's to say.

By the definition of the authors' code a token counts with all its copies, and only questions that the clean run answers
right are counted. Of the mass there is then also its ratio to the clean run's, which they call a head's contribution.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field, model_validator
from typing_extensions import Self

from steer.anatomy.keyed import KeyedNames
from steer.anatomy.named import Heads
from steer.anatomy.nodes import Node, Site
from steer.base.errors import Key, KeyedError
from steer.base.fields import Fields, one_of, refined
from steer.measures.measure import Measure, Reads, Sums, crossing_heads, pattern_reads, rows_of
from steer.measures.right import AUTHORS, PAPER, Definition, RightSteps, by_definition
from steer.measures.setting import Counted, Setting
from steer.results.rows import Labels, Row
from steer.results.tally import Floats, Tally
from steer.tasks.task import ANSWER, Task, named_places

if TYPE_CHECKING:
    from torch import Tensor

    from steer.models.protocol import Batch, Reading
    from steer.results.tally import Floats


class AttentionMeasure(Measure):
    """`accuracy`: the most attended token is the right next one. `mass`: how much attention right tokens get."""

    step_by_step: ClassVar[bool] = True
    name: Literal["attention-accuracy", "attention-mass"]
    heads: Annotated[Heads, Field(description="heads to measure")]
    against: Annotated[
        Literal["answer", "counterfactual"], Field(description="the right answer, or {program}'s under the swap")
    ] = "answer"
    span: Annotated[
        str | None, Field(description="right is what stands in this span of the prompt, whatever is to be said next")
    ] = None
    definition: Definition = PAPER

    @property
    def apart(self) -> bool:
        return True

    @classmethod
    def task_fields(cls, task: Task) -> Fields:
        return {
            "against": refined(cls, "against", words=vars(task.words)),
            "span": refined(cls, "span", one_of(task.span_names) | None),
        }

    @model_validator(mode="after")
    def _either(self) -> Self:
        if self.span is not None and self.against != "answer":
            raise ValueError("a span is looked at whatever the answer is: leave `against` out")
        if self.span is not None and self.definition != PAPER:
            raise ValueError("the authors' definition is of the answer's tokens: leave `span` out")
        return self

    @property
    def looked_at(self) -> str:
        return self.span or ""

    @property
    def held_against(self) -> str:
        return self.against if self.span is None else f"span {self.span}"

    @property
    def row_name(self) -> str:
        return by_definition(self.name, self.definition)

    def reads(self, names: KeyedNames, task: Task, key: Key) -> Reads:
        heads = crossing_heads(names, self.heads, (*key, "heads"), "attention")
        reads = pattern_reads(heads, rows_of(self.row_name, heads, self.held_against))
        if self.definition == PAPER or not heads:
            return reads
        return replace(reads, all=(*reads.all, names.layout.logits))  # which questions are answered right

    def sums(self, setting: Setting) -> Sums:
        return Attention(setting, self) if self.definition == PAPER else AuthorsAttention(setting, self)

    def compared(self, setting: Setting, batch: Batch, value: Tensor) -> Tensor:
        """Only some of its steps count."""
        return batch.at(ANSWER, value)[setting.scoring.counts(setting.target(batch, "answer"))]


class Attention(Counted):
    def __init__(self, setting: Setting, measure: AttentionMeasure) -> None:
        super().__init__(setting)
        self.measure, self.heads = measure, setting.heads(measure.heads)
        self.without = 0  # episodes that do not have the span
        if measure.span is not None:
            self.without = sum(not named_places(episode, measure.span) for episode in setting.episodes)
            if self.without == len(setting.episodes):
                raise KeyedError([(("span",), f"none of these examples has a span {measure.span!r}")])

    def add(self, batch: Batch, condition: str, values: Reading) -> None:
        target = self.setting.target(batch, self.measure.against)
        counted = self.counted(batch, values, target)
        for head in self.heads:
            pattern = batch.at(ANSWER, values[Site(head, "pattern")])  # B T S
            right = self._right(batch, head, target)
            labels = Labels(condition, self.measure.row_name, str(head), self.measure.held_against)
            hits = self.measure.name == "attention-accuracy"
            keys = batch.tokens[self.setting.model.layout.looks_at(head)]
            looked = self.looked(pattern, right, keys, target)
            there = counted if self.measure.span is None else counted & right.any(-1)
            self.book.put(batch, self.positions, looked, there, hits, labels)

    def looked(self, pattern: Tensor, right: Tensor, prompt: Tensor, target: Tensor) -> Tensor:
        return LOOKED[self.measure.name](pattern, right)

    def counted(self, batch: Batch, values: Reading, target: Tensor) -> Tensor:
        return self.setting.scoring.counts(target)

    def _right(self, batch: Batch, head: Node, target: Tensor) -> Tensor:
        """B T S: the keys that a head is right to look at from each step."""
        from steer.models.places import chosen

        layout = self.setting.model.layout
        if self.measure.span is None:
            return next_tokens(batch.tokens[layout.looks_at(head)], target)
        inside = chosen(layout, Site(head, "k"), [self.measure.span], batch, self.setting.episodes)  # B S
        return inside[:, None].expand(-1, target.shape[1], -1)

    def rows(self, weights: Floats) -> list[Row]:
        rows = super().rows(weights)
        if not self.without:
            return rows
        text = f"{self.without} of {len(self.setting.episodes)} examples have no span {self.measure.span!r}"
        return [replace(row, warning=text) for row in rows]


class AuthorsAttention(Attention):
    """Tokens with all their copies, on questions that the clean run answers right.

    For the accuracy every step must be right, the end among them; for the mass every step that is counted.
    """

    def __init__(self, setting: Setting, measure: AttentionMeasure) -> None:
        super().__init__(setting, measure)
        self.right = RightSteps(setting)

    def looked(self, pattern: Tensor, right: Tensor, prompt: Tensor, target: Tensor) -> Tensor:
        if self.measure.name == "attention-mass":
            return attention_mass(pattern, right)
        left_out = [token for token in (self.setting.model.end, self.setting.model.pad) if token is not None]
        return accuracy_by_copies(pattern, prompt, target, left_out)

    def counted(self, batch: Batch, values: Reading, target: Tensor) -> Tensor:
        answer, counts = self.setting.target(batch, "answer"), self.setting.scoring.counts
        steps = counts(answer) if self.measure.name == "attention-mass" else answer != self.setting.model.pad
        return counts(target) & self.right.whole(batch, values, steps)

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


def next_tokens(prompt: Tensor, target: Tensor) -> Tensor:
    """B T S: where the prompt (B S) holds the token that a step should say (B T)."""
    return prompt[:, None, :] == target[:, :, None]


def attention_accuracy(pattern: Tensor, prompt: Tensor, target: Tensor) -> Tensor:
    """Is the most attended token the one that should come next?"""
    return looks_right(pattern, next_tokens(prompt, target))


def looks_right(pattern: Tensor, right: Tensor) -> Tensor:
    """Is the most attended place one of those that are right?"""
    return right.gather(-1, pattern.argmax(-1, keepdim=True))[..., 0].double()


def attention_mass(pattern: Tensor, right: Tensor) -> Tensor:
    """How much attention falls on the places that are right?"""
    return (pattern * right).sum(-1).double()


def accuracy_by_copies(pattern: Tensor, prompt: Tensor, target: Tensor, left_out: list[int]) -> Tensor:
    """Is the token whose copies together get most attention the one that should come next?"""
    size = max(int(prompt.max()), int(target.max()), *left_out) + 1
    together = pattern.new_zeros(*pattern.shape[:2], size)  # B T V
    together.scatter_add_(2, prompt[:, None].expand_as(pattern), pattern)
    together[..., left_out] = -1.0
    return (together.argmax(-1) == target).double()


CONTRIBUTION = by_definition("contribution", AUTHORS)
LOOKED = {"attention-accuracy": looks_right, "attention-mass": attention_mass}
