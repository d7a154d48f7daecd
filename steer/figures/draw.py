"""Which figures a result asks for, and where they are written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from matplotlib.figure import Figure

from steer.figures.histogram import draw_histogram
from steer.figures.pattern import draw_patterns
from steer.figures.rates import draw_rates
from steer.figures.scatter import draw_scatter
from steer.figures.sweep import draw_bars, draw_components, draw_positions, in_logits
from steer.figures.theme import save_figure, theme
from steer.results import Result

NEEDS = {"scatter": "points", "patterns": "patterns", "histogram": "alignments"}  # figure -> details that it draws
DRAWN: dict[str, Callable[[Result], Figure]] = {
    "bars": draw_bars,
    "positions": draw_positions,
    "scatter": draw_scatter,
    "patterns": draw_patterns,
    "histogram": draw_histogram,
    "rates": draw_rates,
}


def draw_result(result: Result, folder: Path) -> list[Path]:
    """The figures that the recipe asked for: `figure.png` for the first, `figure-NAME.png` for the others."""
    asked = result.metadata["recipe"]["figure"]
    names = [asked] if isinstance(asked, str) else list(asked)
    found: list[Path] = []
    with theme():
        for name in dict.fromkeys(names):
            draw = _drawing(name, result)
            if draw is not None:
                found.append(save_figure(draw(result), folder, f"figure-{name}" if found else "figure"))
    return found


def _drawing(name: str, result: Result) -> Callable[[Result], Figure] | None:
    """How this figure is drawn; a figure that the result has nothing for is left out."""
    if name == "none":
        return None
    if name in NEEDS:
        return DRAWN[name] if result.details.get(NEEDS[name]) else None
    if not result.rows:
        return None
    if in_logits(result.rows):
        return draw_components
    placed = any(row["position"] != "all" for row in result.rows)
    return DRAWN[name] if name in ("bars", "rates") or placed else draw_bars
