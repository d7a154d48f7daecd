"""An evaluation's picture and a circuit's, by what stands on their axes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from axes import ticks, whiskers
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch

from steer.base.shipped import CHECKPOINTS
from steer.drawing.figures import accuracy, circuit
from steer.drawing.figures.theme import theme
from steer.results.circuit import Circuit, Described, Edge, Member, load_circuit
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


@pytest.fixture
def caught(monkeypatch: pytest.MonkeyPatch) -> dict[str, Figure]:
    """Figures by name, instead of files."""
    found: dict[str, Figure] = {}

    def keep(figure: Figure, folder: Path, name: str, *look: object) -> Path:
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
            model_without={}, choice=Choice(without=(), right=NOTHING, rival=NOTHING),
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
        start, *_, end = arrow._path_original.vertices
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
    assert "the 2 heads on them, alone with all MLPs, keep 43.0%" in axes.get_title(loc="left")
    assert "80.0%" not in axes.get_title(loc="left")  # of a set that is not drawn


@pytest.mark.parametrize("name", ["strict2", "deep"])
def test_no_path_runs_through_a_box_that_it_does_not_join(name: str):
    found = load_circuit(CHECKPOINTS / name / "circuit.yaml")
    with theme():
        figure = circuit.circuit_figure(found)
        figure.draw_without_rendering()
    (axes,) = figure.axes
    boxes = {text.get_text().splitlines()[0]: text.get_bbox_patch().get_window_extent() for text in axes.texts}
    arrows = [patch for patch in axes.patches if isinstance(patch, FancyArrowPatch)]
    for path, arrow in zip(circuit.strongest(found), arrows, strict=True):
        line = axes.transData.transform_path(arrow._path_original).interpolated(1)
        others = boxes.keys() - {path.source, circuit.target_node(path)}
        hit = [node for node in others if line.intersects_bbox(boxes[node], filled=False)]
        assert not hit, f"{path.source} -> {path.target}"


def test_the_heads_in_the_picture_are_those_whose_accuracy_the_title_says():
    found = load_circuit(CHECKPOINTS / "strict2" / "circuit.yaml")
    drawn = {node for nodes in circuit.layers(found, circuit.strongest(found)).values() for node in nodes}
    heads = {node for node in drawn if node[-2:-1] == "."}
    assert len(heads) == found.evidence.check.traced_heads.heads


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


def test_no_point_of_the_curve_lies_on_the_name_of_its_line(caught: dict[str, Figure], tmp_path: Path):
    for name in ("strict2", "deep", "seed1"):
        circuit.draw_all(load_circuit(CHECKPOINTS / name / "circuit.yaml"), tmp_path)
        figure = caught["curve"]
        figure.draw_without_rendering()
        (axes,), (text,) = figure.axes, figure.axes[0].texts
        box = text.get_window_extent().padded(3)
        points = [point for line in axes.lines if line.get_marker() in "os" for point in line.get_xydata()]
        assert len(points) > 5
        assert not any(box.contains(*axes.transData.transform(point)) for point in points), name
