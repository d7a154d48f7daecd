"""What takes minutes: a training run to its goal, a search on what it made, the search behind a shipped circuit.

Run by `make test-long`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tokens import answers

from steer.base.dice import Dice
from steer.discover.search import discover
from steer.models.checkpoint import Checkpoint, load_checkpoint
from steer.tasks.compositional.episode import Episode
from steer.tasks.compositional.grammar import Grammar, draw
from steer.tasks.compositional.splits import make_splits

pytestmark = pytest.mark.long
LOOK_UP = Grammar(primitives=(2, 3), functions=(1, 1), demonstrations=(0, 0))  # what the preset `tiny` is trained on


def fresh(count: int, seed: int) -> list[Episode]:
    dice = Dice(seed, "long")
    return [draw(LOOK_UP, dice) for _ in range(count)]


def right(checkpoint: Checkpoint, shown: list[Episode]) -> float:
    return float(
        np.mean([given == e.answer for given, e in zip(answers(checkpoint.transformer, shown), shown, strict=True)])
    )


def test_the_tiny_preset_learns_its_task_and_has_a_circuit(steer, tmp_path: Path):
    done = steer("train", "--preset", "tiny", "--seed", 0, "--out", tmp_path / "mine")
    assert done.exit_code == 0, done.output
    made = load_checkpoint(str(tmp_path / "mine"))
    assert made.record.history[-1]["train_exact"] >= 0.97
    assert right(made, fresh(400, 1)) > 0.9  # none of them was trained on
    found = discover(made, fresh(120, 2), fresh(240, 3), 120)
    assert found.roles["output"]
    told = found.evidence.check.smallest_circuit
    assert told.heads < 24
    assert told.faithfulness.value > 0.7
    assert told.random_circuits.mean < told.faithfulness.value - 0.2
    assert told.model_without_circuit.value < told.model_without_random.mean


def test_the_shipped_circuit_is_what_the_search_finds():
    shipped = load_checkpoint("seed1")
    splits = make_splits(shipped.record.data_seed)
    bare = Checkpoint(shipped.transformer, shipped.record, shipped.name)
    asked = shipped.circuit.evidence.settings
    found = discover(bare, splits.validation, splits.test, asked.episodes, asked.threshold)
    assert {role: set(heads) for role, heads in found.roles.items()} == {
        role: set(heads) for role, heads in shipped.circuit.roles.items()
    }
    assert {role: heads[0] for role, heads in found.roles.items()} == {
        role: heads[0] for role, heads in shipped.circuit.roles.items()
    }
    one, other = (circuit.evidence.check.smallest_circuit.faithfulness.value for circuit in (found, shipped.circuit))
    assert one == pytest.approx(other, abs=0.02)
