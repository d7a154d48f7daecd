"""OV alignment: inner products with a token's own unembedding row, against the null of all other rows."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from steer.drawing.figures.theme import ACCENT, COLUMN, INK, MUTED, despine, new_figure, short, task_of, title
from steer.results.details import Histogram
from steer.results.result import Result


def draw_histogram(result: Result) -> Figure:
    """One panel for each head and condition, all on one scale."""
    panels = result.of_kind(Histogram)
    figure = new_figure(COLUMN, 0.95 + 1.15 * len(panels))
    grid = figure.subplots(len(panels), 1, squeeze=False, sharex=True)[:, 0]
    several = len({panel.condition for panel in panels}) > 1
    for axes, panel in zip(grid, panels, strict=True):
        _fill(axes, panel)
        name = f"{panel.head}, {short(panel.condition)}" if several else panel.head
        axes.set_title(f"{name}: {panel.above_null:.1%} of tokens beyond the dotted line", fontsize=7, loc="left")
    grid[-1].set_xlabel("inner product of OV output and unembedding row")
    handles, names = grid[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=2, frameon=False)
    title(figure, result, f"{panels[0].tokens:,} {task_of(result).words.token} tokens")
    despine(figure)
    return figure


def _fill(axes: Axes, panel: Histogram) -> None:
    edges = np.array(panel.edges)
    for sample, colour, name in ((panel.others, MUTED, "other rows (null)"), (panel.own, ACCENT, "own row")):
        counts = np.array(sample.counts, dtype=float)
        density = counts / (counts.sum() * np.diff(edges))
        axes.stairs(density, edges, fill=True, color=colour, alpha=0.6, label=name, linewidth=0)
    axes.axvline(panel.others.high, color=INK, linestyle=":", linewidth=1, label="97.5th percentile of the null")
    axes.axvline(panel.own.mean, color=ACCENT, linewidth=1.2, label="mean, own row")
    axes.set_ylabel("density")
    axes.set_yticks([])
