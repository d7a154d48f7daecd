"""Where a discovered circuit is kept: in a results folder, and beside weights that are the user's own."""

from __future__ import annotations

from pathlib import Path

from steer.circuit import Circuit, read_circuit, write_circuit
from steer.commands.progress import bar
from steer.discover.search import discover
from steer.errors import SteerError
from steer.figures.circuit import draw_circuit, draw_curve
from steer.model.checkpoint import Checkpoint, load_checkpoint, read_record
from steer.shipped import CHECKPOINTS, checkpoint_names, locate
from steer.task.splits import make_splits

CAPABLE = 0.9  # exact match: below it there is no task to find a circuit of


def capable() -> list[str]:
    """The shipped checkpoints that do the task."""
    names = checkpoint_names()
    scores = {name: (read_record(CHECKPOINTS / name).accuracy or {}).get("exact_match", 0.0) for name in names}
    return [name for name in names if scores[name] >= CAPABLE]


def discover_into(
    name: str, out: Path | None, episodes: int, threshold: float, force: bool, quiet: bool
) -> tuple[Circuit, bool]:
    """The circuit, written to its folder and drawn; and whether it was known already."""
    loaded = load_checkpoint(name)
    folder = (out or Path("results")) / f"discover-{loaded.name}"
    asked = {"episodes": episodes, "threshold": threshold}
    circuit = None if force else _known(folder, loaded, asked)
    known = circuit is not None
    if circuit is None:
        with bar(f"discovering {loaded.name}", 1.0, quiet) as advance:
            bare = Checkpoint(loaded.model, loaded.record, loaded.name)  # what is known already is not looked at
            splits = make_splits(loaded.record.data_seed)
            circuit = discover(bare, splits["validation"], splits["test"], episodes, threshold, advance).circuit
        circuit = circuit.model_copy(update={"evidence": {"asked": asked} | circuit.evidence})
    write_circuit(circuit, folder)
    draw_circuit(circuit, folder)
    if circuit.roles.get("output"):
        draw_curve(circuit, folder)
    if locate(name).parent != CHECKPOINTS:  # a checkpoint of the user's own: its recipes may now name roles
        write_circuit(circuit, locate(name))
    return circuit, known


def _known(folder: Path, checkpoint: Checkpoint, asked: dict[str, float]) -> Circuit | None:
    """The answer to the same question about the same weights: in the results, or beside the weights."""
    try:
        found = [read_circuit(folder, checkpoint.record.weights_sha256), checkpoint.circuit]
    except SteerError:
        found = [checkpoint.circuit]
    return next((circuit for circuit in found if circuit and circuit.evidence.get("asked") == asked), None)
