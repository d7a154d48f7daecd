"""Where a discovered circuit is kept: in a results folder, and beside weights that are the user's own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from steer.base.errors import SteerError
from steer.base.shipped import CHECKPOINTS, checkpoint_names, is_shipped, locate
from steer.discover.search import Tell, discover
from steer.drawing.figures.circuit import draw_all
from steer.drawing.figures.draw import attempt
from steer.models.checkpoint import Checkpoint, load_checkpoint, read_record
from steer.results.circuit import Circuit, read_circuit, write_circuit
from steer.tasks.compositional.splits import make_splits

CAPABLE = 0.9  # exact match: below it there is no task to find a circuit of


@dataclass(frozen=True)
class Asked:
    """How a search is made; the same question of the same weights is not asked twice."""

    episodes: int
    threshold: float


@dataclass(frozen=True)
class Found:
    circuit: Circuit
    known: bool  # the same question was asked before
    differs: bool  # the circuit beside the weights, which recipes go by, has other roles
    undrawn: str  # why its pictures failed, if they did


def capable() -> list[str]:
    """The shipped checkpoints that do the task."""
    names = checkpoint_names()
    scores = {name: (read_record(CHECKPOINTS / name).accuracy or {}).get("exact_match", 0.0) for name in names}
    return [name for name in names if scores[name] >= CAPABLE]


def find_circuit(
    name: str, folder: Path, asked: Asked, force: bool = False, tell: Tell = lambda done, text: None
) -> Found:
    """The circuit, written to its folder and drawn."""
    loaded = load_checkpoint(name, circuit=not force)  # forced: one that is broken does not stand in the way
    circuit = None if force else _known(folder, loaded, asked)
    known = circuit is not None
    if circuit is None:
        splits = make_splits(loaded.record.data_seed)
        bare = Checkpoint(loaded.model, loaded.record, loaded.name)  # what is known already is not looked at
        circuit = discover(bare, splits["validation"], splits["test"], asked.episodes, asked.threshold, tell)
        circuit = circuit.model_copy(update={"evidence": {"asked": vars(asked)} | circuit.evidence})
    write_circuit(circuit, folder)
    _, undrawn = attempt(lambda: draw_all(circuit, folder), "circuit") if circuit.members else (None, "")
    home = locate(name)
    if not is_shipped(home) and loaded.circuit is None:  # shipped ones keep the circuit they came with
        write_circuit(circuit, home)  # recipes on the user's own checkpoint may now name roles
    beside = _beside(home, loaded)
    return Found(circuit, known, beside is not None and beside.roles != circuit.roles, undrawn)


def _beside(home: Path, checkpoint: Checkpoint) -> Circuit | None:
    """What recipes went by before the search, where they still do; a forced one leaves a shipped circuit as it is."""
    if not is_shipped(home):
        return checkpoint.circuit
    try:
        return read_circuit(home, checkpoint.record.weights_sha256)
    except SteerError:  # broken: recipes name it themselves
        return None


def _known(folder: Path, checkpoint: Checkpoint, asked: Asked) -> Circuit | None:
    """The answer to the same question about the same weights: beside the weights, or in the results."""
    found = [checkpoint.circuit, read_circuit(folder, checkpoint.record.weights_sha256)]
    return next((circuit for circuit in found if circuit and circuit.evidence.get("asked") == vars(asked)), None)
