"""Figures by what stands on their axes: each mark is read back and held against the row that it shows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from struct import unpack
from typing import Any

import numpy as np
import pytest
from made import made_result, made_row
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, StepPatch

from steer.base.errors import SteerError
from steer.drawing.figures import accuracy, circuit
from steer.drawing.figures.draw import draw_result, drawings
from steer.drawing.figures.histogram import draw_histogram
from steer.drawing.figures.pattern import draw_patterns
from steer.drawing.figures.rates import draw_rates
from steer.drawing.figures.scatter import draw_scatter
from steer.drawing.figures.sweep import draw_bars, draw_components, draw_positions
from steer.drawing.figures.theme import AGAINST
from steer.drawing.look import Look, look_of
from steer.results.circuit import Circuit, Described, Edge, Member
from steer.results.details import Detail, Histogram, Pattern, Sample, Scatter, Transcript
from steer.results.evaluation import Accuracy, Evaluation, GroupScore
from steer.results.evidence import (
    Ablation,
    Check,
    Choice,
    Estimate,
    Evidence,
    GroupedSpread,
    HeadSet,
    Kept,
    SmallestSet,
    Spread,
)
from steer.results.result import Result
from steer.results.rows import Row


def row(condition: str, value: float, **fields: Any) -> Row:
    common = {"condition": condition, "measure": "attention-accuracy", "of": "dec-cross-1.5"}
    return made_row(value, value - 0.04, value + 0.03, **common | fields)


def result(rows: list[Row], *details: Detail, **provenance: Any) -> Result:
    return made_result(rows, *details, **{"examples": 1_234, "description": "what is shown"} | provenance)


def ticks(axis: Any) -> dict[float, str]:
    return {
        round(float(place), 6): label.get_text()
        for place, label in zip(axis.get_ticklocs(), axis.get_ticklabels(), strict=True)
    }


def nearest(names: dict[float, str], place: float) -> str:
    return names[min(names, key=lambda known: abs(known - place))]


def bars(axes: Axes) -> list[tuple[str, float, float, float, str]]:
    """Every drawn bar: the name at its tick, its place, where it begins and ends, and its colour."""
    names = ticks(axes.yaxis)
    found = []
    for patch in axes.patches:
        place = patch.get_y() + patch.get_height() / 2
        if patch.get_width():
            ends = patch.get_x(), patch.get_x() + patch.get_width()
            found.append((nearest(names, place), place, *ends, to_hex(patch.get_facecolor())))
    return found


def whiskers(axes: Axes) -> dict[float, tuple[float, float]]:
    """Horizontal lines by their place: from where to where."""
    lines = [
        segment for found in axes.collections if isinstance(found, LineCollection) for segment in found.get_segments()
    ]
    return {round(float(line[0][1]), 6): (line[0][0], line[1][0]) for line in lines}


def legend(figure: Figure) -> dict[str, str]:
    """Colour -> name."""
    (found,) = figure.legends
    names = [text.get_text() for text in found.get_texts()]
    return {to_hex(line.get_color()): name for line, name in zip(found.get_lines(), names, strict=True)}


def verticals(axes: Axes) -> list[float]:
    return [line.get_xdata()[0] for line in axes.lines if len(set(line.get_xdata())) == 1]


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


def test_a_steered_pattern_stands_beside_the_one_before_it_and_not_the_controls():
    panels = [pattern("dec-cross-1.5", name, n) for n, name in enumerate(("before", "first", "second", "control"))]
    panels.append(pattern("dec-cross-1.1", "before", 9))
    answers = [Transcript(name, "B S A | A = red", (f"colour-{name}",), ("red",)) for name in ("before", "second")]
    rows = [row(name, 0.5, measure="exact-match", against="counterfactual", of="") for name in ("before", "second")]
    found = result(rows, *panels, *answers, shown="second")
    maps = [axes for axes in draw_rates(found).axes if axes.get_title(loc="left")]
    assert len(maps) == 2
    for axes, panel in zip(maps, (panels[0], panels[2]), strict=True):
        np.testing.assert_allclose(cells(axes), panel.weights)
        assert f"dec-cross-1.5 ($output), {panel.condition}" in axes.get_title(loc="left")
        assert f"writes colour-{panel.condition}" in axes.get_title(loc="left")


# Heat maps


def pattern(head: str, condition: str, seed: int, keys: int = 4) -> Pattern:
    weights = tuple(map(tuple, np.random.default_rng(seed).random((2, keys)).round(3).tolist()))
    names = tuple(f"k{seed}{n}" for n in range(keys))
    shown = ("B S A | A = red", ("red", "blue"))
    return Pattern(head, *shown, ("SOS", f"q{seed}"), names, weights, condition, roles=("output",))


def cells(axes: Axes) -> np.ndarray:
    """What a heat map shows, whether it is drawn as an image or as a mesh."""
    shown = axes.images[0] if axes.images else axes.collections[0]
    assert (shown.norm.vmin, shown.norm.vmax) == (0, 1)
    grid = np.asarray(shown.get_array())
    return grid if axes.get_ylim()[0] > axes.get_ylim()[1] else grid[::-1]


def test_each_heat_map_shows_its_own_pattern_between_its_own_tokens():
    panels = [
        pattern("enc-self-0.1", "clean", 1),
        pattern("dec-cross-1.5", "clean", 2),
        pattern("dec-cross-1.1", "off", 3),
    ]
    figure = draw_patterns(result([], *panels))
    maps = [axes for axes in figure.axes if axes.get_visible() and axes.get_title(loc="left")]
    titles = {axes.get_title(loc="left"): axes for axes in maps}
    assert len(titles) == 3
    for panel in panels:
        axes = titles[f"{panel.head} ($output), {panel.condition}"]
        np.testing.assert_allclose(cells(axes), panel.weights)
        assert tuple(ticks(axes.xaxis).values()) == panel.keys
        assert tuple(ticks(axes.yaxis).values()) == panel.queries
    assert "B S A | A = red" in figure.get_suptitle()
    assert "red blue" in figure.get_suptitle()


def test_heads_of_one_condition_are_titled_with_their_roles():
    panels = [pattern("enc-self-0.1", "clean", 1), replace(pattern("dec-cross-1.5", "clean", 2), roles=())]
    figure = draw_patterns(result([], *panels))
    titles = {axes.get_title(loc="left"): axes for axes in figure.axes}
    np.testing.assert_allclose(cells(titles["enc-self-0.1 ($output)"]), panels[0].weights)
    np.testing.assert_allclose(cells(titles["dec-cross-1.5"]), panels[1].weights)


# Scatter


def points(site: str, condition: str, seed: int) -> Scatter:
    rng = np.random.default_rng(seed)
    x, y = (tuple(rng.normal(size=8).round(4).tolist()) for _ in range(2))
    centres = {kind: (float(seed), float(number)) for number, kind in enumerate(("1", "3"))}
    of = ("index-in-question", "colours")
    return Scatter(condition, site, *of, (0.1 * seed, 0.05), centres, x, y, ("1", "3") * 4)


def test_each_panel_of_a_scatter_carries_its_own_points_and_its_own_r2():
    panels = [
        points(site, name, 2 * m + n + 1)
        for m, site in enumerate(("a.k", "b.z"))
        for n, name in enumerate(("clean", "off"))
    ]
    numbers = {(p.site, p.condition): 0.9 - 0.2 * n for n, p in enumerate(panels)}
    rows = [
        replace(
            row(name, value, of=site, measure="r-squared", against="index-in-question"),
            tokens=tokens,
            chance=value / 10,
            value=value if tokens == "colours" else 0.05,
        )
        for tokens in ("symbols", "colours")
        for (site, name), value in numbers.items()
    ]
    figure = draw_scatter(result(rows, *panels))
    grid = figure.axes
    assert len(grid) == 4
    for number, (axes, panel) in enumerate(zip(grid, panels, strict=True)):  # rows are sites, columns conditions
        value = numbers[panel.site, panel.condition]
        title = axes.get_title()
        assert f"R² {value:.2f} ({value - 0.04:.2f}–{value + 0.03:.2f})" in title
        assert f"null {value / 10:.3f}" in title
        clouds = [found for found in axes.collections if isinstance(found, PathCollection)]
        drawn = np.concatenate([cloud.get_offsets() for cloud in clouds])
        assert sorted(map(tuple, drawn.tolist())) == sorted(zip(panel.x, panel.y, strict=True))
        for kind, cloud in zip(("1", "3"), clouds, strict=True):
            mine = [(x, y) for x, y, told in zip(panel.x, panel.y, panel.labels, strict=True) if told == kind]
            assert cloud.get_offsets().tolist() == [list(point) for point in mine]
        assert f"{panel.variance[0]:.0%}" in axes.get_xlabel()
        assert f"{panel.variance[1]:.0%}" in axes.get_ylabel()
        centres = {tuple(line.get_xydata()[0]) for line in axes.lines}
        assert centres == set(panel.centres.values())
        if number % 2 == 0:
            assert panel.site in axes.get_ylabel()
        if number < 2:
            assert [text.get_text() for text in axes.texts] == [panel.condition]


def test_the_legend_of_a_scatter_gives_each_label_the_colour_of_its_points():
    figure = draw_scatter(result([], points("a.k", "clean", 1)))
    (axes,) = figure.axes
    clouds = [found for found in axes.collections if isinstance(found, PathCollection)]
    assert legend(figure) == {to_hex(cloud.get_facecolor()[0]): kind for kind, cloud in zip("13", clouds, strict=True)}
    assert "index in question" in figure.legends[0].get_title().get_text()


# Histogram


def test_a_histogram_shows_the_counts_it_was_given():
    edges = (0.0, 0.5, 1.0, 2.0)
    panels = [
        Histogram(
            "clean", head, 12, 0.25 + n / 10, edges, Sample(0.8 + n, 0.1, 1.9, own),
            Sample(0.5, -1.0, 1.7 + n, (30, 20, 50)),
        )
        for n, (head, own) in enumerate({"dec-cross-1.5": (2, 4, 6), "dec-cross-1.1": (7, 1, 4)}.items())
    ]  # fmt: skip
    figure = draw_histogram(result([], *panels))
    for axes, panel in zip(figure.axes, panels, strict=True):
        drawn = {patch.get_label(): patch.get_data() for patch in axes.patches if isinstance(patch, StepPatch)}
        for name, counts in (("own row", panel.own.counts), ("other rows (null)", panel.others.counts)):
            np.testing.assert_allclose(drawn[name].edges, edges)
            np.testing.assert_allclose(drawn[name].values * np.diff(edges) * sum(counts), counts)
        lines = {line.get_label(): line.get_xdata()[0] for line in axes.lines}
        assert lines["97.5th percentile of the null"] == panel.others.high
        assert lines["mean, own row"] == panel.own.mean
        assert f"{panel.head}: {panel.above_null:.1%}" in axes.get_title(loc="left")
    assert "12 colour tokens" in figure.get_suptitle()


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
    draw_result(found, tmp_path, look_of(["pdf", "svg"], "7x4"))
    assert {path.suffix for path in tmp_path.iterdir()} == {".png", ".pdf", ".svg"}
    assert unpack(">II", (tmp_path / "figure.png").read_bytes()[16:24]) == (7 * 300, 4 * 300)


@pytest.mark.parametrize("size", ["", "x", "7x", "7x4x2", "-1", "0.1", "nan", "400", "7,4"])
def test_a_size_that_is_none_and_an_unknown_format_are_said_at_once(size: str):
    with pytest.raises(SteerError) as raised:
        look_of(["pdff"], size)
    assert [fault.split(":")[0] for fault in raised.value.faults] == ["--format", "--size"]


def test_sources_are_sorted_and_roles_are_named():
    swept = [row(name, value) for name, value in SWEPT.items()]
    roles = {"primitive-pairing": ("enc-self-1.1",)}
    for kind, order in (("keep-only-one", [0.62, 0.44, 0.31]), ("ablate-only-one", [0.31, 0.44, 0.62])):
        (axes,) = draw_bars(result(swept, kind=kind, roles=roles)).axes
        drawn = sorted(bars(axes), key=lambda bar: bar[1])
        assert [end for *_, end, _ in drawn][2:] == pytest.approx(order)
        bold = [label.get_text() for label in axes.get_yticklabels() if label.get_fontweight() == "bold"]
        assert bold == ["enc-self-1.1 $primitive-pairing"]


def test_every_measure_has_a_panel_and_what_answers_are_compared_with_its_colour():
    told = [
        row(when, 0.5, measure=measure, against=against, of="")
        for when in ("before", "after") for measure in ("attention-mass", "exact-match")
        for against in ("answer", "counterfactual")
    ]  # fmt: skip
    figure = draw_bars(result(told))
    assert [axes.get_xlabel() for axes in figure.axes] == ["attention mass", "exact match"]
    assert legend(figure) == {AGAINST["answer"]: "on the answer", AGAINST["counterfactual"]: "on the counterfactual"}


def test_no_word_stands_alone_in_a_titles_last_line():
    text = "encoder heads and MLPs into the Output Head's keys, one kept at a time"
    lines = draw_bars(result([row("a", 0.5)], description=text)).get_suptitle().split("\n")[:2]
    assert " ".join(lines) == text
    assert min(map(len, lines)) > 0.6 * max(map(len, lines))


# Accuracy and circuits


@pytest.fixture
def caught(monkeypatch: pytest.MonkeyPatch) -> dict[str, Figure]:
    """Figures by name, instead of files."""
    found: dict[str, Figure] = {}

    def keep(figure: Figure, folder: Path, name: str, *look: Look) -> Path:
        found[name] = figure
        return folder / f"{name}.png"

    for room in (accuracy, circuit):
        monkeypatch.setattr(room, "save_figure", keep)
    return found


def test_an_evaluations_points_stand_at_their_groups(caught: dict[str, Figure], tmp_path: Path):
    groups = {
        "all": (100, 0.8, (0.7, 0.9)),
        "two arguments": (40, 0.5, (0.3, 0.6)),
        "one argument": (60, 0.95, (0.9, 1.0)),
    }
    scores = tuple(GroupScore(name, *numbers) for name, numbers in groups.items())
    report = Evaluation(
        "mine", "test", (), Accuracy(100, 0.8, (0.7, 0.9), 0.9, 1.1, scores), "questions that must be composed"
    )
    accuracy.draw_accuracy(report, tmp_path)
    (axes,) = caught["accuracy"].axes
    names, spans = ticks(axes.yaxis), whiskers(axes)
    dots = {names[float(line.get_ydata()[0])]: line for line in axes.lines if line.get_marker() == "o"}
    for name, (episodes, value, interval) in groups.items():
        dot = dots[f"{name} ({episodes})"]
        assert dot.get_xdata()[0] == value
        assert spans[float(dot.get_ydata()[0])] == interval
    assert caught["accuracy"].get_suptitle() == "mine; 80.0% of 100 test episodes"
    strict = GroupScore("hard", 40, 0.3, (0.2, 0.4), "any-4"), GroupScore("long", 0, slice="long")
    accuracy.draw_accuracy(replace(report, strict=strict), tmp_path)
    (axes,) = caught["accuracy"].axes
    names = ticks(axes.yaxis)
    assert list(names.values())[-1] == "hard (40)"  # on top; what does not fit into the model has no point
    assert "questions that must be composed" in caught["accuracy"].get_suptitle()


def about(value: float) -> Estimate:
    return Estimate(value=value, low=value - 0.1, high=value + 0.05)


def edge(source: str, target: str, sufficiency: float, necessity: float, **more: Any) -> Edge:
    given = {"sufficiency": about(sufficiency), "necessity": about(necessity), "measured_at": "dec-cross-1.5.k"}
    return Edge(source=source, target=target, **given | more)


NOTHING = Ablation(clean=about(0), ablated=about(0))
FOUND = Circuit(
    checkpoint=Described(name="mine", sha256=""),
    roles={"output": ("dec-cross-1.5",), "primitive-pairing": ("enc-self-1.1",)},
    members=(
        Member(node="enc.tok", block="prompt"), Member(node="enc-mlp-0", block="enc-mlp-0"),
        Member(node="enc-self-1.1", block="enc-self-1", role="primitive-pairing"),
        Member(node="dec-cross-1.5", block="dec-cross-1"),
    ),
    edges=(
        edge("enc-self-1.1", "dec-cross-1.5.k", 0.2, 0.9), edge("enc-self-1.1", "dec-cross-1.5.k", 0.1, 0.3),
        edge("enc-mlp-0", "enc-self-1.1.v", 0.4, 0.1), edge("enc.tok", "enc-mlp-0", 0.1, 0.0, in_company=about(0.6)),
    ),
    evidence=Evidence(
        steer="0", searched_on="some", traced_from=("dec-cross-1.5",), read_by="attention", ablation="mean",
        threshold=0.1, scale="", majority=0.5, curve=((48, 0.98), (24, 0.9), (10, 0.3)),
        check=Check(
            judged_on="others", traced_heads=HeadSet(heads=2, faithfulness=Kept(**dict(about(0.43)))),
            model_without={}, choice=Choice(without=(), right=NOTHING, other_argument=NOTHING),
            smallest_circuit=SmallestSet(
                heads=24, clean=about(0.5), faithfulness=Kept(**dict(about(0.8))),
                random_circuits=GroupedSpread(mean=0.2, min=0.1, max=0.4), everything_ablated=about(0),
                model_without_circuit=about(0), model_without_random=Spread(mean=0, min=0, max=0),
            ),
        ),
    ),
)  # fmt: skip


def test_a_circuit_joins_its_nodes_as_strongly_as_its_paths(caught: dict[str, Figure], tmp_path: Path):
    circuit.draw_circuit(FOUND, tmp_path)
    (axes,) = caught["circuit"].axes
    blocks = ticks(axes.yaxis)
    nodes = {text.get_text().splitlines()[0]: text for text in axes.texts}
    assert {name: blocks[text.get_position()[1]] for name, text in nodes.items()} == {
        "dec-cross-1.5": "dec-cross-1", "enc-self-1.1": "enc-self-1", "enc-mlp-0": "enc-mlp-0", "enc.tok": "prompt",
    }  # fmt: skip
    assert nodes["enc-self-1.1"].get_text().endswith("primitive pairing")
    arrows = [patch for patch in axes.patches if isinstance(patch, FancyArrowPatch)]
    drawn = {}
    for arrow in arrows:
        start, end = arrow._posA_posB
        ends = [
            min(nodes, key=lambda name: np.hypot(*np.subtract(nodes[name].get_position(), at))) for at in (start, end)
        ]
        drawn[tuple(ends)] = arrow
    strengths = {
        ("enc-self-1.1", "dec-cross-1.5"): 0.9,
        ("enc-mlp-0", "enc-self-1.1"): 0.4,
        ("enc.tok", "enc-mlp-0"): 0.6,
    }
    assert drawn.keys() == strengths.keys()
    assert len(arrows) == 3  # a path that was found twice is drawn once
    widths = {ends: arrow.get_linewidth() for ends, arrow in drawn.items()}
    by_width = sorted(widths, key=widths.__getitem__)
    assert by_width == sorted(strengths, key=strengths.__getitem__)
    handles, labels = axes.get_legend_handles_labels()
    colours = {label: to_hex(handle.get_color()) for handle, label in zip(handles, labels, strict=True)}
    assert to_hex(drawn["enc-self-1.1", "dec-cross-1.5"].get_edgecolor()) == colours["into k"]
    assert to_hex(drawn["enc-mlp-0", "enc-self-1.1"].get_edgecolor()) == colours["into v"]
    assert to_hex(drawn["enc.tok", "enc-mlp-0"].get_edgecolor()) == colours["into an MLP"]
    assert "mine: 3 traced paths" in axes.get_title(loc="left")
    assert "traced paths: 2 heads alone keep 43.0%" in axes.get_title(loc="left")
    assert "faithful set: 24 heads alone keep 80.0%" in axes.get_title(loc="left")


def test_the_curve_shows_sizes_accuracies_and_what_chance_keeps(caught: dict[str, Figure], tmp_path: Path):
    circuit.draw_curve("mine", FOUND.evidence, FOUND.evidence.check, tmp_path)
    (axes,) = caught["curve"].axes
    curve = next(line for line in axes.lines if len(line.get_xdata()) == 3)
    assert curve.get_xydata().tolist() == [[48, 0.98], [24, 0.9], [10, 0.3]]
    spans = {bars.get_label(): bars for bars in axes.containers}
    for label, value, low, high in (
        ("faithful set (test)", 0.8, 0.7, 0.85), ("random sets of its size", 0.2, 0.1, 0.4),
    ):  # fmt: skip
        point, _, (stem,) = spans[label].lines
        assert point.get_xydata().tolist() == [pytest.approx([24, value * 0.5])]
        assert stem.get_segments()[0][:, 1].tolist() == pytest.approx([low * 0.5, high * 0.5])
