"""The training benchmark runs: its protocol is one of the task, and both sides take their steps."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest
import torch

from steer.base.shipped import DEFAULT_TASK
from steer.tasks import TASKS

FILE = Path(__file__).parents[2] / "benchmarks" / "train.py"


def test_its_stages_say_which_episodes_are_shown():
    protocol = runpy.run_path(str(FILE))["paper_protocol"]()
    assert [isinstance(stage, TASKS[DEFAULT_TASK].lesson) for stage in protocol.stages] == [True]


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
def test_both_sides_take_their_steps(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    threads = str(torch.get_num_threads())
    monkeypatch.setattr(sys, "argv", [FILE.name, "--rounds", "1", "--steps", "1", "--threads", threads])
    runpy.run_path(str(FILE), run_name="__main__")
    told, progress = capsys.readouterr()
    assert [line.split()[0] for line in told.splitlines()] == ["steer", "torch.nn.Transformer", "ratio"]
    assert "round 1 of 1" in progress
