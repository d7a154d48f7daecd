"""Scores of answers, from logits (teacher-forced) or from tokens that the model wrote itself."""

from __future__ import annotations

import torch
from torch import Tensor


def token_accuracy(logits: Tensor, target: Tensor, pad: int) -> tuple[Tensor, Tensor]:
    """Is the likeliest next token the right one, at each step? The end counts, padding does not."""
    return (logits.argmax(-1) == target).double(), target != pad


def exact_match(logits: Tensor, target: Tensor, pad: int) -> tuple[Tensor, Tensor]:
    """Is every step right? Greedy decoding then writes the whole answer: up to a first mistake it sees the same."""
    hits = (logits.argmax(-1) == target) | (target == pad)
    right = hits.all(-1, keepdim=True)
    return right.double(), torch.ones_like(right)


def exact_tokens(written: Tensor, target: Tensor, pad: int, end: int) -> tuple[Tensor, Tensor]:
    """Do the written tokens (the end closes them) equal the target? The two may be padded to different lengths."""
    width = max(written.shape[1], target.shape[1])
    one, two = (torch.nn.functional.pad(t, (0, width - t.shape[1]), value=pad) for t in (written, target))
    right = (one == two).all(-1, keepdim=True) & (written == end).any(-1, keepdim=True)
    return right.double(), torch.ones_like(right)
