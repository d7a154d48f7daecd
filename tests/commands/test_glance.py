"""What a person types first: short help, completion, lists, comparisons, pictures in other forms, logs of training."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import GOOD

from steer.commands.completion import (
    complete_checkpoint,
    complete_head,
    complete_model,
    complete_numbering,
    complete_preset,
    complete_recipe,
    complete_site,
)

TINY_RUN = ("stages.0.epochs=2", "stages.0.episodes=40", "model.d_model=16", "model.heads=2", "model.d_head=8")


@pytest.mark.parametrize("words", [["-h"], ["run", "-h"], ["attend", "-h"], ["compare", "-h"]])
def test_short_help(steer, words: list[str]):
    done = steer(*words)
    assert done.exit_code == 0
    assert "Usage" in done.stdout


class Line:
    """What stands on the command line already."""

    def __init__(self, **params: str) -> None:
        self.params = params


def test_names_are_completed():
    assert complete_recipe("paper/fig05") == ["paper/fig05a_k_sources", "paper/fig05b_k_chain"]
    assert "seed1" in complete_checkpoint("se")
    assert complete_preset("ti") == ["tiny"]
    assert complete_head(Line(), "dec-cross-1.") == [f"dec-cross-1.{n}" for n in range(8)]
    assert complete_head(Line(checkpoint="tiny"), "dec-cross-0.") == [f"dec-cross-0.{n}" for n in range(4)]
    assert "$output" in complete_head(Line(), "$")
    assert complete_head(Line(checkpoint="nowhere"), "") == []
    assert complete_site(Line(), "dec-cross-1.5.k") == ["dec-cross-1.5.k"]
    assert {"$output.k", "$output.z"} <= set(complete_site(Line(), "$output."))
    assert complete_site(Line(checkpoint="nowhere"), "") == []
    assert complete_numbering("pa") == ["paper"]
    assert complete_model("sw") == ["swapping"]


def test_completion_needs_no_torch():
    program = (
        "import os, sys\n"
        "os.environ |= {'_STEER_COMPLETE': 'complete_bash', 'COMP_CWORD': '3'}\n"
        "os.environ['COMP_WORDS'] = 'steer attend --head dec-cross-1'\n"
        "from steer.commands import app\n"
        "try:\n    app(prog_name='steer')\n"
        "finally:\n    assert not {'torch', 'nnsight', 'matplotlib'} & set(sys.modules), 'heavy'\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.split() == [f"dec-cross-1.{n}" for n in range(8)], done.stderr


def test_validate_as_json(steer, recipe_file):
    good, bad = recipe_file(GOOD, "good.yaml"), recipe_file(GOOD.replace("sources", "sorces"), "bad.yaml")
    done = steer("validate", good, bad, "--json")
    assert done.exit_code == 2
    told = {Path(one["recipe"]).name: one["faults"] for one in json.loads(done.stdout)}
    assert told["good.yaml"] == []
    assert any("sorces" in fault for fault in told["bad.yaml"])
    assert steer("validate", good, "--json").exit_code == 0


@pytest.mark.usefixtures("png_only")
def test_results_are_listed_and_compared(steer, tmp_path: Path):
    out = tmp_path / "out"
    few = ("checkpoint=tiny", "episodes.count=8", "--out", out, "--json")
    one, other = (
        json.loads(steer("run", "paper/accuracy", *few, *more).stdout)["folder"] for more in ([], ["episodes.seed=1"])
    )
    listed = json.loads(steer("results", out, "--json").stdout)
    assert [row["recipe"] for row in listed] == ["accuracy", "accuracy"]
    assert {tuple(row["changes"]) for row in listed} == {
        ("episodes.count=8",), ("episodes.count=8", "episodes.seed=1")
    }  # fmt: skip
    assert {row["checkpoint"] for row in listed} == {"tiny"}
    text = steer("results", out).stdout
    assert "episodes.seed=1" in text
    assert one in text
    told = json.loads(steer("compare", one, other, "--json").stdout)
    assert told["pairing"] == "independent"
    same = json.loads(steer("compare", one, one, "--json").stdout)
    assert same["pairing"] == "paired"
    assert all(row["value"] == 0 for row in same["differences"])
    assert "same examples" in steer("compare", one, one).stdout
    drawn = steer("draw", one, "--out", tmp_path / "pictures", "--format", "svg", "--size", "5x3")
    assert drawn.exit_code == 0, drawn.output
    assert {path.name for path in (tmp_path / "pictures").iterdir()} >= {"figure.png", "figure.svg"}


def test_every_head_at_once(steer, tmp_path: Path):
    told = json.loads(steer("attend", "--all", "--episode", 3, "--out", tmp_path, "--json").stdout)
    assert len(told["heads"]) == 6 * 8
    assert Path(told["picture"]).stat().st_size > 10_000
    by_name = {one["head"]: one for one in told["heads"]}
    alone = json.loads(steer("attend", "--head", "$output", "--episode", 3, "--out", tmp_path, "--json").stdout)
    assert alone["weights"] == by_name[alone["head"]]["weights"]
    said, keys = enumerate(alone["expected"]), list(enumerate(alone["keys"]))
    wanted = {(step, place) for step, token in said for place, key in keys if key == token}
    assert {tuple(pair) for pair in alone["right"]} == wanted  # the colour that comes next, wherever it stands
    for one in told["heads"]:
        if one["roles"] == ["question-broadcast"]:  # a symbol looks at its copy in the question
            assert one["right"]
            assert all(one["keys"][key] == one["queries"][query] and key < query for query, key in one["right"])
    assert "question-broadcast" in {role for one in told["heads"] for role in one["roles"]}
    some = steer("attend", "--all", "--head", "dec-cross-1.*", "--episode", 3, "--out", tmp_path).stdout
    assert sum(line.startswith("dec-cross-1.") for line in some.splitlines()) == 8
    assert "which head?" in steer("attend").stderr


def test_training_is_told_line_by_line_and_goes_on_without_its_preset(steer, tmp_path: Path):
    out = tmp_path / "run"
    done = steer("train", "--preset", "tiny", "--seed", 4, "--out", out, *TINY_RUN)
    assert done.exit_code == 0, done.output
    lines = done.stderr.splitlines()
    assert "seed 4" in lines[0]
    assert [line.split(":")[0] for line in lines[1:]] == ["look-up, epoch 1 of 2", "look-up, epoch 2 of 2"]
    weights = (out / "model.safetensors").read_bytes()
    again = steer("train", "--resume", "--out", out)
    assert again.exit_code == 0, again.output
    assert (out / "model.safetensors").read_bytes() == weights
    assert steer("train", "--resume", "--out", out, "--seed", 5).exit_code == 2
    assert "give no changes" in steer("train", "--resume", "--out", out, "model.heads=3").stderr
    listed = json.loads(steer("ls", "--json").stdout)["presets"]
    assert all(preset["cost"] and preset["learns"] for preset in listed)
