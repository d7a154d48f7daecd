"""What a cross-attention head looks at, measured against the tokens that should come next.

Both measures take a head's pattern (B T S), the prompt (B S) and the tokens that each step should say (B T); they
give a value for every step and mark the steps that count: those whose token is a colour.
"""

from __future__ import annotations

import torch
from torch import Tensor

from steer.tasks.compositional.vocabulary import COLOUR_IDS


def is_colour(target: Tensor) -> Tensor:
    return torch.isin(target, torch.tensor(COLOUR_IDS, device=target.device))


def attention_accuracy(pattern: Tensor, prompt: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Is the most attended token the one that should come next?"""
    looked_at = prompt.gather(1, pattern.argmax(-1))  # B T
    return (looked_at == target).double(), is_colour(target)


def attention_mass(pattern: Tensor, prompt: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """How much attention falls on tokens that are the one that should come next?"""
    right = prompt[:, None, :] == target[:, :, None]  # B T S
    return (pattern * right).sum(-1).double(), is_colour(target)
