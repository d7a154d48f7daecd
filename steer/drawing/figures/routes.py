"""Curves from box to box, from below, that pass through no third one."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import product

import numpy as np
import numpy.typing as npt

Point = tuple[float, float]
Box = tuple[float, float, float, float]  # left, bottom, right, top
Points = npt.NDArray[np.float64]
STEP, MOST = 20.0, 24  # dots by which a curve's ends are turned aside, and how often at most
ALONG = np.linspace(0.0, 1.0, 80)[:, None]
TURNS: list[tuple[int, int]] = sorted(
    product(range(-MOST, MOST + 1), range(-MOST, MOST + 1)), key=lambda two: (two[0] ** 2 + two[1] ** 2, two)
)


def corners(start: Point, end: Point, turns: tuple[float, float]) -> Points:
    """The four points of a Bézier curve: its ends, and where each is turned to. Without turns it is straight."""
    ends = np.array([start, end], dtype=float)
    third = (ends[1] - ends[0]) / 3
    return np.array([ends[0], ends[0] + third + (turns[0], 0), ends[1] - third + (turns[1], 0), ends[1]])


def curve(four: Points) -> Points:
    """Points along it."""
    weights = (1 - ALONG) ** 3, 3 * ALONG * (1 - ALONG) ** 2, 3 * ALONG**2 * (1 - ALONG), ALONG**3
    return np.hstack(weights) @ four


def crossed(points: Points, boxes: Collection[Box], apart: float = 0.0) -> int:
    """How many boxes a curve passes through, or comes too near to."""
    x, y = points[:, 0], points[:, 1]
    return sum(
        bool(((x > left - apart) & (x < right + apart) & (y > bottom - apart) & (y < top + apart)).any())
        for left, bottom, right, top in boxes
    )


def route(start: Point, end: Point, boxes: Mapping[str, Box], own: Collection[str], apart: float) -> Points:
    """The straightest curve that passes through no box but its own two; if it must, through as few as can be."""
    others = [box for name, box in boxes.items() if name not in own]
    hits: dict[tuple[int, int], int] = {}
    for turns in TURNS:
        four = corners(start, end, (STEP * turns[0], STEP * turns[1]))
        hits[turns] = crossed(curve(four), others, apart)
        if not hits[turns]:
            return four
    best = min(hits, key=hits.__getitem__)
    return corners(start, end, (STEP * best[0], STEP * best[1]))
