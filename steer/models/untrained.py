"""The same model with random weights: what a search finds in it, it finds without anything learnt."""

from __future__ import annotations

from copy import deepcopy

import torch

from steer.models.subject import Subject


@torch.no_grad()
def with_random_weights(subject: Subject, seed: int) -> Subject:
    """A copy whose matrices are drawn with the mean and the spread of its own; gains and biases stay as they are."""
    kept = {id(part): part for part in (subject.task, subject.names)}
    copy = deepcopy(subject, kept)
    dice = torch.Generator().manual_seed(seed)
    for weight in copy.model.module.parameters():
        if weight.ndim > 1:
            drawn = torch.randn(weight.shape, generator=dice, dtype=torch.float64)
            weight.copy_(drawn * weight.double().std().cpu() + weight.double().mean().cpu())
    return copy
