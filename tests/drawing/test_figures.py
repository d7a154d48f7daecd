"""Figures by what stands on their axes: each mark is read back and held against the row that it shows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from axes import bars, legend, result, row, ticks, verticals, whiskers
from matplotlib.colors import to_hex

from steer.drawing.figures.draw import draw_result, drawings
from steer.drawing.figures.rates import draw_rates
from steer.drawing.figures.sweep import draw_bars, draw_components, draw_positions
from steer.drawing.figures.theme import ACCENT, MUTED

# Bars


SWEPT = {
    "enc-self-1.1": 0.31,
    "nothing ablated": 0.93,
    "enc-self-0.7": 0.62,
    "enc.tok": 0.44,
    "everything ablated": 0.11,
}


def test_each_bar_stands_at_its_own_name_with_its_own_interval():
    figure = draw_bars(result([row(name, value) for name, value in SWEPT.items()]))
    (axes,) = figure.axes
    drawn, spans = bars(axes), whiskers(axes)
    assert {name: end for name, _, _, end, _ in drawn} == pytest.approx(SWEPT)
    assert {start for _, _, start, _, _ in drawn} == {0}
    for name, place, *_ in drawn:
        assert spans[round(place, 6)] == pytest.approx((SWEPT[name] - 0.04, SWEPT[name] + 0.03))
    from_the_top = sorted(drawn, key=lambda bar: axes.transData.transform((0, bar[1]))[1], reverse=True)
    assert {bar[0] for bar in from_the_top[:2]} == {"nothing ablated", "everything ablated"}
    assert sorted(verticals(axes)) == [0.11, 0.93]
    assert axes.get_xlim() == (0, 1)
    assert "attention accuracy" in axes.get_xlabel()
    assert "dec-cross-1.5" in axes.get_xlabel()


def test_bars_of_several_heads_have_the_colour_that_the_legend_gives_them():
    values = {
        ("a", "dec-cross-1.5"): 0.9,
        ("a", "dec-cross-0.2"): 0.2,
        ("b", "dec-cross-1.5"): 0.5,
        ("b", "dec-cross-0.2"): 0.7,
    }
    figure = draw_bars(result([row(name, value, of=head) for (name, head), value in values.items()]))
    (axes,) = figure.axes
    named = legend(figure)
    assert {(name, named[colour]): end for name, _, _, end, colour in bars(axes)} == pytest.approx(values)
    spans = whiskers(axes)
    assert all(spans[round(place, 6)][0] == pytest.approx(end - 0.04) for _, place, _, end, _ in bars(axes))


def test_bars_of_several_tokens_do_not_stand_on_one_another():
    values = {"colours": 0.9, "symbols": 0.2}
    rows = [replace(row("a", value, of="x.k", measure="r-squared"), tokens=name) for name, value in values.items()]
    figure = draw_bars(result(rows))
    named = legend(figure)
    assert {named[colour]: end for *_, end, colour in bars(figure.axes[0])} == pytest.approx(
        {f"at {name}": value for name, value in values.items()}
    )
    assert len({place for _, place, *_ in bars(figure.axes[0])}) == 2


def test_the_clean_run_that_others_are_compared_with_is_grey():
    figure = draw_bars(result([row(name, 0.5) for name in ("clean", "without", "with")]))
    assert [colour for *_, colour in bars(figure.axes[0])] == [MUTED, ACCENT, ACCENT]
    assert [colour for *_, colour in bars(draw_bars(result([row("clean", 0.5)])).axes[0])] == [ACCENT]


def test_only_rows_over_all_positions_are_bars():
    rows = [row("a", 0.5), row("a", 0.9, position=1), row("b", 0.4)]
    (axes,) = draw_bars(result(rows)).axes
    assert {name: end for name, _, _, end, _ in bars(axes)} == pytest.approx({"a": 0.5, "b": 0.4})


def test_components_stand_at_their_names():
    values = {"dec.tok": 0.2, "dec-self-0.1": -0.5, "dec-cross-1.5": 2.5, "dec-mlp-1": 1.0}
    rows = [row("clean", value, of=head, measure="logit-attribution") for head, value in values.items()]
    (axes,) = draw_components(result(rows)).axes
    assert list(ticks(axes.yaxis).values()) == sorted(values, key=lambda name: -values[name])  # who writes most, on top
    ends = {name: end if start == 0 else start for name, _, start, end, _ in bars(axes)}
    assert ends == pytest.approx(values)
    spans = whiskers(axes)
    assert all(
        spans[round(place, 6)] == pytest.approx((values[name] - 0.04, values[name] + 0.03))
        for name, place, *_ in bars(axes)
    )
    assert axes.get_ylim()[0] > axes.get_ylim()[1]  # the first component on top


def test_components_of_several_conditions_have_the_legends_colours():
    values = {
        ("clean", "dec-self-0.1"): 0.5,
        ("off", "dec-self-0.1"): 1.5,
        ("clean", "dec-mlp-1"): 2.5,
        ("off", "dec-mlp-1"): 3.5,
    }
    rows = [row(name, value, of=head, measure="logit-attribution") for (name, head), value in values.items()]
    figure = draw_components(result(rows))
    named = legend(figure)
    assert {(named[colour], name): end for name, _, _, end, colour in bars(figure.axes[0])} == pytest.approx(values)


# Positions


def test_lines_run_through_the_values_at_their_positions():
    values = {"before": [0.9, 0.8, 0.7], "after": [0.2, 0.3, 0.4]}
    rows = [row(name, some[n], position=n + 1) for n in range(3) for name, some in values.items()]
    figure = draw_positions(result([*rows, row("before", 0.5)]))
    (axes,) = figure.axes
    named = legend(figure)
    drawn = {named[to_hex(line.get_color())]: line for line in axes.lines}
    for name, some in values.items():
        assert list(drawn[name].get_xdata()) == [1, 2, 3]
        assert list(drawn[name].get_ydata()) == some
    bands = {named[to_hex(band.get_facecolor()[0])]: band.get_paths()[0].vertices for band in axes.collections}
    for name, some in values.items():
        heights = {place: bands[name][np.isclose(bands[name][:, 0], place), 1] for place in (1, 2, 3)}
        for place, value in enumerate(some, 1):
            assert (heights[place].min(), heights[place].max()) == pytest.approx((value - 0.04, value + 0.03))
    assert list(ticks(axes.xaxis)) == [1, 2, 3]


# Rates


RATES = {
    "before": {"answer": 0.9, "counterfactual": 0.02, "neither": 0.08},
    "steered": {"answer": 0.2, "counterfactual": 0.7, "neither": 0.1},
    "ceiling": {"counterfactual": 0.95},
}


def test_shares_of_answers_are_stacked_in_their_own_colours():
    rows = [
        row(name, value, measure="exact-match", against=kind, of="", decoding="greedy")
        for name, shares in RATES.items()
        for kind, value in shares.items()
    ]
    figure = draw_rates(result([*rows, row("before", 0.5)]))
    (axes,) = figure.axes
    handles, labels = axes.get_legend_handles_labels()
    words = {"as predicted": "counterfactual", "unchanged": "answer", "another answer": "neither"}
    named = {to_hex(h.patches[0].get_facecolor()): words[label] for h, label in zip(handles, labels, strict=True)}
    drawn = {(name, named[colour]): (start, end) for name, _, start, end, colour in bars(axes)}
    for name, shares in RATES.items():
        ends = 0.0
        for kind in ("counterfactual", "answer", "neither"):
            if kind in shares:
                assert drawn[name, kind] == pytest.approx((ends, ends + shares[kind]))
                ends += shares[kind]
    spans = whiskers(axes)
    places = {name: place for name, place, *_ in bars(axes)}
    for name, shares in RATES.items():
        value = shares["counterfactual"]
        assert spans[round(places[name], 6)] == pytest.approx((value - 0.04, value + 0.03))
    assert verticals(axes) == [0.95]


# Titles and files


def test_a_title_says_what_on_which_weights_and_how_many_episodes():
    told = " ".join(draw_bars(result([row("a", 0.5)])).get_suptitle().split())
    assert told == "what is shown some weights, 1,234 episodes, 95 % intervals"


def test_numbers_that_cannot_share_an_axis_get_pictures_of_their_own():
    rows = [row("a", 0.5), row("a", 3.0, measure="logit-attribution"), row("a", 0.3, measure="r-squared")]
    drawn = [(name, [r.measure for r in part.rows]) for name, _, part in drawings("bars", result(rows))]
    assert drawn == [
        ("bars", ["attention-accuracy"]),
        ("components", ["logit-attribution"]),
        ("r-squared", ["r-squared"]),
    ]
    assert not list(drawings("none", result(rows)))
    assert not list(drawings("scatter", result(rows)))


def test_every_asked_figure_is_a_file(tmp_path: Path):
    found = result([row("a", 0.5), row("a", 0.6, position=1)], figures=("positions", "bars"))
    assert [path.name for path in draw_result(found, tmp_path)] == ["figure.png", "figure-bars.png"]
    assert {path.suffix for path in tmp_path.iterdir()} == {".png"}
