"""A small model of random weights, and recipes on it that may mean nothing."""

from __future__ import annotations

import pytest
import torch
from rig import named

from steer.anatomy.names import Names
from steer.anatomy.nodes import Node
from steer.base.errors import KeyedError
from steer.experiments.api import build_recipe
from steer.experiments.one import run_experiment
from steer.models.checkpoint import Checkpoint, Record
from steer.models.plain.config import ModelConfig
from steer.models.plain.transformer import Transformer
from steer.recipe.lower import lower

SMALL = ModelConfig(encoder_layers=2, decoder_layers=3, heads=2, d_model=12, d_head=5, d_ff=9)
SMALL_NAMES = named(2, 3, 2)
CAST = named(
    2, 3, 2,
    {"output": (Node("dec-cross", 2, 1), Node("dec-cross", 0, 0)), "rhs-scanner": (Node("dec-cross", 1, 1),)},
)  # fmt: skip
ATTENTION = [{"name": "attention-mass", "heads": "dec-cross-1.0"}]
ANSWERS = [{"name": "exact-match"}]


def faults(names: Names = SMALL_NAMES, **keys) -> list[tuple[tuple, str]]:
    with pytest.raises(KeyedError) as caught:
        lower(build_recipe(**{"measures": ATTENTION} | keys).recipe, names)
    return caught.value.placed


def random_model() -> Transformer:
    generator = torch.Generator().manual_seed(1)
    model = Transformer(SMALL).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64) * 0.6)
    return model.requires_grad_(False)


def small(**keys):
    record = Record(config=SMALL, seed=0, protocol={}, history=[])
    return run_experiment(build_recipe(**keys), Checkpoint(random_model(), record, "small"))
