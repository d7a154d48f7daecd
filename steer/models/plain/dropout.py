"""Dropout with cheap masks.

`torch.nn.functional.dropout` draws one float for each element, which on a CPU costs more than the matrix product
before it. Here a mask is a comparison of random *bytes*, drawn eight at a time; the rate is rounded to 1/256 and
the survivors are scaled by the exact rounded rate. One `Source` feeds all the masks of a model and is reseeded for
every step, so that a step's masks depend on its number alone and training resumes exactly.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Source:
    """The random bytes of the current step."""

    def __init__(self) -> None:
        self.seed(0)

    def seed(self, *key: int) -> None:
        self._rng = np.random.Generator(np.random.SFC64(np.random.SeedSequence(key)))

    def bytes(self, count: int) -> Tensor:
        words = self._rng.integers(0, 2**64, (count + 7) // 8, dtype=np.uint64)
        return torch.from_numpy(words.view(np.uint8)[:count])


class Dropout(nn.Module):
    """Zeroes elements at the given rate while training; the identity otherwise."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.source = Source()
        self.set_rate(rate)

    def set_rate(self, rate: float) -> None:
        self.kept = round(256 * (1 - rate))  # of 256

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.kept == 256:
            return x
        if x.device.type != "cpu":  # there the stock kernel is fast, and a mask from the host is not
            return F.dropout(x, 1 - self.kept / 256)
        mask = torch.empty_like(x, memory_format=torch.contiguous_format)
        torch.lt(self.source.bytes(x.numel()).view(x.shape), self.kept, out=mask)
        return x * mask.mul_(256 / self.kept)


def dropouts(model: nn.Module) -> list[Dropout]:
    return [module for module in model.modules() if isinstance(module, Dropout)]


def share_source(model: nn.Module) -> Source:
    """Let all dropout modules of a model draw from one source. Returns that source."""
    source = Source()
    for module in dropouts(model):
        module.source = source
    return source
