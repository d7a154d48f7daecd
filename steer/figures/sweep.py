"""Sweeps and comparisons: one mark for each condition, with its interval, between the two ends of the scale."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from steer.figures.theme import COLUMN, INK, MUTED, new_figure, save_figure, theme
from steer.results import Result

Row = dict[str, Any]
ENDS = ("nothing ablated", "nothing ablated before the chain", "everything ablated")


def draw_result(result: Result, folder: Path, name: str = "figure") -> Path | None:
    """The figure that the recipe asked for, or none."""
    kind = result.metadata["recipe"]["figure"]
    if kind == "none":
        return None
    with theme():
        figure = draw_bars(result) if kind == "bars" else draw_positions(result)
        return save_figure(figure, folder, name)


def series(result: Result) -> list[str]:
    """What is compared within a condition: measures, heads and what they are held against, as far as they differ."""
    return list(dict.fromkeys(label(row, result.rows) for row in result.rows))


def label(row: Row, rows: list[Row]) -> str:
    differ = [key for key in ("measure", "head", "against") if len({other[key] for other in rows}) > 1]
    return ", ".join(str(row[key]) for key in differ if row[key]) or str(row["measure"])


def draw_bars(result: Result) -> Any:
    """One row for each condition; the ends of the scale are dotted lines when there is one series."""
    rows = [row for row in result.rows if row["position"] == "all"]
    names = series(result)
    swept = [c for c in dict.fromkeys(row["condition"] for row in rows) if len(names) > 1 or c not in ENDS]
    swept = swept or list(dict.fromkeys(row["condition"] for row in rows))
    figure = new_figure(COLUMN, 0.9 + 0.17 * len(swept) * max(1, 0.8 * len(names)))
    axes = figure.add_subplot()
    colours = sns.color_palette("colorblind", len(names))
    for number, row in enumerate(r for r in rows if r["condition"] in swept):
        side = names.index(label(row, result.rows))
        place = swept.index(row["condition"]) + (side - (len(names) - 1) / 2) * 0.8 / len(names)
        axes.barh(place, row["value"], height=0.8 / len(names), color=colours[side], linewidth=0, zorder=2)
        axes.hlines(place, row["low"], row["high"], color=INK, linewidth=0.8, zorder=3 + number)
    axes.set_yticks(range(len(swept)), swept)
    axes.invert_yaxis()
    if len(names) == 1:
        _draw_ends(axes, [row for row in rows if row["condition"] in ENDS and row["condition"] not in swept])
    else:
        _legend(axes, names, colours)
    axes.set_xlim(0, 1)
    axes.xaxis.set_major_formatter("{x:.0%}")
    axes.set_xlabel(_axis(rows, names))
    _title(axes, result)
    sns.despine(figure)
    return figure


def _draw_ends(axes: Axes, ends: list[Row]) -> None:
    for row in ends:
        axes.axvline(row["value"], color=MUTED, linestyle=":", linewidth=1, zorder=1)
        side = "right" if row["value"] > 0.5 else "left"
        text = row["condition"].removesuffix(" before the chain")
        axes.annotate(
            text, (row["value"], 1), xycoords=("data", "axes fraction"), xytext=(-2 if side == "right" else 2, 2),
            textcoords="offset points", ha=side, va="bottom", color=MUTED, fontsize=6,
        )  # fmt: skip


def draw_positions(result: Result) -> Any:
    """One line for each condition and series, over the positions of the answer."""
    rows = [row for row in result.rows if row["position"] != "all"]
    figure = new_figure(COLUMN, 2.4)
    axes = figure.add_subplot()
    lines = list(dict.fromkeys((row["condition"], label(row, result.rows)) for row in rows))
    colours = sns.color_palette("colorblind", len(lines))
    for line, colour in zip(lines, colours, strict=True):
        mine = [row for row in rows if (row["condition"], label(row, result.rows)) == line]
        places = [int(row["position"]) for row in mine]
        axes.plot(places, [row["value"] for row in mine], "o-", color=colour, markersize=3, linewidth=1)
        axes.fill_between(places, [r["low"] for r in mine], [r["high"] for r in mine], color=colour, alpha=0.2, lw=0)
    names = [condition if len(series(result)) == 1 else f"{condition}: {name}" for condition, name in lines]
    _legend(axes, names, colours)
    axes.set_ylim(0, 1)
    axes.yaxis.set_major_formatter("{x:.0%}")
    axes.set_xticks(sorted({int(row["position"]) for row in rows}))
    axes.set_xlabel("position in the answer")
    axes.set_ylabel(_axis(rows, series(result)))
    _title(axes, result)
    sns.despine(figure)
    return figure


def _axis(rows: list[Row], names: list[str]) -> str:
    measures = list(dict.fromkeys(row["measure"] for row in rows))
    head = f" of {rows[0]['head']}" if rows and rows[0]["head"] and len(names) == 1 else ""
    return f"{' / '.join(measures)}{head}, 95 % interval"


def _legend(axes: Axes, names: list[str], colours: Any) -> None:
    marks = [Line2D([], [], color=colour, linewidth=4) for colour in colours]
    axes.figure.legend(marks, names, loc="outside lower center", ncols=1 if len(names) > 2 else 2, frameon=False)


def _title(axes: Axes, result: Result) -> None:
    told = result.metadata
    text = told["recipe"]["description"] or told["name"]
    axes.set_title(
        f"{text}\n{told['checkpoint']['name']}, {told['episodes']:,} episodes", fontsize=7, pad=12, loc="left"
    )
