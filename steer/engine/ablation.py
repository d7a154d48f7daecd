"""What stands in for an ablated value: a mean over reference episodes, zero, or another episode's value.

Means count real tokens only. At positions that no reference episode reaches, the mean over all tokens is used.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from steer.recipe.schema import Ablation


class Means:
    """Running sums over batches, for each hook: one mean a position and one over all tokens."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.sums: dict[str, Tensor] = {}
        self.counts: dict[str, Tensor] = {}

    def add(self, values: Mapping[str, Tensor], real: Mapping[str, Tensor]) -> None:
        """`real[hook]` marks the real tokens, B T, of the stack that the hook belongs to."""
        for path, value in values.items():
            mask = real[path]
            wide = mask.reshape(*mask.shape, *[1] * (value.ndim - 2))
            flat = torch.where(wide, value, 0).double()
            if path not in self.sums:
                self.sums[path] = value.new_zeros(self.length, *value.shape[2:], dtype=torch.float64)
                self.counts[path] = value.new_zeros(self.length, dtype=torch.float64)
            self.sums[path][: value.shape[1]] += flat.sum(0)
            self.counts[path][: value.shape[1]] += mask.sum(0)

    def table(self, path: str, over: str) -> Tensor:
        """1, length, …: the mean at each position (or the same mean everywhere)."""
        sums, counts = self.sums[path], self.counts[path]
        pooled = sums.sum(0) / counts.sum()
        if over == "token":
            return pooled.expand_as(sums)[None]
        wide = counts.reshape(-1, *[1] * (sums.ndim - 1))
        return torch.where(wide > 0, sums / wide.clamp(min=1), pooled)[None]


class Reference:
    """Gives the ablation value of a hook for a batch."""

    def __init__(self, ablation: Ablation, means: Means, sizes: Mapping[str, tuple[int, ...]], seed: int) -> None:
        self.ablation, self.sizes, self.seed = ablation, sizes, seed
        self.tables = {path: means.table(path, ablation.over) for path in means.sums}

    def value(self, path: str, clean: Mapping[str, Tensor], real: Tensor, like: Tensor, batch: int) -> Tensor:
        match self.ablation.value:
            case "zero":
                return like.new_zeros(1, 1, *self.sizes[path])
            case "resample":
                return resample(clean[path], real, np.random.default_rng((self.seed, batch)))
            case "mean":
                return self.tables[path][:, : real.shape[1]].to(like.dtype)


def resample(value: Tensor, real: Tensor, rng: np.random.Generator) -> Tensor:
    """Each episode takes the value of another of its batch; a shorter donor is read round and round."""
    count = len(value)
    turn = torch.from_numpy(rng.permutation(count))
    donor = torch.empty_like(turn)
    donor[turn] = turn.roll(1)  # one cycle through all episodes: nobody is their own donor
    donor = donor.to(value.device)
    lengths = real.sum(1)[donor]  # B
    places = torch.arange(value.shape[1], device=value.device)[None] % lengths[:, None]  # B T
    return value[donor[:, None], places]
