"""Figures of details by what stands on their axes: heat maps, scatter plots, histograms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from axes import cells, legend, pattern, result, row, ticks
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.colors import to_hex
from matplotlib.patches import StepPatch

from steer.drawing.figures.histogram import draw_histogram
from steer.drawing.figures.pattern import FRAMED, draw_patterns, pattern_figure, sheet_figure
from steer.drawing.figures.rates import draw_rates
from steer.drawing.figures.scatter import draw_scatter
from steer.results.details import Histogram, Sample, Scatter, Transcript


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


def framed(axes: Axes) -> set[tuple[float, float]]:
    """The middles of all frames: at which query and which key."""
    frames = [one for found in axes.collections if isinstance(found, LineCollection) for one in found.get_segments()]
    return {(float(one[:4, 1].mean()), float(one[:4, 0].mean())) for one in frames if len(one) == 5}


def test_what_is_right_to_look_at_is_framed_where_query_meets_key():
    """In a figure of its own, beside others, and small among all heads of the model."""
    first = replace(pattern("enc-self-0.1", "clean", 1), right=((0, 3), (1, 2)))
    second = replace(pattern("enc-self-0.2", "clean", 2), right=((1, 3),))
    figures = [pattern_figure(first), draw_patterns(result([], first, second)), sheet_figure([first, second])]
    for figure in figures:
        maps = [axes for axes in figure.axes if axes.images and axes.get_title(loc="left")]
        assert [framed(axes) for axes in maps] == [set(one.right) for one in (first, second)[: len(maps)]]
        assert [text.get_text() for text in figure.legends[0].get_texts()] == [FRAMED]
    assert not pattern_figure(pattern("enc-self-0.1", "clean", 1)).legends


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


def shapes(axes: Axes) -> dict[str, str]:
    """Colour -> mark of what a panel shows large."""
    return {to_hex(line.get_color()): str(line.get_marker()) for line in axes.lines}


def test_a_label_has_one_shape_in_every_panel_and_in_the_legend():
    """Also where a panel lacks a label, and where there are more labels than shapes."""
    kinds = tuple("1234567")
    centres = {kind: (float(kind), 0.0) for kind in kinds}
    whole = replace(points("a.k", "clean", 1), centres=centres, labels=(*kinds, "1"))
    part = replace(points("a.k", "off", 2), centres={kind: centres[kind] for kind in kinds[2:]}, labels=("3", "4") * 4)
    figure = draw_scatter(result([], whole, part))
    names = legend(figure)
    assert tuple(names.values()) == kinds
    told = {to_hex(line.get_color()): str(line.get_marker()) for line in figure.legends[0].get_lines()}
    first, second = map(shapes, figure.axes)
    assert first == told
    assert second == {colour: mark for colour, mark in told.items() if names[colour] in kinds[2:]}
    assert len({*told.values()}) > 4


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
