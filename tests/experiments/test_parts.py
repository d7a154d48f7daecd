"""Experiments in parts: groups of runs on shards of batches. Whoever does them, the numbers are those of the whole."""

from __future__ import annotations

import pytest
import torch
from parted import RECIPES, assert_same_rows, in_parts
from small import checkpoint

from steer.engine.engine import Engine
from steer.experiments.api import build_recipe
from steer.experiments.one import run_experiment
from steer.plan.cut import groups_of
from steer.recipe.load import Loaded

EPISODES = {"split": "test", "arity": 2, "count": 17}


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Engine, "batch_size", lambda self, examples: max(5, len(examples) // 3))


def recipe(name: str) -> Loaded:
    return build_recipe(name, **RECIPES[name], episodes=EPISODES)


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("enough", [1, 6])
@pytest.mark.parametrize("name", RECIPES)
def test_parts_give_the_rows_of_the_whole(name: str, enough: int, monkeypatch: pytest.MonkeyPatch):
    loaded, subject = recipe(name), checkpoint()
    whole = run_experiment(loaded, subject)
    monkeypatch.setattr("steer.experiments.experiment.ENOUGH", enough)
    monkeypatch.setattr("steer.experiments.experiment.groups_of", lambda plan: groups_of(plan, enough))
    parted = in_parts(loaded, subject, seed=enough)
    assert_same_rows(whole.rows, parted.rows, 1e-9)
    assert [type(one) for one in whole.details] == [type(one) for one in parted.details]
    assert whole.samples is not None
    assert parted.samples is not None
    assert whole.samples.values.keys() == parted.samples.values.keys()
    assert whole.tensors.keys() == parted.tensors.keys()
    assert all(torch.allclose(whole.tensors[key], parted.tensors[key], atol=1e-12) for key in whole.tensors)
