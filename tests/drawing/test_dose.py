"""Doses: each line is read back and held against its rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from axes import ticks
from made import made_result, made_row
from matplotlib.axes import Axes

from steer.drawing.figures.dose import axis_of, draw_dose
from steer.drawing.figures.draw import drawings
from steer.results.rows import Row


def row(value: float, condition: str, *levels: tuple[str, object]) -> Row:
    return made_row(value, value - 0.1, value + 0.1, condition=condition, measure="exact-match", levels=levels)


ROWS = [
    row(0.5, "before"),
    *(row(0.5 + s / 10, f"up, x {s}", ("set", "up"), ("scale", float(s))) for s in (2, -1, 0)),
    *(row(0.5 - s / 20, f"up, x {s}, r", ("set", "up"), ("scale", float(s)), ("control", "random 1")) for s in (2, -1)),
]


def test_lines_are_the_rows_in_order():
    figure = draw_dose(made_result(ROWS))
    (axes,) = figure.axes
    lines = {line.get_label(): line for line in axes.lines if not line.get_label().startswith("_")}
    np.testing.assert_allclose(lines["up"].get_xydata(), [[-1, 0.4], [0, 0.5], [2, 0.7]])
    np.testing.assert_allclose(lines["random"].get_xydata(), [[-1, 0.55], [0, 0.5], [2, 0.4]])
    assert axes.get_xlabel() == "scale"


def bands(axes: Axes) -> list[dict[float, tuple[float, float]]]:
    """Of each line, place -> where its interval begins and ends."""
    corners = [found.get_paths()[0].vertices.tolist() for found in axes.collections]
    places = [{x: [y for at, y in one if at == x] for x, _ in one} for one in corners]
    return [{x: (min(ys), max(ys)) for x, ys in one.items()} for one in places]


def test_bands_are_the_rows_intervals():
    rows = [replace(one, low=one.value - 0.2, high=one.value + 0.05) for one in ROWS[:4]]
    (axes,) = draw_dose(made_result(rows)).axes
    (band,) = bands(axes)
    for one in rows[1:]:
        assert band[one.level("scale")] == pytest.approx((one.low, one.high))


def test_no_layer_is_marked_that_is_not_there():
    for name, values, marked in (
        ("layer", (0, 1), {0: "0", 1: "1"}),
        ("scale", (-2, 0.5, 2), {-2: "-2", 0.5: "0.5", 2: "2"}),
    ):
        rows = [row(0.1 * n, f"at {value}", ("set", "a"), (name, value)) for n, value in enumerate(values, 1)]
        (axes,) = draw_dose(made_result(rows)).axes
        assert ticks(axes.xaxis) == marked
    rows = [row(0.1, f"at {value}", ("set", "a"), ("scale", value)) for value in (0, 0.01, 2)]  # they would overlap
    (axes,) = draw_dose(made_result(rows)).axes
    assert "0.01" not in ticks(axes.xaxis).values()


def test_names_and_far_numbers_stand_at_their_own_ticks():
    for name, values in (("checkpoint", "ba"), ("k", (64, 1, 8))):
        rows = [row(0.1 * n, f"at {value}", ("set", "a"), (name, value)) for n, value in enumerate(values, 1)]
        (axes,) = draw_dose(made_result(rows)).axes
        named = ticks(axes.xaxis)
        (line,) = axes.lines
        found = {named[x]: y for x, y in line.get_xydata()}
        assert found == pytest.approx({str(value): 0.1 * n for n, value in enumerate(values, 1)})


def test_numbers_of_other_tokens_have_a_panel_of_their_own():
    rows = [replace(one, tokens=name, of="a.k") for name in ("colours", "symbols") for one in ROWS]
    first, second = draw_dose(made_result(rows)).axes
    assert first.get_ylabel().endswith("of a.k at colours")
    assert second.get_ylabel().endswith("of a.k at symbols")


def test_controls_stand_last_in_the_legend():
    several = [
        row(0.2, f"{c}, {k}", ("set", "a"), ("k", k), ("variable", v), *extra)
        for v in "xy"
        for c, extra in (("own", ()), ("r", (("control", "random 1"),)))
        for k in (1, 2)
    ]
    (legend,) = draw_dose(made_result(several)).legends
    assert [text.get_text() for text in legend.get_texts()] == ["variable x", "variable y", "random"]


def test_conditions_of_one_point_are_lines_of_their_own():
    """A sweep of a recipe without sets: the clean run and the edit stand at the same scale."""
    swept = [row(v, name, ("scale", s)) for s in (0.0, 1.0) for name, v in (("before", 0.9), ("edited", 0.2 + s / 2))]
    (axes,) = draw_dose(made_result(swept)).axes
    lines = {line.get_label(): line.get_xydata().tolist() for line in axes.lines}
    assert lines == {"before": [[0.0, 0.9], [1.0, 0.9]], "edited": [[0.0, 0.2], [1.0, 0.7]]}


def test_numbers_before_names_and_names_side_by_side():
    named = [row(0.1, "a", ("checkpoint", "x"), ("k", k)) for k in (16, 1, "whole")]
    axis = axis_of([*named, row(0.1, "a", ("checkpoint", "y"), ("k", 1))])
    assert (axis.name, axis.values, axis.is_scale) == ("k", (1, 16, "whole"), False)
    assert axis.place(named[0]) == 1.0
    assert axis_of([row(0.1, "a", ("checkpoint", c)) for c in "yx"]).values == ("x", "y")


def test_without_anything_that_varies_there_is_no_dose():
    assert list(drawings("dose", made_result(ROWS[:1]))) == []
    assert [name for name, _, _ in drawings("dose", made_result(ROWS))] == ["dose"]
