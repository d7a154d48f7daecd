"""What the tests share: a tiny model, a tiny protocol, and the command line as a subprocess sees it."""

from __future__ import annotations

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing is fetched at run time, and the tests prove it

from collections.abc import Callable

import pytest
import torch
from hypothesis import settings
from typer.testing import CliRunner, Result

from steer.commands import app
from steer.model.config import ModelConfig
from steer.model.transformer import Transformer, initialise
from steer.task.grammar import Grammar
from steer.training.protocol import Protocol, Stage

settings.register_profile("steer", deadline=None, max_examples=60, derandomize=True)
settings.load_profile("steer")
torch.set_num_threads(2)

TINY = ModelConfig(encoder_layers=1, decoder_layers=1, heads=2, d_model=16, d_head=8, d_ff=32)
TINY_STAGES = (
    Stage(name="first", epochs=2, episodes=40, grammars=(Grammar(demonstrations=(1, 2), functions=(1, 1)),), batch=10),
    Stage(name="second", epochs=2, episodes=30, batch=10, relabel=True, reshuffle=True),
)


@pytest.fixture
def tiny_protocol() -> Protocol:
    return Protocol(model=TINY, stages=TINY_STAGES)


@pytest.fixture
def paper_model() -> Transformer:
    """The paper's sizes with random weights, so large that attention is far from uniform."""
    model = Transformer(ModelConfig())
    initialise(model, torch.Generator().manual_seed(0))
    return model.eval()


@pytest.fixture
def steer() -> Callable[..., Result]:
    def run(*arguments: object) -> Result:
        return CliRunner().invoke(app, [str(argument) for argument in arguments])

    return run
