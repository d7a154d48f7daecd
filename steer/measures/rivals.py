"""The tokens that a right token's logit is held against, step by step of the answer.

`wrong`: those of the wrong answers that the task gives; `counterfactual`: those of the answer that is expected under
the intervention. The right tokens are fed in, so a rival's token at step i is what it would say there in place of the
right one. Steps at which a rival has no token, or the right one, have none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from steer.base.errors import KeyedError
from steer.tasks.task import ANSWER, Example, Task, Tokens, start_alike

if TYPE_CHECKING:
    from torch import Tensor

    from steer.measures.setting import Setting
    from steer.models.protocol import Batch

Steps: TypeAlias = Literal["first", "all"]
SHOWN = 3  # examples that a message names


@dataclass(frozen=True)
class Rivals:
    """Of some examples, for each step of the answer, the ids of the rivals' tokens."""

    ids: Tensor  # B T K
    there: Tensor  # B T K: False where fewer

    @property
    def counted(self) -> Tensor:
        """B T: the steps that have a rival."""
        return self.there.any(-1)

    def mean(self, table: Tensor) -> Tensor:
        """The mean of the rivals' entries in a table of tokens (V …): B T …; zero where there are none."""
        return self._mean(table[self.ids])

    def mean_of_logits(self, logits: Tensor) -> Tensor:
        """The mean logit of the rivals: B T, of B T V."""
        return self._mean(logits.gather(-1, self.ids))

    def _mean(self, entries: Tensor) -> Tensor:
        weights = self.there.to(entries.dtype) / self.there.sum(-1, keepdim=True).clamp(min=1)
        return (entries * weights.reshape(*weights.shape, *[1] * (entries.ndim - 3))).sum(2)


class RivalTokens:
    """The rivals of every example, by token; faults and warnings of examples that have none."""

    def __init__(self, setting: Setting, against: str, steps: Steps) -> None:
        self.setting, self.steps = setting, steps
        others = others_of(setting, against)
        self.each = [by_step(one, its, steps) for one, its in zip(setting.episodes, others, strict=True)]
        without = sum(not any(one) for one in self.each)
        if steps == "first":
            check_firsts(setting.task, setting.episodes, others)
        if without == len(self.each):
            raise KeyedError([(("against",), f"no example has an answer to hold the right one against ({against})")])
        self.warning = f"{without} of {len(self.each)} examples have no {against} answer" if without else ""

    def of(self, batch: Batch, width: int) -> Rivals:
        """`width`: how many steps a target of the batch has."""
        import torch

        most = max(len(tokens) for one in self.each for tokens in one)
        ids = torch.zeros(len(batch.rows), width, most, dtype=torch.long)
        there = torch.zeros_like(ids, dtype=torch.bool)
        encode = self.setting.vocabulary.encode
        for number, row in enumerate(batch.rows):
            for step, tokens in enumerate(self.each[row]):
                ids[number, step, : len(tokens)] = torch.tensor(encode(tokens), dtype=torch.long)
                there[number, step, : len(tokens)] = True
        device = self.setting.model.like.device
        return Rivals(ids.to(device), there.to(device))


def answer_logits(batch: Batch, logits: Tensor, steps: Steps) -> Tensor:
    """The logits that say the answer, or its first token: B T V."""
    answers = batch.at(ANSWER, logits)
    return answers[:, :1] if steps == "first" else answers


def others_of(setting: Setting, against: str) -> Sequence[Sequence[Tokens]]:
    """For each example the answers that its own is held against."""
    if against == "counterfactual":
        return [[other.answer] for other in setting.answers["counterfactual"]]
    return [setting.task.wrong(example) for example in setting.episodes]


def by_step(example: Example, others: Sequence[Tokens], steps: Steps) -> list[tuple[str, ...]]:
    """For each step the rivals' tokens there, as far as they are other tokens than the right one."""
    counted = example.answer[:1] if steps == "first" else example.answer
    said = [[other[step] for other in others if len(other) > step] for step in range(len(counted))]
    return [tuple(t for t in tokens if t != right) for tokens, right in zip(said, counted, strict=True)]


def check_firsts(task: Task, examples: Sequence[Example], others: Sequence[Sequence[Tokens]]) -> None:
    """Raise where an answer and its rival start with the same token: their difference there is no number."""
    same = [
        (example, other[0])
        for example, answers in zip(examples, others, strict=True)
        for other in answers
        if start_alike(example.answer, other)
    ]
    shown = [f"{task.place(example)}: both answers start with {token!r}" for example, token in same[:SHOWN]]
    if same:
        more = f"; {len(same) - SHOWN} examples more" if len(same) > SHOWN else ""
        text = f"{'; '.join(shown)}{more}: their first tokens' logits do not differ (steps: all takes later ones)"
        raise KeyedError([(("steps",), text)])
