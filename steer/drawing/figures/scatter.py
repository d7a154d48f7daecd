"""Activations in their first two principal components, coloured by a label: one panel for each site and condition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from textwrap import fill
from typing import TypeAlias

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from steer.drawing.figures.theme import INK, new_figure, palette, short, task_of, title
from steer.results.details import Scatter
from steer.results.result import Result
from steer.results.rows import find

PANEL = 1.42  # inches
MARKS = ("o", "s", "^", "D", "v")  # shape as well as colour tells labels apart
MOST = 6  # labels in a line of the legend
Colours: TypeAlias = dict[str, str]  # of each label


def draw_scatter(result: Result) -> Figure:
    """Rows are sites, columns are conditions. Every panel has its own components."""
    panels = result.of_kind(Scatter)
    sites = list(dict.fromkeys((panel.site, panel.tokens, panel.label) for panel in panels))
    conditions = list(dict.fromkeys(panel.condition for panel in panels))
    kinds = sorted({kind for panel in panels for kind in panel.centres})
    colours = dict(zip(kinds, palette(len(kinds)), strict=True))
    figure = new_figure(0.45 + PANEL * len(conditions), 0.95 + (PANEL + 0.22) * len(sites))
    grid = figure.subplots(len(sites), len(conditions), squeeze=False)
    for panel in panels:
        row = sites.index((panel.site, panel.tokens, panel.label))
        column = conditions.index(panel.condition)
        axes = grid[row][column]
        _fill(axes, panel, colours, _numbers(panel, result))
        if column == 0:
            axes.set_ylabel(f"{panel.site}\nat {panel.tokens}\n{axes.get_ylabel()}")
    for axes, condition in zip(grid[0], conditions, strict=True):
        name = fill(short(condition), 22, break_on_hyphens=False)
        axes.annotate(
            name, (0.5, 1), (0, 24), xycoords="axes fraction", textcoords="offset points", ha="center",
            va="bottom", fontsize=7, fontweight="bold", annotation_clip=False,
        )  # fmt: skip
    for axes in (
        axes for row in grid for axes in row if not axes.has_data()
    ):  # a condition that cannot change this site
        axes.set_axis_off()
        axes.text(0.5, 0.5, "cannot\nchange here", transform=axes.transAxes, ha="center", va="center", fontsize=7)
    _legend(figure, panels, kinds, colours, task_of(result).label_titles)
    title(figure, result)
    return figure


def _fill(axes: Axes, panel: Scatter, colours: Colours, numbers: str) -> None:
    for number, (kind, mark) in enumerate(_marks(colours).items()):
        if kind not in panel.centres:
            continue
        mine = [n for n, label in enumerate(panel.labels) if label == kind]
        x, y = ([axis[n] for n in mine] for axis in (panel.x, panel.y))
        size = 9 / (number + 1)  # later ones smaller: where points coincide, both are seen
        axes.scatter(x, y, s=size, marker=mark, color=colours[kind], alpha=0.5, linewidths=0, rasterized=True)
        for edge, width in (("white", 2.2), (INK, 0.8)):
            axes.plot(
                *panel.centres[kind], marker=mark, markersize=max(2.0, 6.5 - 1.5 * number), color=colours[kind],
                markeredgecolor=edge, markeredgewidth=width, zorder=3 + number,
            )  # fmt: skip
    if not any(panel.variance):
        axes.text(0.5, 0.25, "no variance", transform=axes.transAxes, ha="center", fontsize=7)
    axes.set_title(numbers, fontsize=6.5, pad=3)
    axes.set_xticks([])
    axes.set_yticks([])
    first, second = panel.variance
    axes.set_xlabel(f"PC 1 ({first:.0%})", fontsize=6, labelpad=2)
    axes.set_ylabel(f"PC 2 ({second:.0%})", fontsize=6, labelpad=2)
    axes.margins(0.08)


def _marks(kinds: Iterable[str]) -> dict[str, str]:
    """The same shape for a label in every panel, whichever labels a panel has."""
    return {kind: MARKS[number % len(MARKS)] for number, kind in enumerate(kinds)}


def _numbers(panel: Scatter, result: Result) -> str:
    row = find(result.rows, condition=panel.condition, of=panel.site, against=panel.label, tokens=panel.tokens)
    if row is None:
        return ""
    return f"R² {row.value:.2f} ({row.low:.2f}–{row.high:.2f})\nnull {row.chance or 0:.3f}"


def _legend(
    figure: Figure, panels: list[Scatter], kinds: list[str], colours: Colours, titles: Mapping[str, str]
) -> None:
    labels = " / ".join(dict.fromkeys(titles.get(panel.label, panel.label) for panel in panels))
    marks = [
        Line2D([], [], color=colours[kind], marker=mark, linestyle="none", markersize=5)
        for kind, mark in _marks(colours).items()
    ]
    figure.legend(
        marks, kinds, title=f"{labels} (large: centroid)", title_fontsize=7, loc="outside lower center",
        ncols=min(len(kinds), MOST), frameon=False,
    )  # fmt: skip
