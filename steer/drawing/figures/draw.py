"""Which figures a result asks for, and where they are written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from matplotlib.figure import Figure

from steer.base.errors import SteerError
from steer.base.log import LOG
from steer.drawing.figures.dose import draw_dose, varies
from steer.drawing.figures.heatmap import draw_heatmap, heatmaps
from steer.drawing.figures.histogram import draw_histogram
from steer.drawing.figures.pattern import draw_patterns
from steer.drawing.figures.rates import draw_rates, is_rate
from steer.drawing.figures.scatter import draw_scatter
from steer.drawing.figures.story import draw_story, has_story
from steer.drawing.figures.sweep import draw_bars, draw_components, draw_positions
from steer.drawing.figures.theme import picture_files, save_figure, theme
from steer.drawing.look import PLAIN, Look
from steer.results.details import Histogram, Pattern, Scatter
from steer.results.files import RESULT
from steer.results.result import Result
from steer.results.rows import Row

NEEDS = {"scatter": Scatter, "patterns": Pattern, "histogram": Histogram}  # figure -> details that it draws
DRAWN: dict[str, Callable[[Result], Figure]] = {
    "bars": draw_bars,
    "positions": draw_positions,
    "scatter": draw_scatter,
    "patterns": draw_patterns,
    "histogram": draw_histogram,
    "rates": draw_rates,
    "story": draw_story,
}


T = TypeVar("T")
Drawing = tuple[Callable[[Result], Figure], Result]


def planned(result: Result) -> dict[str, Drawing]:
    """The figures of the recipe: `figure` for the first, `figure-NAME` for the others."""
    chosen: dict[str, Drawing] = {}
    for name in dict.fromkeys(result.provenance.figures):
        for kind, draw, part in drawings(name, result):
            # two figures may come down to the same picture
            chosen.setdefault(f"figure-{kind}" if chosen else "figure", (draw, part))
    return chosen


def pictures(result: Result, folder: Path) -> list[Path]:
    return [folder / f"{name}.png" for name in planned(result)]


def are_drawn(result: Result, folder: Path, look: Look = PLAIN) -> bool:
    """Is every picture there, and of these numbers? (The result is written first, its pictures after it.)"""
    written = (folder / RESULT).stat().st_mtime_ns
    files = [file for name in planned(result) for file in picture_files(folder, name, look)]
    return all(file.is_file() and file.stat().st_mtime_ns >= written for file in files)


def draw_result(result: Result, folder: Path, look: Look = PLAIN) -> list[Path]:
    """Draw and write all figures of a result."""
    with theme():
        return [save_figure(draw(part), folder, name, look) for name, (draw, part) in planned(result).items()]


def draw_each(result: Result, folder: Path, look: Look = PLAIN) -> tuple[list[Path], tuple[str, ...]]:
    """Draw what can be drawn: the pictures, and why others failed. A failed picture must not lose the numbers."""
    drawn, failed = [], []
    with theme():
        for name, (draw, part) in planned(result).items():
            picture, why = attempt(partial(_draw_one, draw, part, folder, name, look), name)
            drawn += [picture] if picture else []
            failed += [why] if why else []
    return drawn, tuple(failed)


def _draw_one(draw: Callable[[Result], Figure], part: Result, folder: Path, name: str, look: Look) -> Path:
    return save_figure(draw(part), folder, name, look)


def attempt(draw: Callable[[], T], name: str) -> tuple[T | None, str]:
    """What was drawn, or why drawing failed. A file that cannot be written is an error, as everywhere."""
    try:
        return draw(), ""
    except SteerError:
        raise
    except Exception as error:
        LOG.debug("the picture %s could not be drawn", name, exc_info=error)
        return None, f"the picture {name} could not be drawn ({type(error).__name__}: {error!s:.200})"


def drawings(name: str, result: Result) -> Iterator[tuple[str, Callable[[Result], Figure], Result]]:
    """How a figure is drawn, and from which rows: one picture for each kind of number that cannot share an axis.

    Figures without data are skipped.
    """
    if name == "none":
        return
    if name == "heatmap":
        yield from ((kind, draw_heatmap, part) for kind, part in heatmaps(result))
        return
    if name == "dose":
        if varies(result):
            yield name, draw_dose, result
        return
    result = spelled(result)
    if name in NEEDS:
        if result.of_kind(NEEDS[name]):
            yield name, DRAWN[name], result
        return
    if name == "story" and has_story(result):
        yield name, draw_story, result
        return
    name = "rates" if name == "story" else name
    shares = [row for row in result.rows if row.unit == "share"]
    logits = [row for row in result.rows if row.unit == "logit" and row.of]  # a component's share of one
    others = [row for row in result.rows if row.unit != "share" and row not in logits]
    if shares:
        drawn = name
        if (name == "rates" and not any(map(is_rate, shares))) or (name == "positions" and not _placed(shares)):
            drawn = "bars"
        yield drawn, DRAWN[drawn], replace(result, rows=shares)
    for number, against in enumerate(dict.fromkeys(row.against for row in logits)):
        mine = [row for row in logits if row.against == against]
        yield "components" + f"-{against}" * (number > 0), draw_components, replace(result, rows=mine)
    for measure in dict.fromkeys(row.measure for row in others):
        drawing = draw_components if measure.startswith("variance-share") else draw_bars
        name = measure.replace(" (", "-").rstrip(")")  # `contribution (authors)`: part of a file's name
        yield name, drawing, replace(result, rows=[row for row in others if row.measure == measure])


def spelled(result: Result) -> Result:
    """A sweep's rows, their conditions with the values of what is swept: figures of conditions tell them apart."""
    names = result.provenance.recipe.get("sweep") or {}
    rows = []
    for row in result.rows:
        said = [f"{name} {value}" for name, value in row.levels if name.removesuffix(" (swept)") in names]
        rows.append(replace(row, condition=", ".join([row.condition, *said])))
    return replace(result, rows=rows) if names else result


def _placed(rows: list[Row]) -> bool:
    return any(row.position is not None for row in rows)
