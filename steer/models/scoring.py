"""Which tokens a task counts and compares, as tables over a model's token ids."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor

from steer.models.vocabulary import Vocabulary
from steer.tasks.task import Example, Task


class Scoring:
    def __init__(self, task: Task, vocabulary: Vocabulary, device: torch.device | str = "cpu") -> None:
        self.task, self.vocabulary, self.device = task, vocabulary, device

    @property
    def tokens(self) -> tuple[str, ...]:
        """The tokens that count, in the order of their ids."""
        return tuple(token for token in self.vocabulary.tokens if self.task.counts(token))

    @cached_property
    def _counted(self) -> Tensor:  # V
        return torch.tensor([self.task.counts(token) for token in self.vocabulary.tokens], device=self.device)

    def counts(self, ids: Tensor) -> Tensor:
        """Which of these tokens count."""
        return self._counted[ids]

    def alternatives(self, examples: Sequence[Example]) -> list[tuple[int, ...]]:
        """For each example the ids of the tokens whose mean logit a logit is compared with."""
        return [tuple(self.vocabulary.encode(self.task.alternatives(example))) for example in examples]
