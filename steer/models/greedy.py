"""Answers that a model writes itself: the likeliest token at each step, fed back."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from steer.models.protocol import Batch, Model


def write_answers(model: Model, batch: Batch, logits_of: Callable[[Batch], Tensor], longest: int) -> Tensor:
    """Token ids until the end token, padded: B, at most `longest`. `logits_of` gives B T V for what is said so far."""
    now = model.unanswered(batch)
    done = torch.zeros(len(batch.rows), dtype=torch.bool, device=model.like.device)
    said: list[Tensor] = []
    while len(said) < longest and not done.all():
        step = logits_of(now)[:, -1].argmax(-1).masked_fill(done, model.pad)
        said.append(step)
        done |= step == model.end
        now = model.answered(now, step)
    return torch.stack(said, dim=1)
