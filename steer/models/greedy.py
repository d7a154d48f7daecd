"""Answers that a model writes itself, step by step, and answers that it is made to repeat."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from steer.models.protocol import Batch, Model
from steer.tasks.task import ANSWER


def write_answers(model: Model, batch: Batch, logits_of: Callable[[Batch], Tensor], longest: int) -> Tensor:
    """Token ids until the end token, padded: B, at most `longest`. `logits_of` gives B T V for what is said so far."""
    now = model.unanswered(batch)
    done = torch.zeros(len(batch.rows), dtype=torch.bool, device=model.like.device)
    said: list[Tensor] = []
    while len(said) < longest and not done.all():
        step = now.at(ANSWER, logits_of(now))[:, -1].argmax(-1).masked_fill(done, model.pad)
        said.append(step)
        if model.end is not None:
            done |= step == model.end
        now = model.answered(now, step)
    return torch.stack(said, dim=1)


def saying_the_same(model: Model, batch: Batch, other: Batch) -> Batch:
    """A batch with the tokens that another batch has said so far as its own answers."""
    said = other.at(ANSWER, other.tokens[model.layout.answer])[:, 1:]  # at the first step nothing was
    now = model.unanswered(batch)
    for step in said.unbind(1):
        now = model.answered(now, step)
    return now
