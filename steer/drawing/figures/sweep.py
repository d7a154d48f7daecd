"""Sweeps and comparisons: one mark for each condition, with its interval, between the two ends of the scale."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from textwrap import fill
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from steer.drawing.figures.theme import (
    ACCENT,
    AGAINST,
    COLUMN,
    INK,
    MUTED,
    despine,
    new_figure,
    palette,
    short,
    task_of,
    title,
)
from steer.results.result import Result
from steer.results.rows import Row, overall

SWEEPS = ("keep-only-one", "ablate-only-one", "chained-patch")  # kinds whose conditions are sources, one at a time
CLEAN = "clean"  # the condition that others are compared with
HELD = {"wrong": "above the wrong answers'", "counterfactual": "above the counterpart's answer's"}


class Series:
    """The bars or lines of a figure, named by what differs between them: measure, head, `against`, decoding, tokens."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = rows
        self.measures = len({row.measure for row in rows}) > 1
        self.against = len({row.against for row in rows}) > 1
        self.heads = _several((row.measure, row.of) for row in rows)
        self.decodings = _several((row.measure, row.decoding) for row in rows)
        self.tokens = _several((row.measure, row.tokens) for row in rows)

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys(map(self.name, self.rows)))

    def name(self, row: Row) -> str:
        words = [
            _plain(row.measure) if self.measures else "",
            f"on the {row.against}" if self.against and row.against else "",
            row.of if row.measure in self.heads else "",
            row.decoding if row.measure in self.decodings else "",
            f"at {row.tokens}" if row.measure in self.tokens else "",
        ]
        return ", ".join(filter(None, words)) or _plain(row.measure)


def _several(pairs: Iterable[tuple[str, str]]) -> set[str]:
    """The measures that are paired with more than one other thing."""
    counts = Counter(measure for measure, _ in set(pairs))
    return {measure for measure, count in counts.items() if count > 1}


def draw_bars(result: Result) -> Figure:
    """One row for each condition, and a panel for each measure; what others are compared with stands first, in grey.

    The conditions of a sweep are sorted: their order says nothing. Heads that play a role are named with it.
    """
    rows = overall(result.rows)
    panels = {measure: [row for row in rows if row.measure == measure] for measure in _measures(rows)}
    most = max(len(Series(part).names) for part in panels.values())
    # One number for each condition: the panel's axis says what it is of, and no colour need tell it apart.
    names = list(dict.fromkeys(name for part in panels.values() for name in Series(part).names)) if most > 1 else [""]
    conditions = _conditions(result, rows)
    height = 0.95 + 0.16 * len(conditions) * max(1, 0.7 * most) + 0.16 * len(names) * (len(names) > 1)
    figure = new_figure(COLUMN * (1 + 0.45 * (len(panels) - 1)) + _extra(_labels(conditions, result)), height)
    grid = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    colours = _colours(names) if most > 1 else {}
    for axes, part in zip(grid, panels.values(), strict=True):
        _fill_bars(axes, part, conditions, colours)
    _name_conditions(grid[0], conditions, result)
    if len(names) > 1:
        _legend(grid[0], names, list(colours.values()))
    title(figure, result)
    despine(figure)
    return figure


def _measures(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(row.measure for row in rows))


def _fill_bars(axes: Axes, rows: list[Row], conditions: list[str], colours: dict[str, str]) -> None:
    series = Series(rows)
    names = series.names
    thickness = 0.8 / len(names)
    for row in rows:
        side = names.index(series.name(row))
        place = conditions.index(row.condition) + (side - (len(names) - 1) / 2) * thickness
        compared = len(names) == 1 and (bool(row.end) or (row.condition == CLEAN and len(conditions) > 1))
        colour = MUTED if compared else colours.get(series.name(row), ACCENT)
        axes.barh(place, row.value, height=thickness, color=colour, linewidth=0, zorder=2)
        axes.hlines(place, row.low, row.high, color=INK, linewidth=0.8, zorder=3)
        if compared:
            axes.axvline(row.value, color=MUTED, linestyle=":", linewidth=0.8, zorder=1)
    if all(row.unit == "share" for row in rows):
        axes.set_xlim(0, 1)
        axes.xaxis.set_major_formatter("{x:.0%}")
    else:
        axes.axvline(0, color=INK, linewidth=0.6)
    axes.set_xlabel(fill(_axis(rows), 22, break_on_hyphens=False))


def _conditions(result: Result, rows: list[Row]) -> list[str]:
    """The ends first; then a sweep's sources, those that matter most on top; others as the recipe has them."""
    conditions = list(dict.fromkeys(row.condition for row in sorted(rows, key=lambda row: not row.end)))
    if result.provenance.kind not in SWEEPS:
        return conditions
    ends = {row.condition for row in rows if row.end}
    first = {row.condition: row.value for row in reversed(rows)}
    least_first = "ablate-only-one" in (result.provenance.kind, result.provenance.recipe.get("mode"))
    sign = 1 if least_first else -1
    swept = sorted((name for name in conditions if name not in ends), key=lambda name: sign * first[name])
    return [*(name for name in conditions if name in ends), *swept]


def _labels(conditions: list[str], result: Result) -> list[str]:
    played = result.provenance.played
    return [" ".join(filter(None, (short(name), played.get(name, "")))) for name in conditions]


def _extra(labels: list[str]) -> float:
    """Inches that long names need, so that the bars keep their room."""
    return 0.05 * max(0, max(map(len, labels), default=0) - 18)


def _name_conditions(axes: Axes, conditions: list[str], result: Result) -> None:
    """Heads that play a role stand out, and it is named."""
    played = result.provenance.played
    axes.set_yticks(range(len(conditions)), _labels(conditions, result))
    for label, name in zip(axes.get_yticklabels(), conditions, strict=True):
        label.set_fontweight("bold" if name in played else "normal")
    axes.set_ylim(len(conditions) - 0.5, -0.5)


def _colours(names: list[str]) -> dict[str, str]:
    """A colour for each series; what answers are compared with has the same one in every figure."""
    if set(names) <= {f"on the {against}" for against in AGAINST}:
        return {name: AGAINST[name.removeprefix("on the ")] for name in names}
    return dict(zip(names, palette(len(names)), strict=True))


def draw_components(result: Result) -> Figure:
    """Logit attribution, or shares of variance: those that write most on top, coloured by condition if several."""
    rows = overall(result.rows)
    conditions = list(dict.fromkeys(row.condition for row in rows))
    first = {row.of: row.value for row in reversed(rows)}
    heads = sorted(first, key=lambda name: -first[name])
    several = len(conditions) > 1
    colours = dict(zip(conditions, palette(len(conditions)), strict=True))
    figure = new_figure(
        COLUMN + _extra(_labels(heads, result)),
        0.95 + (0.125 + 0.06 * (len(conditions) - 1)) * len(heads) + 0.2 * several,
    )
    axes = figure.add_subplot()
    thickness = 0.75 / len(conditions)
    for row in rows:
        side = conditions.index(row.condition) - (len(conditions) - 1) / 2
        place = heads.index(row.of) + side * thickness
        axes.barh(place, row.value, height=thickness, color=colours[row.condition], linewidth=0)
        axes.hlines(place, row.low, row.high, color=INK, linewidth=0.8)
    axes.axvline(0, color=INK, linewidth=0.6)
    _name_conditions(axes, heads, result)
    axes.tick_params(axis="y", labelsize=6)
    mean = HELD.get(rows[0].against, f"above the mean {task_of(result).words.token}")
    logit = f"contribution to the right token's\nlogit {mean}\n(final norm frozen)"
    axes.set_xlabel(
        logit if rows[0].unit == "logit" else "share of the variance of\nwhat the logits read (first two steps)"
    )
    if several:
        _legend(axes, conditions, list(colours.values()))
    title(figure, result)
    despine(figure)
    return figure


def draw_positions(result: Result) -> Figure:
    """One line for each condition and series, over the positions of the answer."""
    rows, series = [row for row in result.rows if row.position is not None], Series(result.rows)
    lines = list(dict.fromkeys((row.condition, series.name(row)) for row in rows))
    names = _line_names(lines)
    figure = new_figure(COLUMN, 2.3 + 0.15 * len(names) / _columns(names))
    axes = figure.add_subplot()
    colours = palette(len(lines))
    for line, colour in zip(lines, colours, strict=True):
        mine = [row for row in rows if (row.condition, series.name(row)) == line]
        places = [row.position or 0 for row in mine]
        axes.plot(places, [row.value for row in mine], "o-", color=colour, markersize=3, linewidth=1)
        axes.fill_between(places, [r.low for r in mine], [r.high for r in mine], color=colour, alpha=0.2, lw=0)
    _legend(axes, names, colours)
    if all(row.unit == "share" for row in rows):
        axes.set_ylim(0, 1.02)
        axes.yaxis.set_major_formatter("{x:.0%}")
    axes.set_xticks(sorted({row.position or 0 for row in rows}))
    axes.set_xlabel("position in the answer")
    axes.set_ylabel(fill(_axis(rows), 24, break_on_hyphens=False))
    title(figure, result)
    despine(figure)
    return figure


def _line_names(lines: list[tuple[str, str]]) -> list[str]:
    """Condition and series, as far as they differ."""
    conditions, kinds = {condition for condition, _ in lines}, {kind for _, kind in lines}
    if len(conditions) == 1:
        return [kind for _, kind in lines]
    return [condition if len(kinds) == 1 else f"{condition}: {kind}" for condition, kind in lines]


def _columns(names: list[str]) -> int:
    return 2 if max(map(len, names)) < 26 else 1


def _axis(rows: list[Row]) -> str:
    measures = list(dict.fromkeys(_plain(row.measure) for row in rows))
    heads = {row.of for row in rows}
    head = f" of {heads.pop()}" if len(heads) == 1 and "" not in heads else ""
    return f"{' / '.join(measures)}{head}"


def _plain(measure: str) -> str:
    return measure.replace("-", " ")


def _legend(axes: Axes, names: list[str], colours: Any) -> None:
    marks = [Line2D([], [], color=colour, linewidth=4, solid_capstyle="butt") for colour in colours]
    axes.figure.legend(marks, list(map(short, names)), loc="outside lower center", ncols=_columns(names), frameon=False)
