"""Which figures a result asks for, and where they are written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from matplotlib.figure import Figure

from steer.base.errors import SteerError
from steer.drawing.figures.histogram import draw_histogram
from steer.drawing.figures.pattern import draw_patterns
from steer.drawing.figures.rates import draw_rates, is_rate
from steer.drawing.figures.scatter import draw_scatter
from steer.drawing.figures.sweep import draw_bars, draw_components, draw_positions, in_logits
from steer.drawing.figures.theme import picture_files, save_figure, theme
from steer.results.result import NO_SHARES, RESULT, Result

NEEDS = {"scatter": "points", "patterns": "patterns", "histogram": "alignments"}  # figure -> details that it draws
DRAWN: dict[str, Callable[[Result], Figure]] = {
    "bars": draw_bars,
    "positions": draw_positions,
    "scatter": draw_scatter,
    "patterns": draw_patterns,
    "histogram": draw_histogram,
    "rates": draw_rates,
}


T = TypeVar("T")
Drawing = tuple[Callable[[Result], Figure], Result]


def planned(result: Result) -> dict[str, Drawing]:
    """The figures that the recipe asked for: `figure` for the first, `figure-NAME` for the others."""
    asked = result.metadata["recipe"]["figure"]
    names = [asked] if isinstance(asked, str) else list(asked)
    found: dict[str, Drawing] = {}
    for name in dict.fromkeys(names):
        for kind, draw, part in drawings(name, result):
            # two figures may come down to the same picture
            found.setdefault(f"figure-{kind}" if found else "figure", (draw, part))
    return found


def pictures(result: Result, folder: Path) -> list[Path]:
    return [folder / f"{name}.png" for name in planned(result)]


def are_drawn(result: Result, folder: Path) -> bool:
    """Is every picture there, and of these numbers? (The result is written first, its pictures after it.)"""
    written = (folder / RESULT).stat().st_mtime_ns
    files = [file for name in planned(result) for file in picture_files(folder, name)]
    return all(file.is_file() and file.stat().st_mtime_ns >= written for file in files)


def draw_result(result: Result, folder: Path) -> list[Path]:
    """Draw and write them all."""
    with theme():
        return [save_figure(draw(part), folder, name) for name, (draw, part) in planned(result).items()]


def draw_each(result: Result, folder: Path) -> tuple[list[Path], tuple[str, ...]]:
    """Draw those that can be drawn; and why others cannot. A picture that fails must not lose the numbers."""
    found, failed = [], []
    with theme():
        for name, (draw, part) in planned(result).items():
            picture, why = attempt(lambda draw=draw, part=part, name=name: save_figure(draw(part), folder, name), name)  # type: ignore[misc]
            found += [picture] if picture else []
            failed += [why] if why else []
    return found, tuple(failed)


def attempt(draw: Callable[[], T], name: str) -> tuple[T | None, str]:
    """What was drawn, or why nothing was. A file that cannot be written is an error as everywhere."""
    try:
        return draw(), ""
    except SteerError:
        raise
    except Exception as error:
        return None, f"the picture {name} could not be drawn ({type(error).__name__}: {error!s:.200})"


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
