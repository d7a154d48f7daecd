"""Files of format 1: rewritten by `steer migrate`, refused with its name by everything else."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import GOOD

from steer.base.errors import SteerError
from steer.base.shipped import CHECKPOINTS, RECIPES
from steer.base.yaml import Document, check
from steer.drawing.figures.histogram import draw_histogram
from steer.drawing.figures.pattern import draw_patterns
from steer.drawing.figures.scatter import draw_scatter
from steer.results.circuit import Circuit, load_circuit
from steer.results.details import Histogram, Pattern, Scatter, Transcript
from steer.results.files import read_result
from steer.results.version1 import circuit_from_1

ROW = {
    "measure": "attention-accuracy", "head": "dec-cross-1.5", "against": "answer", "decoding": "forced",
    "value": 0.5, "low": 0.4, "high": 0.6, "counted": 20, "episodes": 12,
}  # fmt: skip
LABEL = ROW | {"measure": "r-squared", "head": "enc.memory", "against": "index-in-question", "position": "all"}
OLD: dict[str, Any] = {
    "name": "mine", "hash": "ab12", "changes": ["seed=3"], "checkpoint": {"name": "m", "sha256": "00"}, "episodes": 12,
    "recipe": {
        "kind": "keep-only-one", "description": "words", "figure": "bars", "episodes": {"count": 30},
        "ablation": {"value": "mean", "over": "position"},
    },
    "edited": {"enc-self-0.1": ["dec-cross-1.5.k"]}, "ablation": "mean by position over the recipe's own episodes",
    "layer_norm": "recomputed", "intervals": "95 %", "forwards": 7, "device": "cpu", "dtype": "float32",
    "versions": {"steer": "0.1.0"}, "seconds": 1.5,
    "rows": [
        ROW | {"condition": "nothing ablated", "position": "all"},
        ROW | {"condition": "everything ablated", "position": "2"},
        ROW | {"condition": "nothing ablated before the chain", "position": "all"},
        LABEL | {"condition": "enc-self-0.1", "null": 0.1, "tokens": "colours", "warning": "few"},
        ROW | {"condition": "enc-self-0.1", "position": "all", "measure": "logit-attribution"},
    ],
    "details": {
        "patterns": [{
            "condition": "clean", "head": "dec-cross-1.5", "episode": "A | A = red", "answer": ["red"], "roles": [],
            "queries": ["SOS"], "keys": ["A", "EOS"], "weights": [[0.5, 0.5]],
        }],
        "points": [{
            "condition": "clean", "site": "enc.memory", "label": "index-in-question", "tokens": "colours",
            "variance": [0.5, 0.2], "centres": {"1st": [0, 1]}, "x": [1], "y": [2], "labels": ["1st"],
        }],
        "alignments": [{
            "condition": "clean", "head": "dec-cross-1.5", "own_mean": 2, "own_low": 1, "own_high": 3, "null_mean": 0,
            "null_low": -1, "null_high": 1.5, "tokens": 4, "above_null": 0.75, "edges": [0, 1, 2], "own": [1, 3],
            "null": [9, 3],
        }],
        "examples": [{
            "condition": "after", "prompt": "A | A = red", "written": ["blue"], "answer": ["red"],
            "counterfactual": ["blue"],
        }],
    },
}  # fmt: skip


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A result of format 1."""
    (tmp_path / "result.json").write_text(json.dumps(OLD))
    (tmp_path / "rows.csv").write_text("condition,value\n")
    return tmp_path


def test_an_old_result_is_refused_and_the_way_out_is_named(steer, old: Path):
    with pytest.raises(SteerError, match=r"has format 1.*steer migrate"):
        read_result(old)
    done = steer("draw", old)
    assert done.exit_code == 2
    assert "steer migrate" in done.stderr


def test_a_migrated_result_says_the_same_by_its_fields(steer, old: Path):
    done = steer("migrate", old)
    assert done.exit_code == 0, done.output
    assert f"{old / 'result.json'}: format 1 -> 2" in done.stdout
    assert "rows.csv" in done.stdout
    result = read_result(old)
    assert [row.end for row in result.rows] == ["nothing", "everything", "unchanged", "", ""]
    assert [row.position for row in result.rows] == [None, 2, None, None, None]
    assert [row.unit for row in result.rows] == ["share", "share", "share", "r2", "logit"]
    assert {(row.value, row.low, row.high, row.counted, row.examples) for row in result.rows} == {
        (0.5, 0.4, 0.6, 20, 12)
    }
    label = result.rows[3]
    assert (label.of, label.chance, label.tokens, label.warning) == ("enc.memory", 0.1, "colours", "few")
    origin = result.provenance
    assert (origin.examples, origin.wanted, origin.kind, origin.figures) == (12, 30, "keep-only-one", ("bars",))
    assert (origin.hash, origin.description, origin.changes) == ("ab12", "words", ("seed=3",))
    assert origin.ablation == f"{OLD['ablation']}; position embeddings keep their values"
    assert origin.recipe == OLD["recipe"]


def test_a_migrated_results_details_are_all_there_and_drawn(steer, old: Path):
    steer("migrate", old / "result.json")
    result = read_result(old)
    assert [type(detail) for detail in result.details] == [Pattern, Scatter, Histogram, Transcript]
    (histogram,) = result.of_kind(Histogram)
    assert (histogram.own.mean, histogram.own.counts, histogram.others.high) == (2, (1, 3), 1.5)
    (transcript,) = result.of_kind(Transcript)
    assert (transcript.written, transcript.answer, transcript.counterfactual) == (("blue",), ("red",), ("blue",))
    for draw in (draw_patterns, draw_scatter, draw_histogram):
        assert draw(result).axes


def test_the_rows_are_written_again_as_a_table(steer, old: Path):
    steer("migrate", old)
    with (old / "rows.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["position"] for row in rows] == ["", "2", "", "", ""]
    assert [row["chance"] for row in rows] == ["", "", "", "0.1", ""]


def test_a_second_time_there_is_nothing_to_do(steer, old: Path):
    steer("migrate", old)
    files = {path: path.read_bytes() for path in old.iterdir()}
    done = steer("migrate", old, RECIPES / "swap_index.yaml", CHECKPOINTS / "seed1" / "circuit.yaml")
    assert done.exit_code == 0, done.output
    assert [line.partition(": ")[2] for line in done.stdout.splitlines()] == [
        "nothing to do (format 2)", "nothing to do (recipe of version 1)", "nothing to do (format 2)",
    ]  # fmt: skip
    assert files == {path: path.read_bytes() for path in old.iterdir()}


def without(*path: str | int) -> str:
    """The old result with one thing left out."""
    data = json.loads(json.dumps(OLD))
    inner = data
    for key in path[:-1]:
        inner = inner[key]
    del inner[path[-1]]
    return json.dumps(data)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"rows": 3}', without("rows", 0, "position"), without("recipe"), without("recipe", "episodes"),
     without("details", "patterns", 0, "weights"), json.dumps(OLD | {"format": "two"}),
     json.dumps(OLD | {"rows": ["x"]}), json.dumps(OLD | {"format": 3})],
)  # fmt: skip
def test_what_cannot_be_migrated_is_named_and_nothing_is_written(steer, old: Path, tmp_path: Path, text: str):
    bad = tmp_path / "bad" / "result.json"
    bad.parent.mkdir()
    bad.write_text(text)
    before = (old / "result.json").read_bytes()
    done = steer("migrate", old, bad)
    assert done.exit_code == 2, done.output
    assert done.stderr.startswith(f"error: {bad}: ")
    assert len(done.stderr.splitlines()) == 1
    assert (old / "result.json").read_bytes() == before


def test_every_fault_is_told_at_once(steer, tmp_path: Path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "mine.yaml").write_text(GOOD.replace("sources", "sorces"))
    done = steer("migrate", tmp_path / "nowhere", tmp_path / "empty", tmp_path / "mine.yaml")
    assert done.exit_code == 2
    said = done.stderr.splitlines()
    assert "there is no file or folder" in said[0]
    assert "holds no result.json and no circuit.yaml" in said[1]
    assert any("mine.yaml:3" in line for line in said[2:])


# Circuits


OLD_CIRCUIT: dict[str, Any] = {
    "format": 1, "checkpoint": {"name": "m", "sha256": "00"}, "roles": {"output": ["dec-cross-0.0"]},
    "members": [{"node": "enc.tok"}, {"node": "dec-cross-0.0", "role": "output", "core": True}],
}  # fmt: skip


def test_an_old_circuit_is_refused_and_migrated(steer, tmp_path: Path):
    path = tmp_path / "circuit.yaml"
    path.write_text(yaml.safe_dump(OLD_CIRCUIT))
    with pytest.raises(SteerError, match=r"has format 1.*steer migrate"):
        load_circuit(path)
    done = steer("migrate", tmp_path)
    assert done.exit_code == 0, done.output
    circuit = load_circuit(path)
    assert [member.block for member in circuit.members] == ["prompt", "dec-cross-0"]
    assert circuit.roles == {"output": ("dec-cross-0.0",)}
    assert circuit.evidence is None


def test_old_evidence_keeps_its_numbers():
    one, two = ({"value": n, "low": 0.0, "high": 1.0} for n in (0.25, 0.5))
    spread = {"mean": 0.1, "min": 0.0, "max": 0.2}
    pair = {"clean": one, "ablated": two}
    kept = two | {"one_argument": one, "two_arguments": two}
    old = OLD_CIRCUIT | {"evidence": {
        "asked": {"episodes": 20, "threshold": 0.1}, "steer": "0.1.0", "searched_on": "some", "traced_from": ["a"],
        "read_by": "attention", "ablation": "mean", "threshold": 0.1, "scale": "s", "majority": 0.5,
        "logit_shares": {"a": one}, "look_alikes": {}, "curve": [[3, 0.5]], "judged_on": "others",
        "traced_heads": {"heads": 2, "faithfulness": kept}, "model_without": {"b": kept},
        "smallest_circuit": {
            "heads": 1, "clean": one, "faithfulness": kept, "random_circuits": spread | {"one_argument": spread},
            "everything_ablated": one, "model_without_circuit": one, "model_without_random": spread,
            "completeness": None, "minimality": {"a": 0.5}, "unit": "u", "output_attention": None,
        },
        "choice": {"without": ["a"], "right": pair, "other_argument": pair},
        "second_opinions": {"paths": 3, "rank_correlation_with_exact": {"eap": 0.9, "eap_ig": 0.8}},
        "interchange": [{"variable": "v", "sites": "s", "heads": ["a"], "accuracy": one, "null": None, "without": one,
                         "ceiling": two, "episodes": 9}],
    }}  # fmt: skip
    evidence = check(Document("old", circuit_from_1(old)), Circuit).evidence
    assert evidence.settings.episodes == 20
    found = evidence.check
    assert found.smallest_circuit.faithfulness.groups["one argument"].value == 0.25
    assert found.traced_heads.faithfulness.groups["two arguments"].value == 0.5
    assert found.smallest_circuit.random_circuits.groups["one argument"].max == 0.2
    assert (found.gradients.eap, found.gradients.eap_ig, found.gradients.paths) == (0.9, 0.8, 3)
    assert (found.interchange[0].examples, found.interchange[0].ceiling.value) == (9, 0.5)


# Tensors


def test_tensors_are_read_back_when_they_are_asked_for(steer, recipe_file, tmp_path: Path):
    text = "kind: clean\ncheckpoint: tiny\nepisodes: {count: 4}\ntensors: enc-self-0.1.z\nfigure: none\n"
    told = json.loads(
        steer("run", recipe_file(text + "measures: [{name: exact-match}]\n"), "--out", tmp_path, "--json").stdout
    )
    folder = told["folder"]
    code = f"""
import sys
from steer.results.files import read_result
result = read_result({folder!r})
assert list(result.tensors) == ["clean/enc-self-0.1.z"], list(result.tensors)
assert "torch" not in sys.modules
tensor = result.tensors["clean/enc-self-0.1.z"]
assert tensor.shape[0] == 4 and tensor.abs().sum() > 0
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    result = read_result(folder)
    assert "no such thing" not in result.tensors
    result.save(folder)  # over itself
    assert read_result(folder).tensors["clean/enc-self-0.1.z"].shape[0] == 4
    result.save(tmp_path / "copy")
    assert (tmp_path / "copy" / "tensors.safetensors").is_file()
    result.tensors = {}
    result.save(tmp_path / "copy")
    assert not read_result(tmp_path / "copy").tensors


def test_broken_tensors_are_named(steer, old: Path):
    steer("migrate", old)
    (old / "tensors.safetensors").write_bytes(b"nothing of the kind")
    tensors = read_result(old).tensors
    with pytest.raises(SteerError, match=r"tensors\.safetensors: cannot be read"):
        list(tensors)
