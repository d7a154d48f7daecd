"""What a forward pass of a Hugging Face model carries from step to step, and the tokens that it is about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

NONE = torch.empty(0)  # what a state holds before it is computed


@dataclass
class State:
    """A pass that starts midway is given what its first step reads."""

    tokens: Mapping[str, Tensor]  # by stack: B T
    real: Mapping[str, Tensor]  # by stack: B T, False at padding
    stream: Tensor = NONE  # B T D: the residual stream of the stack that is running
    start: Tensor = NONE  # B T D: the stream as this layer's attention read it
    memory: Tensor = NONE  # B S D: what the decoder attends to
    q: Tensor = NONE  # B T H d
    k: Tensor = NONE  # B S H d
    v: Tensor = NONE  # B S H d
    pattern: Tensor = NONE  # B H T S
    written: Tensor = NONE  # B T H d: the heads' z; or B T D: what an MLP writes
    logits: Tensor = NONE  # B T V
    hidden: dict[tuple[str, str, int | None], Tensor] = field(default_factory=dict)  # masks, made once
    turns: dict[str, tuple[Tensor, Tensor]] = field(default_factory=dict)  # angles of each stack's tokens, made once


def positions(real: Tensor) -> Tensor:
    """The number of each token among the real ones, whichever side the padding is on: B T."""
    return (real.long().cumsum(-1) - 1).clamp(min=0)


def hidden_keys(queries: Tensor, keys: Tensor, causal: bool, window: int | None) -> Tensor:
    """True where a query may not look: at padding, ahead, further back than the window. B 1 T S."""
    hidden = ~keys[:, None, None, :].expand(-1, 1, queries.shape[1], -1)
    if not causal:
        return hidden
    place = torch.arange(keys.shape[1], device=keys.device)
    back = place[:, None] - place[None]  # T S
    return hidden | (back < 0) | (back >= (window or len(place)))
