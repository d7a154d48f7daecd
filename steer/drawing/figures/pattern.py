"""Attention patterns as heat maps, tokens on both axes, the right ones framed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Patch

from steer.drawing.figures.theme import COLUMN, HEAT, INK, RIGHT, new_figure, save_figure, short, theme, title
from steer.drawing.look import PLAIN, Look
from steer.results.details import Pattern
from steer.results.result import Result

CELL = 0.13  # inches: the smallest size at which a token can be read
CELL_OF_MANY = 0.095  # in a figure of several patterns
PANEL, LOWEST = 1.45, 0.42  # inches: a head of a sheet, and the height of one with few queries
FEW = 10  # queries whose names can still be read
ALIKE = 2  # queries: panels that differ by this many at most may stand side by side
FRAMED = "framed: what is right to look at"


def draw_pattern(pattern: Pattern, folder: Path, name: str = "pattern", look: Look = PLAIN) -> Path:
    with theme():
        return save_figure(pattern_figure(pattern), folder, name, look)


def pattern_figure(pattern: Pattern) -> Figure:
    width = max(COLUMN, 1.1 + CELL * len(pattern.keys))
    figure = new_figure(width, 1.2 + CELL * len(pattern.queries))
    axes = figure.add_subplot()
    image = fill_pattern(axes, pattern)
    figure.colorbar(image, ax=axes, label="attention", shrink=0.8, aspect=12)
    axes.set_title(f"{head_name(pattern)}, answer {' '.join(pattern.answer) or 'empty'}", fontsize=7, loc="left")
    legend(figure, [pattern])
    return figure


def draw_before_after(before: Pattern, after: Pattern, folder: Path, name: str, look: Look = PLAIN) -> Path:
    """The same head on the same prompt, with and without an intervention."""
    with theme():
        return save_figure(before_after_figure(before, after), folder, name, look)


def before_after_figure(before: Pattern, after: Pattern) -> Figure:
    heights = [CELL * len(one.queries) + 0.5 for one in (before, after)]
    figure = new_figure(max(COLUMN, 1.1 + CELL * len(before.keys)), sum(heights) + 0.8)
    grid = figure.subplots(2, 1, height_ratios=heights)
    for axes, one, when in zip(grid, (before, after), ("before", "steered"), strict=True):
        image = fill_pattern(axes, one)
        axes.set_title(f"{head_name(one)}, {when}: {' '.join(one.answer) or 'no answer'}", fontsize=7, loc="left")
    figure.colorbar(image, ax=grid, label="attention", shrink=0.6, aspect=16)
    legend(figure, [before, after])
    return figure


def draw_patterns(result: Result) -> Figure:
    """One panel for each head and condition, on one episode. One head's conditions stand under one another."""
    panels = result.of_kind(Pattern)
    columns = 2 if len({panel.head for panel in panels}) > 1 else 1
    lines = _lines(panels, columns)
    heights = [CELL_OF_MANY * max(len(panel.queries) for panel in line) + 0.62 for line in lines]
    width = CELL_OF_MANY * max(len(panel.keys) for panel in panels) + 0.6
    figure = new_figure(max(COLUMN, columns * width + 0.5), sum(heights) + 0.7)
    grid = figure.subplots(len(lines), columns, squeeze=False, height_ratios=heights)
    images = []
    for row, line in zip(grid, lines, strict=True):
        for axes, panel in zip(row, line, strict=False):
            images.append(fill_pattern(axes, panel, 5))
            axes.set_title(_name(panel, panels), fontsize=7, loc="left")
        for axes in row[len(line) :]:
            axes.set_visible(False)
    figure.colorbar(images[0], ax=grid, label="attention", shrink=0.5, aspect=20)
    legend(figure, panels)
    title(figure, result, f"{panels[0].prompt}  →  {' '.join(panels[0].answer)}")
    return figure


def draw_sheet(patterns: Sequence[Pattern], folder: Path, name: str = "heads", look: Look = PLAIN) -> Path:
    """Every head small, those of one block side by side."""
    with theme():
        return save_figure(sheet_figure(patterns), folder, name, look)


def sheet_figure(patterns: Sequence[Pattern]) -> Figure:
    blocks: dict[str, list[Pattern]] = {}
    for one in patterns:
        blocks.setdefault(one.head.rpartition(".")[0] or one.head, []).append(one)
    columns = max(map(len, blocks.values()))
    heights = [_height(some[0]) + 0.24 for some in blocks.values()]
    figure = new_figure(0.9 + PANEL * columns, 0.75 + sum(heights))
    grid = figure.subplots(len(blocks), columns, squeeze=False, height_ratios=heights)
    for row, some in zip(grid, blocks.values(), strict=True):
        for axes in row:
            axes.set_axis_off()
        for axes, one in zip(row, some, strict=False):
            image = _fill_small(axes, one, first=one is some[0])
    figure.colorbar(image, ax=grid, label="attention", shrink=0.3, aspect=20)
    legend(figure, patterns)
    said = f"{patterns[0].prompt}  →  {' '.join(patterns[0].answer)}"
    figure.suptitle(f"every head on one episode: rows attend to columns\n{said}", fontsize=8, x=0.02, ha="left")
    return figure


def _height(pattern: Pattern) -> float:
    """Square cells, but for patterns of few queries: those are as low as can be seen."""
    return LOWEST if len(pattern.queries) <= FEW else PANEL * 0.85 * min(1.0, len(pattern.queries) / len(pattern.keys))


def _fill_small(axes: Axes, pattern: Pattern, first: bool) -> AxesImage:
    axes.set_axis_on()
    image = axes.imshow(pattern.weights, vmin=0, vmax=1, cmap=HEAT, aspect="auto", interpolation="nearest")
    frame(axes, pattern, 0.7)
    axes.set_xticks([])
    labelled = first and len(pattern.queries) <= FEW
    axes.set_yticks(range(len(pattern.queries)) if labelled else [], pattern.queries if labelled else [], fontsize=4)
    axes.tick_params(length=0, pad=1)
    roles = " ".join(f"${role}" for role in pattern.roles)
    weight = "bold" if roles else "normal"
    axes.set_title(f"{pattern.head} {roles}".strip(), fontsize=5, loc="left", pad=2, fontweight=weight)
    axes.spines[:].set_linewidth(0.4)
    return image


def head_name(pattern: Pattern) -> str:
    """The head, and the roles that it plays, as recipes name them."""
    roles = ", ".join(f"${role}" for role in pattern.roles)
    return f"{pattern.head} ({roles})" if roles else pattern.head


def _lines(panels: list[Pattern], columns: int) -> list[list[Pattern]]:
    """Panels in rows, those of about one height together."""
    groups: list[list[Pattern]] = []
    for panel in panels:
        alike = (group for group in groups if abs(len(group[0].queries) - len(panel.queries)) <= ALIKE)
        if home := next(alike, None):
            home.append(panel)
        else:
            groups.append([panel])
    return [group[n : n + columns] for group in groups for n in range(0, len(group), columns)]


def _name(panel: Pattern, panels: Sequence[Pattern]) -> str:
    """The head is named in every panel."""
    several = len({one.condition for one in panels}) > 1
    return f"{head_name(panel)}, {short(panel.condition)}" if several else head_name(panel)


def legend(figure: Figure, panels: Sequence[Pattern]) -> None:
    """What a frame means, where something is framed."""
    if any(panel.right for panel in panels):
        mark: Any = Patch(facecolor="none", edgecolor=RIGHT, linewidth=1)
        figure.legend([mark], [FRAMED], loc="outside lower left", frameon=False, fontsize=6, handlelength=1)


def fill_pattern(axes: Axes, pattern: Pattern, size: float = 6) -> AxesImage:
    """Draw one pattern. Returns the image, which a colour bar needs.

    It is one image under a white grid: drawn cell by cell, many heads would take minutes and megabytes.
    """
    queries, keys = pattern.queries, pattern.keys
    image = axes.imshow(pattern.weights, vmin=0, vmax=1, cmap=HEAT, aspect="equal")
    axes.set_xticks(range(len(keys)), keys)
    axes.set_yticks(range(len(queries)), queries)
    axes.hlines([n + 0.5 for n in range(len(queries) - 1)], -0.5, len(keys) - 0.5, color="white", linewidth=0.5)
    axes.vlines([n + 0.5 for n in range(len(keys) - 1)], -0.5, len(queries) - 0.5, color="white", linewidth=0.5)
    axes.tick_params(axis="x", labelrotation=90, length=0, labelsize=size, pad=1, labelcolor=INK)
    axes.tick_params(axis="y", labelrotation=0, length=0, labelsize=size, pad=1, labelcolor=INK)
    axes.spines[:].set_visible(False)
    frame(axes, pattern, 1.0)
    return image


def frame(axes: Axes, pattern: Pattern, width: float) -> None:
    """A frame around every cell that is right to look at."""
    if not pattern.right:
        return
    corners = [
        [(key - 0.5, query - 0.5), (key + 0.5, query - 0.5), (key + 0.5, query + 0.5), (key - 0.5, query + 0.5)]
        for query, key in pattern.right
    ]
    closed = [[*corner, corner[0]] for corner in corners]
    axes.add_collection(LineCollection(closed, colors=RIGHT, linewidths=width, zorder=3), autolim=False)
