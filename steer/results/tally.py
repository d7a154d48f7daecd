"""Sums for each example, and the means and intervals computed from them.

A measure gives, for every example and output position, a value and whether it counts. A mean is the sum of values
over the sum of counts. Its interval is bootstrapped over examples, because the positions of one example are not
independent. Where each example gives one hit or miss, the interval is Wilson's: resampled misses give zero width.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from steer.results.intervals import wilson
from steer.results.rows import Labels, Row

if TYPE_CHECKING:
    from torch import Tensor

DRAWS = 1_000
UNLABELLED = Labels()
Floats = NDArray[np.float64]


class Tally:
    """Values and counts of one measure in one condition: for N examples and P output positions (1 if it has none).

    `hits`: every value is a hit (1) or a miss (0).
    """

    def __init__(self, examples: int, positions: int, hits: bool = False, labels: Labels = UNLABELLED) -> None:
        self.labels, self.hits = labels, hits
        self.values: Floats = np.zeros((examples, positions))
        self.counts: Floats = np.zeros((examples, positions))

    def put(self, rows: list[int], values: Floats, counted: Floats) -> None:
        width = values.shape[1]
        self.values[rows, :width] = values * counted
        self.counts[rows, :width] = counted

    def put_tensors(self, rows: list[int], values: Tensor, counted: Tensor) -> None:
        """Same for tensors; extra positions are cut off."""
        width = self.values.shape[1]
        self.put(rows, values[:, :width].cpu().numpy(), counted[:, :width].double().cpu().numpy())

    def only(self, rows: list[bool]) -> Tally:
        """The same with only these examples counted."""
        examples, positions = self.values.shape
        part = Tally(examples, positions, self.hits, self.labels)
        part.values[rows], part.counts[rows] = self.values[rows], self.counts[rows]
        return part

    def table(self, weights: Floats) -> list[Row]:
        """One row over all positions and, if there are several, one for each. Positions without counts give no row."""
        values = np.column_stack([self.values.sum(1), self.values])
        counts = np.column_stack([self.counts.sum(1), self.counts])
        drawn = weights @ values, weights @ counts  # draws, positions
        places = [None, *range(1, values.shape[1])] if values.shape[1] > 2 else [None]
        return [
            self._row(place, values[:, n], counts[:, n], drawn[0][:, n], drawn[1][:, n])
            for n, place in enumerate(places)
            if counts[:, n].any()
        ]

    def _row(self, place: int | None, values: Floats, counts: Floats, drawn: Floats, drawn_counts: Floats) -> Row:
        total = counts.sum()
        mean = float(values.sum() / total)
        if self.hits and (counts.max() == 1 or mean in (0, 1)):
            examples = int((counts > 0).sum())
            low, high = wilson(round(mean * examples), examples)
        else:
            seen = drawn_counts > 0
            low, high = map(float, np.percentile(drawn[seen] / drawn_counts[seen], [2.5, 97.5]))
        return Row(
            **vars(self.labels), value=mean, low=low, high=high, counted=int(total), examples=len(self.values),
            position=place,
        )  # fmt: skip


def bootstrap_weights(examples: int, seed: int, draws: int = DRAWS) -> Floats:
    """How often each example is drawn in each bootstrap sample: draws, examples."""
    rng = np.random.default_rng(seed)
    return rng.multinomial(examples, np.full(examples, 1 / examples), size=draws).astype(np.float64)
