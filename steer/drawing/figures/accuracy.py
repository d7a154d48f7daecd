"""Exact match by kind of question, as points with intervals."""

from __future__ import annotations

from pathlib import Path

from matplotlib.axes import Axes

from steer.drawing.figures.theme import ACCENT, COLUMN, INK, MUTED, STRICT, despine, new_figure, save_figure, theme
from steer.results.evaluation import Evaluation, GroupScore


def draw_accuracy(report: Evaluation, folder: Path) -> Path:
    strict = [score for score in report.strict if score.exact_match is not None]
    scores = [*strict, *report.accuracy.groups][::-1]
    with theme():
        figure = new_figure(1.4 * COLUMN, 0.5 + 0.26 * len(scores))
        axes = figure.add_subplot()
        for place, score in enumerate(scores):
            _draw_score(axes, place, score)
        axes.axvline(report.accuracy.exact_match, color=MUTED, linewidth=0.8, linestyle=":", zorder=0)
        axes.set_yticks(range(len(scores)), [f"{score.group} ({score.episodes:,})" for score in scores])
        axes.set_ylim(-0.6, len(scores) - 0.4)
        if strict:
            axes.axhline(len(report.accuracy.groups) - 0.5, color=MUTED, linewidth=0.6)
        axes.set_xlabel("exact match, 95 % interval")
        axes.xaxis.set_major_formatter("{x:.0%}")
        figure.suptitle(_title(report, bool(strict)), fontsize=7, x=0.02, ha="left")
        despine(figure)
        return save_figure(figure, folder, "accuracy")


def _draw_score(axes: Axes, place: int, score: GroupScore) -> None:
    colour = INK if score.group == "all" else STRICT if score.slice else ACCENT
    if score.interval is not None and score.exact_match is not None:
        axes.hlines(place, *score.interval, color=colour, linewidth=1.5)
        axes.plot(score.exact_match, place, "o", color=colour, markersize=4)


def _title(report: Evaluation, strict: bool) -> str:
    split = f"{report.accuracy.exact_match:.1%} of {report.accuracy.episodes:,} {report.split} episodes"
    above = f"above the line: {report.strict_title}\nbelow it: " if strict else ""
    return f"{report.checkpoint}; {above}{split}"
