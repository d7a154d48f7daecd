"""OV alignment over many episodes: own row against the null of all other rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from steer.results.tally import Floats, Tally

BINS = 60
NULL_PERCENTILE = 97.5


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
        """(measure, held against what, sums for each episode): own row, other rows, share above the null."""
        own, other = self.own, self.other
        above = (own > np.percentile(other, NULL_PERCENTILE)).astype(np.float64)
        return [
            ("ov-alignment", "own row", self._tally(own)),
            ("ov-alignment", "other rows", self._tally(other.mean(1))),
            ("ov-above-null", "other rows", self._tally(above)),
        ]

    def _tally(self, values: Floats) -> Tally:
        tally = Tally(self.episodes, 1)
        counts = np.bincount(self.owners, minlength=self.episodes)
        sums = np.bincount(self.owners, weights=values, minlength=self.episodes)
        rows = np.flatnonzero(counts)
        tally.put(rows.tolist(), (sums[rows] / counts[rows])[:, None], counts[rows, None].astype(np.float64))
        return tally

    def summary(self) -> dict[str, float]:
        own, null = self.own, self.other.ravel()
        (own_low, own_high), (low, high) = (np.percentile(values, [2.5, 97.5]) for values in (own, null))
        return {
            "own_mean": float(own.mean()), "own_low": float(own_low), "own_high": float(own_high),
            "null_mean": float(null.mean()), "null_low": float(low), "null_high": float(high),
            "tokens": len(own), "above_null": float((own > high).mean()),
        }  # fmt: skip

    def histogram(self) -> dict[str, Any]:
        """Counts of both in the same bins."""
        own, null = self.own, self.other.ravel()
        edges = np.histogram_bin_edges(np.concatenate([own, null]), BINS)
        told = {"edges": [round(float(edge), 5) for edge in edges]}
        return told | {name: np.histogram(v, edges)[0].tolist() for name, v in (("own", own), ("null", null))}
