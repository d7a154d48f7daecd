"""What stands on the axes of a figure, read back; and results made to be drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
from made import made_result, made_row
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from steer.results.details import Detail, Pattern
from steer.results.result import Result
from steer.results.rows import Row


def row(condition: str, value: float, **fields: Any) -> Row:
    common = {"condition": condition, "measure": "attention-accuracy", "of": "dec-cross-1.5"}
    return made_row(value, value - 0.04, value + 0.03, **common | fields)


def result(rows: list[Row], *details: Detail, **provenance: Any) -> Result:
    return made_result(rows, *details, **{"examples": 1_234, "description": "what is shown"} | provenance)


def ticks(axis: Any) -> dict[float, str]:
    return {
        round(float(place), 6): label.get_text()
        for place, label in zip(axis.get_ticklocs(), axis.get_ticklabels(), strict=True)
    }


def nearest(names: dict[float, str], place: float) -> str:
    return names[min(names, key=lambda known: abs(known - place))]


def bars(axes: Axes) -> list[tuple[str, float, float, float, str]]:
    """Every drawn bar: the name at its tick, its place, where it begins and ends, and its colour."""
    names = ticks(axes.yaxis)
    found = []
    for patch in axes.patches:
        place = patch.get_y() + patch.get_height() / 2
        if patch.get_width():
            ends = patch.get_x(), patch.get_x() + patch.get_width()
            found.append((nearest(names, place), place, *ends, to_hex(patch.get_facecolor())))
    return found


def whiskers(axes: Axes) -> dict[float, tuple[float, float]]:
    """Horizontal lines by their place: from where to where."""
    lines = [
        segment for found in axes.collections if isinstance(found, LineCollection) for segment in found.get_segments()
    ]
    return {round(float(line[0][1]), 6): (line[0][0], line[1][0]) for line in lines}


def legend(figure: Figure) -> dict[str, str]:
    """Colour -> name."""
    (found,) = figure.legends
    names = [text.get_text() for text in found.get_texts()]
    return {to_hex(line.get_color()): name for line, name in zip(found.get_lines(), names, strict=True)}


def verticals(axes: Axes) -> list[float]:
    return [line.get_xdata()[0] for line in axes.lines if len(set(line.get_xdata())) == 1]


def pattern(head: str, condition: str, seed: int, keys: int = 4) -> Pattern:
    weights = tuple(map(tuple, np.random.default_rng(seed).random((2, keys)).round(3).tolist()))
    names = tuple(f"k{seed}{n}" for n in range(keys))
    shown = ("B S A | A = red", ("red", "blue"))
    return Pattern(head, *shown, ("SOS", f"q{seed}"), names, weights, condition, roles=("output",))


def cells(axes: Axes) -> np.ndarray:
    """What a heat map shows, whether it is drawn as an image or as a mesh."""
    shown = axes.images[0] if axes.images else axes.collections[0]
    assert (shown.norm.vmin, shown.norm.vmax) == (0, 1)
    grid = np.asarray(shown.get_array())
    return grid if axes.get_ylim()[0] > axes.get_ylim()[1] else grid[::-1]
