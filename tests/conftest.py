"""What the tests share: a tiny model, a tiny protocol, and the command line as a subprocess sees it."""

from __future__ import annotations

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing is fetched at run time, and the tests prove it
if "PYTEST_XDIST_WORKER" in os.environ:  # one core for each worker, and for what it starts
    os.environ["OMP_NUM_THREADS"] = "1"

import json
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import torch
import typer.testing
from hypothesis import settings
from rig import disturb, make_engine
from tokens import Protocol, Stage

from steer.base.shipped import CHECKPOINTS, DEFAULT, RECORD
from steer.commands import app
from steer.engine.engine import Engine
from steer.experiments import processes
from steer.models.checkpoint import Checkpoint, load_checkpoint
from steer.models.plain.config import ModelConfig
from steer.models.plain.transformer import Transformer, initialise
from steer.results.circuit import Circuit, Described, write_circuit
from steer.tasks.compositional.grammar import Grammar

processes.MOST = 1  # a test that wants several says so
settings.register_profile("steer", deadline=None, max_examples=60, derandomize=True)
settings.load_profile("steer")
typer.testing._get_command = cache(typer.testing._get_command)  # each call would build all commands again
if "OMP_NUM_THREADS" not in os.environ:
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
    """The paper's sizes with random weights and biases, so large that attention is far from uniform."""
    model = Transformer(ModelConfig())
    initialise(model, torch.Generator().manual_seed(0))
    return disturb(model).eval()


@pytest.fixture
def engine(paper_model: Transformer) -> Engine:
    return make_engine(paper_model.double())


ROLES = {
    "output": ["dec-cross-1.4", "dec-cross-1.0"], "rhs-scanner": ["dec-cross-0.0", "dec-cross-0.4"],
    "primitive-pairing": ["enc-self-1.2"], "question-broadcast": ["enc-self-0.3"],
    "primitive-retrieval": ["enc-self-1.5"], "function-retrieval": ["enc-self-1.7"],
}  # fmt: skip


@pytest.fixture(scope="session")
def cast(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shipped checkpoint with a head for every role, whatever was discovered in it."""
    folder = tmp_path_factory.mktemp("cast") / "cast"
    shutil.copytree(CHECKPOINTS / DEFAULT, folder)
    write_roles(folder, ROLES)
    return folder


def write_roles(folder: Path, roles: dict[str, list[str]]) -> None:
    sha256 = json.loads((folder / RECORD).read_text())["weights_sha256"]
    write_circuit(Circuit(checkpoint=Described(name=folder.name, sha256=sha256), roles=roles), folder)


@pytest.fixture(scope="session")
def tiny() -> Checkpoint:
    return load_checkpoint("tiny")


@pytest.fixture
def png_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """One file for each picture: that there are three is tested elsewhere, and each takes its time."""
    monkeypatch.setattr("steer.drawing.figures.theme.FORMATS", ("png",))


@pytest.fixture
def steer() -> Callable[..., typer.testing.Result]:
    def run(*arguments: object) -> typer.testing.Result:
        return typer.testing.CliRunner().invoke(app, [str(argument) for argument in arguments])

    return run


GOOD = """\
kind: keep-only-one
target: dec-cross-1.3.k
sources: enc-self-*.*
freeze: dec-cross-1.3.q
episodes: {count: 30}
measures:
  - {name: attention-accuracy, heads: dec-cross-1.3}
"""


@pytest.fixture
def recipe_file(tmp_path: Path):
    def write(text: str, name: str = "mine.yaml") -> Path:
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write
