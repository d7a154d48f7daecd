"""OV alignment over many episodes: own row against the null of all other rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from steer.results.details import Histogram, Sample
from steer.results.tally import Floats, Tally

BINS = 60
NULL_PERCENTILE = 97.5
ABOVE_NULL = "ov-above-null"  # a share of tokens; the other measure here is an inner product


class Alignment:
    """Inner products of what a head would copy from each token with its own unembedding row and with the others."""

    def __init__(self, episodes: int) -> None:
        self.episodes = episodes
        self._parts: list[tuple[NDArray[np.int64], Floats, Floats]] = []

    def add(self, owners: NDArray[np.int64], own: Floats, other: Floats) -> None:
        """`owners`: the episode of each token (N); `own`: N; `other`: N, V - 1."""
        self._parts.append((owners, own, other))

    @property
    def owners(self) -> NDArray[np.int64]:
        return np.concatenate([owners for owners, _, _ in self._parts])

    @property
    def own(self) -> Floats:
        return np.concatenate([own for _, own, _ in self._parts])

    @property
    def other(self) -> Floats:
        return np.concatenate([other for _, _, other in self._parts])

    def tallies(self) -> list[tuple[str, str, Tally]]:
        """(measure, compared with what, sums for each episode): own row, other rows, share above the null."""
        own, other = self.own, self.other
        above = (own > np.percentile(other, NULL_PERCENTILE)).astype(np.float64)
        return [
            ("ov-alignment", "own row", self._tally(own)),
            ("ov-alignment", "other rows", self._tally(other.mean(1))),
            (ABOVE_NULL, "other rows", self._tally(above)),
        ]

    def _tally(self, values: Floats) -> Tally:
        tally = Tally(self.episodes, 1)
        counts = np.bincount(self.owners, minlength=self.episodes)
        sums = np.bincount(self.owners, weights=values, minlength=self.episodes)
        rows = np.flatnonzero(counts)
        tally.put(rows.tolist(), (sums[rows] / counts[rows])[:, None], counts[rows, None].astype(np.float64))
        return tally

    def histogram(self, condition: str, head: str) -> Histogram:
        """Both distributions, counted in the same bins."""
        own, null = self.own, self.other.ravel()
        edges = np.histogram_bin_edges(np.concatenate([own, null]), BINS)
        others = _sample(null, edges)
        above, bins = float((own > others.high).mean()), tuple(round(float(edge), 5) for edge in edges)
        return Histogram(condition, head, len(own), above, bins, _sample(own, edges), others)


def _sample(values: Floats, edges: Floats) -> Sample:
    low, high = np.percentile(values, [2.5, 97.5])
    return Sample(float(values.mean()), float(low), float(high), tuple(np.histogram(values, edges)[0].tolist()))
