"""Intervals for what is counted and averaged."""

from __future__ import annotations

import math

Z95 = 1.959963984540054


def wilson(hits: int, total: int, z: float = Z95) -> tuple[float, float]:
    """The Wilson (1927) score interval of a proportion, which stays correct near 0 and 1."""
    if total == 0:
        return 0.0, 1.0
    rate, shrink = hits / total, 1 + z * z / total
    centre = (rate + z * z / (2 * total)) / shrink
    spread = z * math.sqrt(rate * (1 - rate) / total + z * z / (4 * total * total)) / shrink
    return max(0.0, centre - spread), min(1.0, centre + spread)
