"""What is told of a result in words and marks is what its numbers say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from made import made_result, made_row
from small import TWO, ask, checkpoint

from steer.base.errors import SteerError
from steer.base.shipped import CHECKPOINTS
from steer.discover.table import compare, describe
from steer.drawing.figures.circuit import draw_circuit
from steer.drawing.page import write_page
from steer.drawing.tables import result_text
from steer.paper.page import page_of
from steer.paper.reproduce import Reproduction
from steer.paper.verdicts import AS, DIFFERS, NOT_SHOWN, OPEN, Verdict
from steer.results.circuit import load_circuit
from steer.results.evidence import Kept
from steer.results.files import read_result

# Position embeddings are the same in every episode.


ABLATIONS = [
    ({"value": "mean", "over": "position"}, False),
    ({"value": "mean", "over": "token"}, True),
    ({"value": "zero"}, True),
    ({"value": "zero", "over": "token"}, True),
    ({"value": "resample"}, False),
    ({"value": "resample", "over": "token"}, False),
]


@pytest.mark.parametrize(("ablation", "ablated"), ABLATIONS)
def test_positions_are_ablated_where_another_value_is_put_in_and_it_is_told(ablation: dict, ablated: bool):
    """Another value than their own: then numbers move, and nothing is said of positions that keep their values."""
    keys = {"kind": "ablate-set", "ablation": ablation, "tensors": ["enc.pos", "enc.tok"]}
    keys |= {"measures": [{"name": "attention-mass", "heads": "dec-cross-1.1"}]}
    model = checkpoint()
    result = ask(model, TWO, **keys, nodes=["enc.*"])
    moved = {
        site: bool((result.tensors[f"set ablated/{site}"] != result.tensors[f"nothing ablated/{site}"]).any())
        for site in ("enc.pos", "enc.tok")
    }
    assert moved == {"enc.pos": ablated, "enc.tok": True}
    assert ("enc.pos" in result.provenance.edited["set ablated"]) is ablated
    assert ("position embeddings keep their values" in result_text("mine", result, [], False)) is not ablated
    if ablated:
        assert ask(model, TWO, **keys, nodes="enc.pos").provenance.edited["set ablated"] == ("enc.pos",)
    else:
        with pytest.raises(SteerError, match=r"leaves enc\.pos as it is"):
            ask(model, TWO, **keys, nodes="enc.pos")


# A circuit as text


SHIPPED = sorted(path for path in CHECKPOINTS.glob("*/circuit.yaml") if "completeness" in path.read_text())


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.parent.name)
def test_a_described_circuit_tells_the_numbers_of_its_evidence(path: Path):
    circuit = load_circuit(path)
    text, minimality = describe(circuit), circuit.evidence.check.smallest_circuit.minimality
    (least,) = re.findall(r"least needed head +(\S+)", text)
    assert all(minimality[least] <= loss for loss in minimality.values())
    choice = circuit.evidence.check.choice
    (told,) = re.findall(r"choice +(\S+) of colours right; without (.+) (\S+), the other argument's (\S+)", text)
    assert tuple(told[1].split(", ")) == choice.without
    wanted = (choice.right.clean, choice.right.ablated, choice.rival.ablated)
    assert (told[0], *told[2:]) == tuple(f"{number.value:.1%}" for number in wanted)


def kinds(kept: Kept) -> list[str]:
    return [f"{kept.groups[name].value:.1%}" for name in ("one argument", "two arguments")]


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.parent.name)
def test_what_is_kept_is_told_for_each_kind_of_question(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """In the text of both sets; above the picture of the one that is drawn."""
    circuit, drawn = load_circuit(path), []
    monkeypatch.setattr("steer.drawing.figures.circuit.save_figure", lambda figure, *given: drawn.append(figure))
    draw_circuit(circuit, tmp_path)
    (axes,) = drawn[0].axes
    text, title = describe(circuit), axes.get_title(loc="left")
    for told, set_, words in (
        (text, "smallest_circuit", r"smallest faithful set\D"),
        (text, "traced_heads", r"traced (?:heads|paths)\D"),
        (title, "traced_heads", "heads on them"),
    ):
        kept = getattr(circuit.evidence.check, set_).faithfulness
        (line,) = (line for line in told.splitlines() if re.search(words, line) and "keep" in line)
        assert f"{kept.value:.1%} of the accuracy" in line
        assert list(re.search(r"one argument (\S+%), two arguments (\S+%)", line).groups()) == kinds(kept)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.parent.name)
def test_every_path_is_told_with_its_effects(path: Path):
    circuit = load_circuit(path)
    found = re.findall(r"^(\S+) -> (\S+) +(\S+) +(\S+)   (\S+)", describe(circuit), re.MULTILINE)
    head = re.search(r"^path +(\w+) +(\w+) +read at", describe(circuit), re.MULTILINE)
    assert head.groups() == ("sufficient", "necessary")
    assert found == [
        (e.source, e.target, f"{e.sufficiency.value:.2f}", f"{e.necessity.value:.2f}", e.measured_at)
        for e in circuit.edges
    ]


def test_circuits_side_by_side_tell_what_follows_of_what_could():
    circuits = [load_circuit(path) for path in SHIPPED]
    table = compare(circuits)
    assert sum(len(circuit.evidence.check.interchange) > 0 for circuit in circuits) > 1
    for number, circuit in enumerate(circuits):
        for row in circuit.evidence.check.interchange:
            (line,) = (text for text in table.splitlines() if text.startswith(f"{row.variable} at {row.sites} "))
            cells = re.findall(r"  (\d+% of \d+%|-)(?=  |$)", line)
            assert cells[number] == f"{row.accuracy.value:.0%} of {row.ceiling.value:.0%}"


def test_some_shipped_circuits_are_described():
    assert len(SHIPPED) >= 5


# A page of claims


def test_the_page_marks_each_claim_by_its_verdict(tmp_path: Path):
    verdicts = {
        f"{AS} (more)": "same",
        f"{DIFFERS}: less": "other",
        f"{OPEN}: both": "open",
        f"{NOT_SHOWN}: no": "none",
    }
    claims = [Verdict("1", "x", "x", "x", "x", verdict, None, None, None, "x") for verdict in verdicts]
    write_page(page_of(Reproduction("mine", [], claims, tmp_path)), tmp_path / "index.html")
    page = (tmp_path / "index.html").read_text()
    lines = re.findall(r'<tr class="(\w+)"[^>]*>(.*?)</tr>', page, re.DOTALL)
    cells = {mark: re.findall(r"<td[^>]*>(.*?)</td>", line) for mark, line in lines}
    assert {line[5]: mark for mark, line in cells.items()} == verdicts
    colours = dict(re.findall(r"\.(same|other|open|none) \{ border-left: \S+ solid (#\w+) \}", page))
    assert len(set(colours.values())) == 4


# A folder


@pytest.mark.parametrize(("count", "told"), [(6, "6 episodes:"), (9, "6 episodes (all that fit; 9 asked for):")])
def test_fewer_episodes_than_asked_for_are_told(count: int, told: str):
    measures = [{"name": "attention-mass", "heads": "dec-cross-1.1"}]
    result = ask(checkpoint(), TWO, kind="clean", measures=measures, episodes={"count": count})
    assert f"on small, {told}" in result_text("mine", result, [], False)


def test_a_result_that_was_not_written_to_its_end_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Killed before any of its files: what is there does not count as a result."""
    import torch

    row = made_row(0.5, 0.4, 0.6)
    result = made_result([row], hash="0")
    result.tensors = {"clean/logits": torch.zeros(2)}
    replace, names = Path.replace, []
    monkeypatch.setattr(Path, "replace", lambda self, to: (names.append(Path(to).name), replace(self, to))[1])
    result.save(tmp_path / "whole")
    assert len(names) == 3
    whole = read_result(tmp_path / "whole")
    assert whole.rows == [row]
    assert whole.tensors["clean/logits"].tolist() == [0, 0]
    for count in range(3):
        left = [count]

        def killed(self: Path, to: Path, left: list[int] = left) -> Path:
            if not left[0]:
                raise KeyboardInterrupt
            left[0] -= 1
            return replace(self, to)

        monkeypatch.setattr(Path, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            result.save(tmp_path / str(count))
        with pytest.raises(SteerError, match="holds no result"):
            read_result(tmp_path / str(count))
