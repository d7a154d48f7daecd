"""attention-accuracy, attention-mass: what a head that attends to the prompt looks at, against the tokens to say next.

Right to look at are the tokens that should come next, or those of a named span. Both measures take a head's pattern and
the places that are right (B T S) and give a value for every step (B T). Which steps count is the task's to say.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator
from typing_extensions import Self

from steer.anatomy.keyed import KeyedNames
from steer.anatomy.named import Heads
from steer.anatomy.nodes import Node, Site
from steer.base.errors import Key, KeyedError
from steer.base.fields import one_of, refined
from steer.measures.measure import Measure, Reads, Sums, crossing_heads, pattern_reads, rows_of
from steer.measures.setting import Counted, Setting
from steer.results.rows import Labels, Row
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

    @classmethod
    def task_fields(cls, task: Task) -> dict[str, Any]:
        return {
            "against": refined(cls, "against", words=vars(task.words)),
            "span": refined(cls, "span", one_of(task.span_names) | None),
        }

    @model_validator(mode="after")
    def _either(self) -> Self:
        if self.span is not None and self.against != "answer":
            raise ValueError("a span is looked at whatever the answer is: leave `against` out")
        return self

    @property
    def looked_at(self) -> str:
        return self.span or ""

    @property
    def held_against(self) -> str:
        return self.against if self.span is None else f"span {self.span}"

    def reads(self, names: KeyedNames, task: Task, key: Key) -> Reads:
        heads = crossing_heads(names, self.heads, (*key, "heads"), "attention")
        return pattern_reads(heads, rows_of(self.name, heads, self.held_against))

    def sums(self, setting: Setting) -> Sums:
        return Attention(setting, self)

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
        counted = self.setting.scoring.counts(target)
        for head in self.heads:
            pattern = batch.at(ANSWER, values[Site(head, "pattern")])  # B T S
            right = self._right(batch, head, target)
            labels = Labels(condition, self.measure.name, str(head), self.measure.held_against)
            hits = self.measure.name == "attention-accuracy"
            looked, there = LOOKED[self.measure.name](pattern, right), counted
            if self.measure.span is not None:
                there = counted & right.any(-1)
            self.book.put(batch, self.positions, looked, there, hits, labels)

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


LOOKED = {"attention-accuracy": looks_right, "attention-mass": attention_mass}
