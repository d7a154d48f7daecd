"""Which figures a result asks for, and where they are written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from steer.figures.histogram import draw_histogram
from steer.figures.pattern import draw_patterns
from steer.figures.rates import draw_rates, is_rate
from steer.figures.scatter import draw_scatter
from steer.figures.sweep import draw_bars, draw_components, draw_positions, in_logits
from steer.figures.theme import save_figure, theme
from steer.results import NO_SHARES, Result

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
            for kind, draw, part in drawings(name, result):
                file = f"figure-{kind}" if found else "figure"
                if folder / f"{file}.png" not in found:  # two figures may come down to the same picture
                    found.append(save_figure(draw(part), folder, file))
    return found


def drawn_before(folder: Path) -> list[Path]:
    """The pictures of a folder, the first one first."""
    return [folder / "figure.png", *sorted(folder.glob("figure-*.png"))]


def drawings(name: str, result: Result) -> Iterator[tuple[str, Callable[[Result], Figure], Result]]:
    """How a figure is drawn, and from which rows: one picture for each kind of number that cannot share an axis.

    A figure that the result has nothing for is left out.
    """
    if name == "none":
        return
    if name in NEEDS:
        if result.details.get(NEEDS[name]):
            yield name, DRAWN[name], result
        return
    logits = [row for row in result.rows if in_logits(row)]
    shares = [row for row in result.rows if row["measure"] not in NO_SHARES]
    others = [row for row in result.rows if row not in logits and row not in shares]
    if shares:
        drawn = name
        if (name == "rates" and not any(map(is_rate, shares))) or (name == "positions" and not _placed(shares)):
            drawn = "bars"
        yield drawn, DRAWN[drawn], replace(result, rows=shares)
    if logits:
        yield "components", draw_components, replace(result, rows=logits)
    for measure in dict.fromkeys(row["measure"] for row in others):
        yield measure, draw_bars, replace(result, rows=[row for row in others if row["measure"] == measure])


def _placed(rows: list[dict[str, Any]]) -> bool:
    return any(row["position"] != "all" for row in rows)
