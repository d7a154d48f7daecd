"""The figures of a thing as PNGs in memory, for a notebook's cell."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from steer.drawing.figures.circuit import circuit_figure
from steer.drawing.figures.draw import planned
from steer.drawing.figures.pattern import before_after_figure, pattern_figure
from steer.drawing.figures.theme import rendered, theme
from steer.results.circuit import Circuit
from steer.results.details import Pattern
from steer.results.result import Result


def drawn_for(thing: Any, dots: int) -> list[bytes]:
    with theme():
        return [rendered(figure, "png", dots) for figure in _figures(thing)]


def _figures(thing: Any) -> list[Figure]:
    match thing:
        case Result():
            return [draw(part) for draw, part in planned(thing).values()]
        case Circuit():
            return [circuit_figure(thing)] if thing.members else []
        case Pattern():
            return [pattern_figure(thing)]
        case _:
            return [before_after_figure(*thing.patterns)] if len(thing.patterns) == 2 else []
