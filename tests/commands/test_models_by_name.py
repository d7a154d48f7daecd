"""Shipped Hugging Face models by name: where they can be used, in which numbers, and what is said where they cannot."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from steer.base.shipped import RECIPES, model_names
from steer.commands.completion import complete_checkpoint
from steer.engine.engine import Engine

TASK = RECIPES / "induction" / "induction.jsonl"
GIVEN = ["-c", "induction", "--json"]


@pytest.mark.parametrize("command", ["eval", "reproduce", "renumber"])
@pytest.mark.parametrize("name", ["induction", "hf:induction"])
def test_commands_for_checkpoints_of_ours_say_what_takes_a_model(steer, command: str, name: str, tmp_path: Path):
    done = steer(command, "-c", name, *(["--out", tmp_path / "out"] if command == "renumber" else []))
    assert done.exit_code == 2
    assert f"{name} is a Hugging Face model" in done.output
    assert "`steer check FILE.jsonl -c`" in done.output


def test_they_are_listed_offered_and_copied(steer, tmp_path: Path):
    listed = json.loads(steer("ls", "--json").stdout)["models"]
    assert {one["name"]: one["family"] for one in listed} == {"induction": "gpt2", "swapping": "bart"}
    assert complete_checkpoint("ind") == ["induction"]
    assert set(model_names()) <= set(steer("check", TASK, "-c", "nowhere").output.replace(",", "").split())
    assert steer("cp", "swapping", tmp_path / "mine").exit_code == 0
    assert (tmp_path / "mine" / "config.json").exists()


def row_sums(weights: list[list[float]]) -> float:
    """How far rows of attention are from one."""
    return max(abs(sum(row) - 1) for row in weights)


def test_the_kind_of_numbers_is_the_one_that_was_asked_for(steer, tmp_path: Path):
    shown = [*GIVEN, "--out", tmp_path, "--head", "1.0", "--prompt", "ant bee cat dog ant"]
    exact, single, coarse = (
        row_sums(json.loads(steer("attend", *shown, "--dtype", dtype).stdout)["weights"])
        for dtype in ("float64", "float32", "bfloat16")
    )
    assert exact < 1e-14 < single < 1e-5 < coarse
    assert steer("attend", *shown, "--dtype", "float16").exit_code == 2


def test_memory_is_what_a_run_may_take(steer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    sizes = []
    real = Engine.batch_size
    monkeypatch.setattr(Engine, "batch_size", lambda self, some: sizes.append(real(self, some)) or sizes[-1])
    more = [*GIVEN, "--task", TASK, "--memory", "1M"]
    for command in (["attribute", "--quiet"], ["attribute", "--head", "1.0"], ["ask", "--episode", 0, "--at", "0.0.z"]):
        sizes.clear()
        done = steer(*command, *more, "--out", tmp_path)
        assert done.exit_code == 0, done.output
        assert sizes
        assert max(sizes) < 100  # of 200 lines; with the usual 4G all fit into one batch
    sizes.clear()
    assert steer("check", TASK, "-c", "induction", "--memory", "1M").exit_code == 0
    assert sizes
    assert max(sizes) < 100
    assert steer("ask", *GIVEN, "--task", TASK, "--memory", "little").exit_code == 2
