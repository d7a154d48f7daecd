"""An attention pattern as a heat map, tokens on both axes."""

from __future__ import annotations

from pathlib import Path

import seaborn as sns
from matplotlib.axes import Axes

from steer.figures.theme import COLUMN, new_figure, save_figure, theme
from steer.patterns import Pattern

CELL = 0.13  # inches: the smallest at which a token's name can be read


def draw_pattern(pattern: Pattern, folder: Path, name: str = "pattern") -> Path:
    with theme():
        width = max(COLUMN, 1.1 + CELL * len(pattern.keys))
        figure = new_figure(width, 1.1 + CELL * len(pattern.queries))
        axes = figure.add_subplot()
        fill_pattern(axes, pattern)
        axes.set_title(
            f"{pattern.head}: attention, answer {' '.join(pattern.answer) or 'empty'}", fontsize=7, loc="left"
        )
        return save_figure(figure, folder, name)


def fill_pattern(axes: Axes, pattern: Pattern) -> None:
    sns.heatmap(
        pattern.weights.numpy(), ax=axes, vmin=0, vmax=1, cmap="mako_r", square=True, linewidths=0.3, linecolor="white",
        xticklabels=pattern.keys, yticklabels=pattern.queries,
        cbar_kws={"label": "attention", "shrink": 0.8, "aspect": 12},
    )  # fmt: skip
    axes.tick_params(axis="x", labelrotation=90, length=0, labelsize=6)
    axes.tick_params(axis="y", labelrotation=0, length=0, labelsize=6)
