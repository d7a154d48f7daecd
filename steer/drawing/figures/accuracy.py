"""Exact match by kind of question, as points with intervals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import seaborn as sns

from steer.drawing.figures.theme import ACCENT, COLUMN, INK, MUTED, STRICT, new_figure, save_figure, theme


def draw_accuracy(report: dict[str, Any], folder: Path) -> Path:
    strict = [row for row in report.get("strict", ()) if row["episodes"]]
    rows = [*strict, *report["groups"]][::-1]
    with theme():
        figure = new_figure(1.4 * COLUMN, 0.5 + 0.26 * len(rows))
        axes = figure.add_subplot()
        for place, row in enumerate(rows):
            colour = INK if row["group"] == "all" else STRICT if "slice" in row else ACCENT
            axes.hlines(place, *row["interval"], color=colour, linewidth=1.5)
            axes.plot(row["exact_match"], place, "o", color=colour, markersize=4)
        axes.axvline(report["exact_match"], color=MUTED, linewidth=0.8, linestyle=":", zorder=0)
        axes.set_yticks(range(len(rows)), [f"{row['group']} ({row['episodes']:,})" for row in rows])
        axes.set_ylim(-0.6, len(rows) - 0.4)
        if strict:
            axes.axhline(len(report["groups"]) - 0.5, color=MUTED, linewidth=0.6)
        axes.set_xlabel("exact match, 95 % interval")
        axes.xaxis.set_major_formatter("{x:.0%}")
        figure.suptitle(_title(report, bool(strict)), fontsize=7, x=0.02, ha="left")
        sns.despine(figure)
        return save_figure(figure, folder, "accuracy")


def _title(report: dict[str, Any], strict: bool) -> str:
    split = f"{report['exact_match']:.1%} of {report['episodes']:,} {report.get('split', 'test')} episodes"
    above = "above the line: questions that must be composed\nbelow it: " if strict else ""
    return f"{report['checkpoint']}; {above}{split}"
