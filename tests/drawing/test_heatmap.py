"""Heat maps by what stands on their axes: each cell is read back and held against its row."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from made import made_result, made_row
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from steer.drawing.figures.draw import drawings
from steer.drawing.figures.heatmap import EMPTY, draw_heatmap
from steer.results.details import PlaceTokens
from steer.results.rows import Row


def row(condition: str, value: float, **fields: object) -> Row:
    return made_row(
        value, value - 1, value + 1, condition=condition, measure="logit-difference", unit="logit", **fields
    )


ENDS = [row("clean", 5.0, end="nothing"), row("counterpart", -1.0, end="everything")]


def patched(site: str, value: float, place: str = "all") -> Row:
    return row(f"{site} at {place}", value, site=site, place=place)


def panels(figure: Figure) -> list[Axes]:
    return [axes for axes in figure.axes if axes.images]


def cells(axes: Axes) -> dict[tuple[str, str], float]:
    lines, columns = ([tick.get_text() for tick in ticks] for ticks in (axes.get_yticklabels(), axes.get_xticklabels()))
    values = np.ma.filled(axes.images[0].get_array(), np.nan)
    return {(line, column): values[y][x] for y, line in enumerate(lines) for x, column in enumerate(columns)}


def test_layer_by_head():
    """A panel for each kind and port; cells without a number are grey; white is the clean number on every panel."""
    numbers = {"enc-self-1.2.z": 4.0, "enc-self-0.0.z": 5.5, "enc-self-0.2.z": 0.0, "dec-cross-1.1.k": 7.0}
    result = made_result([*ENDS, *(patched(site, value) for site, value in numbers.items())], figures=("heatmap",))
    figure = draw_heatmap(result)
    one, two = panels(figure)
    assert [axes.get_title("left") for axes in (one, two)] == ["enc-self-*.*.z", "dec-cross-*.*.k"]
    found = cells(one)
    assert found["enc-self-0.*.z", "2"] == 0.0
    assert found["enc-self-1.*.z", "2"] == 4.0
    assert found["enc-self-0.*.z", "0"] == 5.5
    assert np.isnan(found["enc-self-1.*.z", "0"])
    assert cells(two) == {("dec-cross-1.*.k", "1"): 7.0}
    for axes in (one, two):
        image = axes.images[0]
        assert (image.norm.vmin, image.norm.vmax) == (-1.0, 11.0)  # as far as the farther of cells and ends: 6
        red, green, blue, _ = image.cmap(image.norm(5.0))
        assert min(red, green, blue) > 0.94
        assert image.cmap(image.norm(0.0))[2] > image.cmap(image.norm(0.0))[0]  # below: blue
        assert image.cmap(image.norm(10.0))[0] > image.cmap(image.norm(10.0))[2]  # above: red
        assert image.cmap.get_bad()[:3] == pytest.approx([int(EMPTY[n : n + 2], 16) / 255 for n in (1, 3, 5)])
    (bar,) = [axes for axes in figure.axes if not axes.images and axes.get_ylabel()]
    assert {text.get_text(): text.get_position()[1] for text in bar.texts} == {"clean": 5.0, "counterpart": -1.0}
    assert bar.get_ylabel() == "logit difference"


def test_layers_and_heads_stand_in_the_order_of_their_numbers():
    rows = [patched(f"enc-self-{layer}.{head}.z", layer + head / 100) for layer in (10, 2, 1) for head in (11, 2, 0)]
    (axes,) = panels(draw_heatmap(made_result([*ENDS, *rows])))
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["0", "2", "11"]
    assert [tick.get_text() for tick in axes.get_yticklabels()] == [f"enc-self-{n}.*.z" for n in (1, 2, 10)]
    found = cells(axes)
    assert all(
        found[f"enc-self-{layer}.*.z", str(head)] == layer + head / 100 for layer in (1, 2, 10) for head in (0, 2, 11)
    )


def test_site_by_place_with_its_tokens():
    """Points of one stream stand in one panel, in the order of computation; places by number, then by name."""
    sites = ["enc-resid-0.pre", "enc-resid-0.mid"]
    rows = [patched(site, n + 10 * k, str(n)) for k, site in enumerate(sites) for n in (1, 2, 10)]
    rows += [patched(site, 3.0 + k, "last") for k, site in enumerate(sites)]
    tokens = PlaceTokens(tuple(sites), ("A", "S", *"BCDEFGH", "…"))
    (axes,) = panels(draw_heatmap(made_result([*ENDS, *rows], tokens)))
    assert axes.get_title("left") == "enc-resid-*.*"
    found = cells(axes)
    assert [column for line, column in found if line == sites[0]] == ["A 1", "S 2", "… 10", "last"]
    assert [found[sites[1], column] for column in ("A 1", "S 2", "… 10", "last")] == [11.0, 12.0, 20.0, 4.0]
    assert [found[sites[0], column] for column in ("A 1", "S 2", "… 10", "last")] == [1.0, 2.0, 10.0, 3.0]


def test_a_picture_for_each_measure_and_none_without_sites():
    sweep = [patched("enc-mlp-0", 2.0), patched("enc-mlp-1", 4.0)]
    shares = [made_row(0.5, 0.4, 0.6, condition=one.condition, site=one.site, end=one.end) for one in (*ENDS, *sweep)]
    result = made_result([*ENDS, *sweep, *shares])
    drawn = {name: part for name, _, part in drawings("heatmap", result)}
    assert list(drawn) == ["heatmap", "heatmap-m-answer-forced"]
    assert {one.measure for one in drawn["heatmap"].rows} == {"logit-difference"}
    assert not list(drawings("heatmap", made_result(ENDS)))
    (axes,) = panels(draw_heatmap(drawn["heatmap"]))
    assert cells(axes) == {("enc-mlp-0", ""): 2.0, ("enc-mlp-1", ""): 4.0}


def test_a_picture_for_each_point_of_a_sweep():
    """No point's numbers may stand in the cells of another's."""
    points = {0: (2.0, 4.0), 1: (3.0, 1.0)}
    rows = [
        replace(one, levels=(("seed", seed),))
        for seed, (low, high) in points.items()
        for one in (*ENDS, patched("enc-mlp-0", low), patched("enc-mlp-1", high))
    ]
    drawn = {name: part for name, _, part in drawings("heatmap", made_result(rows, recipe={"sweep": {"seed": [0, 1]}}))}
    assert list(drawn) == ["heatmap", "heatmap-logit-difference-answer-forced-seed-1"]
    for part, (seed, (low, high)) in zip(drawn.values(), points.items(), strict=True):
        figure = draw_heatmap(part)
        (axes,) = panels(figure)
        assert cells(axes) == {("enc-mlp-0", ""): low, ("enc-mlp-1", ""): high}
        assert f"white: clean, seed {seed}" in figure.get_suptitle()


def test_only_what_all_cells_share_is_said_above_them():
    rows = [*ENDS, patched("enc-mlp-0", 2.0), patched("enc-mlp-1", 4.0)]
    rows = [replace(one, warning="few; odd" if one.site == "enc-mlp-1" else "few") for one in rows]
    title = draw_heatmap(made_result(rows)).get_suptitle()
    assert "Warning: few" in title
    assert "odd" not in title
    assert "white: clean" in title
