"""What a head that attends to the prompt looks at, measured against the tokens that should come next.

Both measures take a head's pattern (B T S), the prompt (B S) and the tokens that each step should say (B T) and give a
value for every step (B T). Which steps count is the task's to say.
"""

from __future__ import annotations

from torch import Tensor


def attention_accuracy(pattern: Tensor, prompt: Tensor, target: Tensor) -> Tensor:
    """Is the most attended token the one that should come next?"""
    looked_at = prompt.gather(1, pattern.argmax(-1))  # B T
    return (looked_at == target).double()


def attention_mass(pattern: Tensor, prompt: Tensor, target: Tensor) -> Tensor:
    """How much attention falls on tokens that are the one that should come next?"""
    right = prompt[:, None, :] == target[:, :, None]  # B T S
    return (pattern * right).sum(-1).double()
