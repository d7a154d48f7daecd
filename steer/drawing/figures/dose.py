"""What is measured against something that varies: the scale of a direction, dimensions of a subspace, a swept key.

A column of panels for each thing that is done, a row for each number that cannot share an axis with the others. Lines
are what is left to tell apart; controls are grey and broken. What has no level of the axis (the clean run, the ceiling)
is a level line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from steer.drawing.figures.theme import COLUMN, INK, MUTED, despine, new_figure, palette, short, title
from steer.results.result import Result
from steer.results.rows import CONTROL, SET, Row, level_names, overall

DASHES = ("--", ":", "-.", (0, (5, 1, 1, 1, 1, 1)), (0, (6, 2, 1, 2)))  # of the controls
MARKS = 10  # numbers beside an axis, at most
SPREAD = 8  # numbers whose largest is more than this times the smallest stand side by side, not on a scale


@dataclass(frozen=True)
class Axis:
    """What runs from left to right: a level's name, and its values in order."""

    name: str
    values: tuple[float | int | str, ...]

    @property
    def is_scale(self) -> bool:
        """Do distances on the axis mean something?"""
        numbers = [value for value in self.values if not isinstance(value, str)]
        return len(numbers) == len(self.values) and (min(numbers) <= 0 or max(numbers) < SPREAD * min(numbers))

    @property
    def has_room(self) -> bool:
        """Do the values stand so far apart that each can have its number beside it?"""
        numbers = [float(value) for value in self.values]
        return min(b - a for a, b in pairwise(numbers)) * MARKS >= numbers[-1] - numbers[0]

    def place(self, row: Row) -> float | None:
        value = row.level(self.name)
        if value is None:
            return None
        return float(value) if self.is_scale and not isinstance(value, str) else float(self.values.index(value))


def axis_of(rows: Sequence[Row]) -> Axis:
    """The first level with several values, numbers before names."""
    several = []
    for name in level_names(rows):
        values = list(dict.fromkeys(value for row in rows if (value := row.level(name)) is not None))
        if name not in (SET, CONTROL) and len(values) > 1:
            several.append(Axis(name, tuple(sorted(values, key=lambda value: (isinstance(value, str), value)))))
    numbers = [axis for axis in several if not isinstance(axis.values[0], str)]
    return (numbers or several)[0]


def varies(result: Result) -> bool:
    names = (name for name in level_names(result.rows) if name not in (SET, CONTROL))
    return any(len({row.level(name) for row in result.rows} - {None}) > 1 for name in names)


def draw_dose(result: Result) -> Figure:
    rows = overall(result.rows)
    axis = axis_of(rows)
    numbers = list(dict.fromkeys(map(_counted, rows)))
    columns = list(dict.fromkeys(row.level(SET) for row in rows if axis.place(row) is not None))
    figure = new_figure(max(COLUMN, 0.9 + 2.1 * len(columns)), 0.9 + 1.75 * len(numbers))
    grid = figure.subplots(len(numbers), len(columns), squeeze=False, sharex=True, sharey="row")
    for line, counted in zip(grid, numbers, strict=True):
        mine = [row for row in rows if _counted(row) == counted]
        for axes, one in zip(line, columns, strict=True):
            _fill(axes, [row for row in mine if row.level(SET) in (one, None)], axis)
            axes.set_title(short(str(one), 30) if one is not None and counted == numbers[0] else "", fontsize=7)
        line[0].set_ylabel(_words(mine[0]), fontsize=6)
    for axes in grid[-1]:
        _ticks(axes, axis)
    handles = {
        label: handle for axes in figure.axes for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    controls = {_kind(str(row.level(CONTROL))) for row in rows if row.level(CONTROL)}
    ordered = dict(sorted(handles.items(), key=lambda pair: pair[0] in controls))  # controls last
    figure.legend(ordered.values(), ordered, loc="outside lower left", ncols=3, frameon=False, fontsize=6)
    title(figure, result)
    despine(figure)
    return figure


def _counted(row: Row) -> tuple[str, ...]:
    return (row.measure, row.of, row.against, row.decoding, row.tokens)


def _words(row: Row) -> str:
    rate = row.measure == "exact-match" and row.against == "counterfactual"
    against = ", as predicted" if rate else f", against {row.against}" if row.against != "answer" else ""
    return (
        f"{row.measure.replace('-', ' ')}{against}"
        + (f"\nof {row.of}" if row.of else "")
        + (f" at {row.tokens}" if row.tokens else "")
    )


def _fill(axes: Axes, rows: Sequence[Row], axis: Axis) -> None:
    lines: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if axis.place(row) is not None:
            lines.setdefault((_rest(row, axis), str(row.level(CONTROL) or "")), []).append(row)
    plain = list(dict.fromkeys(rest for rest, _ in lines))
    colours = dict(zip(plain, palette(len(plain)), strict=True))
    controls = list(dict.fromkeys(_kind(control) for _, control in lines if control))
    for (rest, control), mine in lines.items():
        colour = MUTED if control else colours[rest]
        style = DASHES[controls.index(_kind(control)) % len(DASHES)] if control else "-"
        label = _kind(control) or rest or str(mine[0].level(SET) or "measured")
        mine += _zero(rows, rest, axis) if control else []
        _line(axes, sorted(mine, key=lambda row: axis.place(row) or 0.0), axis, colour, style, label)
    for row in rows:
        if axis.place(row) is None and not row.levels:
            axes.axhline(row.value, color=INK, linewidth=0.6, linestyle=":", zorder=1)
            axes.text(
                1.0, row.value, row.condition, transform=axes.get_yaxis_transform(), fontsize=5, va="bottom", ha="right"
            )
    if all(row.unit == "share" for row in rows):
        axes.set_ylim(-0.03, 1.03)
        axes.yaxis.set_major_formatter("{x:.0%}")


def _line(axes: Axes, rows: Sequence[Row], axis: Axis, colour: str, style: object, label: str) -> None:
    places, values = [axis.place(row) or 0.0 for row in rows], [row.value for row in rows]
    below, above = [row.low for row in rows], [row.high for row in rows]
    axes.plot(places, values, color=colour, linestyle=style, marker="o", markersize=2.5, label=label, zorder=3)
    axes.fill_between(places, below, above, color=colour, alpha=0.2, linewidth=0, zorder=2)


def _zero(rows: Sequence[Row], rest: str, axis: Axis) -> list[Row]:
    """A dose of zero is the same of every direction: a control's line goes through it, too."""
    if not axis.name.startswith("scale"):
        return []
    return [row for row in rows if row.level(axis.name) == 0 and _rest(row, axis) == rest and not row.level(CONTROL)]


def _rest(row: Row, axis: Axis) -> str:
    """What neither axis, panel nor control tells: the other levels, and of a row of no set its condition."""
    alone = [] if row.level(SET) is not None or row.level(CONTROL) is not None else [row.condition]
    levels = [f"{name} {value}" for name, value in row.levels if name not in (axis.name, SET, CONTROL)]
    return ", ".join([*alone, *levels])


def _kind(control: str) -> str:
    """Controls of one kind look alike: `random 1` and `random 2`."""
    word, _, number = control.rpartition(" ")
    return word if word and number.isdecimal() else control


def _ticks(axes: Axes, axis: Axis) -> None:
    axes.set_xlabel(axis.name, fontsize=7)
    if not axis.is_scale:
        axes.set_xticks(range(len(axis.values)), [short(str(value), 14) for value in axis.values])
    elif axis.has_room:  # there is nothing between one layer and the next
        axes.set_xticks([float(value) for value in axis.values], [f"{value:g}" for value in axis.values])
    if any(len(str(value)) > 4 for value in axis.values) and not axis.is_scale:
        axes.tick_params(axis="x", labelrotation=30)
