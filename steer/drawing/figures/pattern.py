"""Attention patterns as heat maps, tokens on both axes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from steer.drawing.figures.theme import COLUMN, HEAT, new_figure, save_figure, short, theme, title
from steer.drawing.look import PLAIN, Look
from steer.results.details import Pattern
from steer.results.result import Result

CELL = 0.13  # inches: the smallest at which a token's name can be read
CELL_OF_MANY = 0.095  # in a figure of several patterns


def draw_pattern(pattern: Pattern, folder: Path, name: str = "pattern", look: Look = PLAIN) -> Path:
    with theme():
        width = max(COLUMN, 1.1 + CELL * len(pattern.keys))
        figure = new_figure(width, 1.1 + CELL * len(pattern.queries))
        axes = figure.add_subplot()
        image = fill_pattern(axes, pattern)
        figure.colorbar(image, ax=axes, label="attention", shrink=0.8, aspect=12)
        axes.set_title(
            f"{pattern.head}: attention, answer {' '.join(pattern.answer) or 'empty'}", fontsize=7, loc="left"
        )
        return save_figure(figure, folder, name, look)


def draw_before_after(before: Pattern, after: Pattern, folder: Path, name: str, look: Look = PLAIN) -> Path:
    """The same head on the same prompt, with and without an intervention."""
    with theme():
        heights = [CELL * len(one.queries) + 0.5 for one in (before, after)]
        figure = new_figure(max(COLUMN, 1.1 + CELL * len(before.keys)), sum(heights) + 0.7)
        grid = figure.subplots(2, 1, height_ratios=heights)
        for axes, one, when in zip(grid, (before, after), ("before", "steered"), strict=True):
            image = fill_pattern(axes, one)
            axes.set_title(f"{one.head}, {when}: {' '.join(one.answer) or 'no answer'}", fontsize=7, loc="left")
        figure.colorbar(image, ax=grid, label="attention", shrink=0.6, aspect=16)
        return save_figure(figure, folder, name, look)


def draw_patterns(result: Result) -> Figure:
    """One panel for each head and condition, on one episode. One head's conditions stand under one another."""
    panels = result.of_kind(Pattern)
    columns = 2 if len({panel.head for panel in panels}) > 1 else 1
    lines = _lines(panels, columns)
    heights = [CELL_OF_MANY * max(len(panel.queries) for panel in line) + 0.62 for line in lines]
    width = CELL_OF_MANY * max(len(panel.keys) for panel in panels) + 0.6
    figure = new_figure(max(COLUMN, columns * width + 0.5), sum(heights) + 0.6)
    grid = figure.subplots(len(lines), columns, squeeze=False, height_ratios=heights)
    images = []
    for row, line in zip(grid, lines, strict=True):
        for axes, panel in zip(row, line, strict=False):
            images.append(fill_pattern(axes, panel, 5))
            axes.set_title(_name(panel, panels), fontsize=7, loc="left")
        for axes in row[len(line) :]:
            axes.set_visible(False)
    figure.colorbar(images[0], ax=grid, label="attention", shrink=0.5, aspect=20)
    title(figure, result, f"{panels[0].prompt}  →  {' '.join(panels[0].answer)}")
    return figure


def _lines(panels: list[Pattern], columns: int) -> list[list[Pattern]]:
    """Panels in rows, those of one height together."""
    lines: list[list[Pattern]] = []
    for height in dict.fromkeys(len(panel.queries) for panel in panels):
        alike = [panel for panel in panels if len(panel.queries) == height]
        lines += [alike[n : n + columns] for n in range(0, len(alike), columns)]
    return lines


def _name(panel: Pattern, panels: Sequence[Pattern]) -> str:
    conditions, heads = {one.condition for one in panels}, {one.head for one in panels}
    if len(conditions) == 1:
        return ", ".join([panel.head, *panel.roles])
    condition = short(panel.condition)
    return condition if len(heads) == 1 else f"{panel.head}, {condition}"


def fill_pattern(axes: Axes, pattern: Pattern, size: float = 6) -> AxesImage:
    """Draw one pattern; gives what a colour bar needs.

    As an image under a white grid: a sheet of many heads drawn cell by cell takes minutes and megabytes.
    """
    queries, keys = pattern.queries, pattern.keys
    image = axes.imshow(pattern.weights, vmin=0, vmax=1, cmap=HEAT, aspect="equal")
    axes.set_xticks(range(len(keys)), keys)
    axes.set_yticks(range(len(queries)), queries)
    axes.hlines([n + 0.5 for n in range(len(queries) - 1)], -0.5, len(keys) - 0.5, color="white", linewidth=0.5)
    axes.vlines([n + 0.5 for n in range(len(keys) - 1)], -0.5, len(queries) - 0.5, color="white", linewidth=0.5)
    axes.tick_params(axis="x", labelrotation=90, length=0, labelsize=size, pad=1)
    axes.tick_params(axis="y", labelrotation=0, length=0, labelsize=size, pad=1)
    axes.spines[:].set_visible(False)
    return image
