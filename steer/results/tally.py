"""Sums for each episode, and the means and intervals that follow from them.

A measure gives, for every episode and output position, a value and whether it counts. A mean is the sum of values
over the sum of counts; its interval comes from drawing episodes anew (bootstrap), because the positions of one
episode are not independent. Where each episode gives one hit or miss, the interval is Wilson's: drawing anew from
misses alone gives misses alone, and an interval without width.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from steer.results.intervals import wilson
from steer.tasks.compositional.grammar import PAPER

if TYPE_CHECKING:
    from torch import Tensor

DRAWS = 1_000
POSITIONS = PAPER.length[1]  # colours of an answer, at most
Floats = NDArray[np.float64]


class Tally:
    """Values and counts of one measure in one condition: N episodes, P output positions (one, where it has none).

    `hits`: every value is a hit (1) or a miss (0).
    """

    def __init__(self, episodes: int, positions: int, hits: bool = False, **labels: str) -> None:
        self.labels, self.hits = labels, hits
        self.values: Floats = np.zeros((episodes, positions))
        self.counts: Floats = np.zeros((episodes, positions))

    def put(self, rows: list[int], values: Floats, counted: Floats) -> None:
        width = values.shape[1]
        self.values[rows, :width] = values * counted
        self.counts[rows, :width] = counted

    def put_tensors(self, rows: list[int], values: Tensor, counted: Tensor) -> None:
        """The same, as far as there are positions."""
        width = self.values.shape[1]
        self.put(rows, values[:, :width].cpu().numpy(), counted[:, :width].double().cpu().numpy())

    def only(self, rows: list[bool]) -> Tally:
        """The same with only these episodes counted."""
        episodes, positions = self.values.shape
        part = Tally(episodes, positions, self.hits, **self.labels)
        part.values[rows], part.counts[rows] = self.values[rows], self.counts[rows]
        return part

    def table(self, weights: Floats) -> list[dict[str, Any]]:
        """One row over all positions and, where there are several, one for each."""
        values = np.column_stack([self.values.sum(1), self.values])
        counts = np.column_stack([self.counts.sum(1), self.counts])
        names = ["all", *(str(place + 1) for place in range(self.values.shape[1]))]
        if self.values.shape[1] == 1:
            values, counts, names = values[:, :1], counts[:, :1], ["all"]
        drawn_values, drawn_counts = weights @ values, weights @ counts
        rows = []
        for column, name in enumerate(names):
            total = counts[:, column].sum()
            if total == 0:
                continue
            mean = values[:, column].sum() / total
            if self.hits and (counts[:, column].max() == 1 or mean in (0, 1)):
                episodes = int((counts[:, column] > 0).sum())
                low, high = wilson(round(mean * episodes), episodes)
            else:
                seen = drawn_counts[:, column] > 0
                drawn = drawn_values[seen, column] / drawn_counts[seen, column]
                low, high = np.percentile(drawn, [2.5, 97.5])
            rows.append(
                {**self.labels, "position": name, "value": float(mean), "low": float(low), "high": float(high)}
                | {"counted": int(total), "episodes": len(self.values)}
            )
        return rows


def bootstrap_weights(episodes: int, seed: int, draws: int = DRAWS) -> Floats:
    """How often each episode is drawn in each bootstrap sample: draws, episodes."""
    rng = np.random.default_rng(seed)
    return rng.multinomial(episodes, np.full(episodes, 1 / episodes), size=draws).astype(np.float64)
