"""How many answers are steered: for each condition the shares of predicted, unchanged and other answers."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from steer.drawing.figures.pattern import CELL_OF_MANY, fill_pattern, head_name, legend
from steer.drawing.figures.theme import AGAINST, COLUMN, INK, despine, new_figure, short, title
from steer.results.details import Pattern, Transcript
from steer.results.result import Result
from steer.results.rows import Row, find

KINDS = {"counterfactual": "as predicted", "answer": "unchanged", "neither": "another answer"}
CEILING = "ceiling"


def draw_rates(result: Result) -> Figure:
    """The shares; above them, if the result has patterns, one head's attention on an episode before and after."""
    panels = _shown(result)
    conditions = list(dict.fromkeys(row.condition for row in _rows(result)))
    heights = [CELL_OF_MANY * len(panel.queries) + 0.85 for panel in panels]
    bars = 0.75 + 0.2 * len(conditions)
    width = max(COLUMN, CELL_OF_MANY * max((len(panel.keys) for panel in panels), default=0) + 1.3)
    figure = new_figure(width, sum(heights) + bars + 0.75)
    grid = figure.subplots(len(panels) + 1, 1, squeeze=False, height_ratios=[*heights, bars])[:, 0]
    images = []
    for axes, panel in zip(grid, panels, strict=False):
        images.append(fill_pattern(axes, panel, 5))
        axes.set_title(_caption(panel, result), fontsize=6.5, loc="left")
    if images:
        figure.colorbar(images[0], ax=list(grid[:-1]), label="attention", shrink=0.7, aspect=14)
    _fill_rates(grid[-1], result, conditions)
    legend(figure, panels)
    title(figure, result)
    return figure


def is_rate(row: Row) -> bool:
    return row.measure == "exact-match" and row.against in KINDS


def _rows(result: Result) -> list[Row]:
    return [row for row in result.rows if is_rate(row)]


def _fill_rates(axes: Axes, result: Result, conditions: list[str]) -> None:
    left = dict.fromkeys(conditions, 0.0)
    for kind, label in KINDS.items():
        mine = {row.condition: row for row in _rows(result) if row.against == kind}
        for condition, row in mine.items():
            place = conditions.index(condition)
            axes.barh(place, row.value, left=left[condition], color=AGAINST[kind], height=0.7, linewidth=0)
            if kind == "counterfactual":
                axes.hlines(place, row.low, row.high, color=INK, linewidth=0.9)
            left[condition] += row.value
        axes.barh(0, 0, color=AGAINST[kind], label=label)
    ceiling = find(_rows(result), condition=CEILING, against="counterfactual")
    if ceiling is not None:
        axes.axvline(ceiling.value, color=INK, linestyle=":", linewidth=0.8)
    axes.set_yticks(range(len(conditions)), list(map(short, conditions)))
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    axes.xaxis.set_major_formatter("{x:.0%}")
    axes.set_xlabel("answers that the model writes")
    handles, names = axes.get_legend_handles_labels()
    axes.figure.legend(
        handles, names, loc="outside lower right", ncols=3, frameon=False, handlelength=1, fontsize=6,
    )  # fmt: skip
    despine(axes)


def _shown(result: Result) -> list[Pattern]:
    """The first head's pattern before, and under the last set of sites that is not a control."""
    patterns, shown = result.of_kind(Pattern), ("before", result.provenance.shown)
    return [pattern for pattern in patterns if pattern.head == patterns[0].head and pattern.condition in shown]


def _caption(panel: Pattern, result: Result) -> str:
    written = [
        " ".join(one.written)
        for one in result.of_kind(Transcript)
        if one.condition == panel.condition and one.prompt == panel.prompt
    ]
    said = f"\nthe model writes {written[0] or 'nothing'}" if written else ""
    return f"{head_name(panel)}, {short(panel.condition)} (while the right answer is fed in){said}"
