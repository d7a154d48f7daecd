"""The sides of `benchmarks/sweep.py` give the same numbers: what it times is one thing, done in several ways."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from steer.models.checkpoint import load_checkpoint

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
import sweep


@pytest.mark.parametrize("kind", ["k", "chain", "full"])
def test_every_side_of_a_sweep_gives_the_same_numbers(kind: str):
    sides = sweep.sides(kind, load_checkpoint("seed1"), 12)
    found = {name: sides[name]() for name in ("steer", "plain hooks")}
    assert len(set(found["steer"])) > 1
    np.testing.assert_allclose(found["plain hooks"], found["steer"], atol=1e-6)
