"""A Hugging Face model ready to be studied, with the task that is put to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from typing_extensions import Self

from steer.anatomy.names import Names
from steer.base.shown import Card, Shown
from steer.models.huggingface.doctor import check_quickly
from steer.models.huggingface.model import HuggingFaceModel
from steer.models.scoring import Scoring
from steer.results.provenance import Weights
from steer.tasks.task import Example, Task


@dataclass(frozen=True, eq=False, repr=False)
class HuggingFaceSubject(Shown):
    name: str
    names: Names
    model: HuggingFaceModel
    task: Task
    weights: Weights
    data_seed: int = 0

    @cached_property
    def scoring(self) -> Scoring:
        return Scoring(self.task, self.model.frame.vocabulary, self.model.like.device)

    def card(self) -> Card:
        layout = self.model.layout
        size = f"{len(layout.heads)} heads, up to {self.model.max_length:,} tokens"
        pairs = [("prompts", str(self.task.source))] if self.task.source else []
        pairs += [("weights", self.weights.sha256[:12])] if self.weights.sha256 else []
        return Card(f"checkpoint {self.name}: {size}", pairs)

    def about(self, task: Task) -> Self:
        return replace(self, task=task)

    def examine(self, examples: Sequence[Example]) -> None:
        """Refuse the model if its steps are not its own forward pass on these."""
        check_quickly(self.model, examples, self.name)
