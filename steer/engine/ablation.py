"""Statistics that stand in for ablated values: means over examples, and another example's value.

Means count real tokens only. At positions that no example reaches, the mean over all tokens is used. One kind of mean
counts padding as well, because the authors of the paper do: it depends on which examples share a batch.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor


class Means:
    """Running sums over batches, for each hook: one mean a position and one over all tokens."""

    def __init__(self) -> None:
        self.sums: dict[str, Tensor] = {}
        self.counts: dict[str, Tensor] = {}
        self.padded: dict[str, tuple[Tensor, int]] = {}  # sums and counts with padding

    def add(self, values: Mapping[str, Tensor], real: Mapping[str, Tensor]) -> None:
        """`real[hook]` marks the real tokens, B T, of the sequence that the hook belongs to."""
        for hook, value in values.items():
            mask = real[hook]
            wide = mask.reshape(*mask.shape, *[1] * (value.ndim - 2))
            flat = torch.where(wide, value, 0).double()
            if hook not in self.sums:
                self.sums[hook] = value.new_zeros(0, *value.shape[2:], dtype=torch.float64)
                self.counts[hook] = value.new_zeros(0, dtype=torch.float64)
            self.sums[hook] = longer(self.sums[hook], value.shape[1])
            self.counts[hook] = longer(self.counts[hook], value.shape[1])
            self.sums[hook][: value.shape[1]] += flat.sum(0)
            self.counts[hook][: value.shape[1]] += mask.sum(0)
            before, count = self.padded.get(hook, (0, 0))
            self.padded[hook] = before + value.double().sum((0, 1)), count + mask.numel()

    def merge(self, other: Means) -> None:
        """Add the sums over other examples."""
        for hook, sums in other.sums.items():
            length = max(len(sums), len(self.sums.get(hook, ())))
            for mine, theirs in ((self.sums, sums), (self.counts, other.counts[hook])):
                mine[hook] = longer(mine[hook], length) + longer(theirs, length) if hook in mine else theirs.clone()
            before, count = self.padded.get(hook, (0, 0))
            whole, more = other.padded[hook]
            self.padded[hook] = before + whole, count + more

    def to(self, device: torch.device) -> Means:
        """The same sums on another device."""
        moved = Means()
        moved.sums = {hook: sums.to(device) for hook, sums in self.sums.items()}
        moved.counts = {hook: counts.to(device) for hook, counts in self.counts.items()}
        moved.padded = {hook: (sums.to(device), count) for hook, (sums, count) in self.padded.items()}
        return moved

    def table(self, hook: str, over: str, length: int) -> Tensor:
        """1, length, …: the mean at each position (or the same mean everywhere)."""
        sums, counts = (longer(whole[hook], length)[:length] for whole in (self.sums, self.counts))
        pooled = self.sums[hook].sum(0) / self.counts[hook].sum()
        if over == "padded":
            whole, count = self.padded[hook]
            return (whole / count).expand_as(sums)[None]
        if over == "token":
            return pooled.expand_as(sums)[None]
        wide = counts.reshape(-1, *[1] * (sums.ndim - 1))
        return torch.where(wide > 0, sums / wide.clamp(min=1), pooled)[None]


def longer(table: Tensor, length: int) -> Tensor:
    """With zeros behind it, up to this length."""
    missing = max(0, length - len(table))
    return torch.cat([table, table.new_zeros(missing, *table.shape[1:])]) if missing else table


def resample(value: Tensor, real: Tensor, rng: np.random.Generator) -> Tensor:
    """Each example takes the value of another of its batch; a shorter donor is repeated."""
    count = len(value)
    turn = torch.from_numpy(rng.permutation(count))
    donor = torch.empty_like(turn)
    donor[turn] = turn.roll(1)  # one cycle through all examples: no example is its own donor
    donor = donor.to(value.device)
    lengths = real.sum(1)[donor]  # B
    places = torch.arange(value.shape[1], device=value.device)[None] % lengths[:, None]  # B T
    return value[donor[:, None], places]
