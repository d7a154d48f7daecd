"""Activations of clean runs, kept with their batch while they fit into one budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from steer.models.protocol import Batch

BUDGET = 1 << 30  # bytes
Values = dict[str, Tensor]  # by hook


class Store:
    """Values of clean runs by batch. When the budget is full, the oldest other group of batches is dropped."""

    def __init__(self, budget: int = BUDGET) -> None:
        self.budget = budget
        self._kept: dict[Batch, Values] = {}
        self._groups: list[Sequence[Batch]] = []

    def add_group(self, batches: Sequence[Batch]) -> None:
        """Batches of one list of examples, which are kept or dropped together."""
        self._groups.append(batches)
        self._kept |= {batch: {} for batch in batches}

    def kept(self, batch: Batch) -> Mapping[str, Tensor]:
        return self._kept.get(batch, {})

    def keep(self, batch: Batch, values: Mapping[str, Tensor]) -> None:
        """Keep these values if they fit, dropping other groups if necessary. A batch of no group keeps none."""
        if batch not in self._kept:
            return
        new = size(values)
        others = [group for group in self._groups if all(one is not batch for one in group)]
        while others and self.bytes + new > self.budget:
            for other in others.pop(0):
                self._kept[other].clear()
        if self.bytes + new <= self.budget:
            self._kept[batch].update(values)

    @property
    def bytes(self) -> int:
        """Bytes that are kept."""
        return sum(map(size, self._kept.values()))


def size(values: Mapping[str, Tensor]) -> int:
    return sum(value.nbytes for value in values.values())
