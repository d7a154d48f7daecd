"""Where a discovered circuit is kept: in a results folder, and beside weights that are the user's own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from steer.base.errors import SteerError
from steer.base.memory import MEMORY
from steer.base.shipped import CHECKPOINTS, checkpoint_names, is_shipped, locate
from steer.discover.lab import Helpers
from steer.discover.search import Tell, weights_id
from steer.discover.sought import on_own_task, on_prompts
from steer.drawing.figures.circuit import draw_all
from steer.drawing.figures.draw import attempt
from steer.models.checkpoint import Checkpoint, load_checkpoint, read_record
from steer.models.devices import check_device
from steer.models.families import task_of
from steer.models.subject import Subject
from steer.results.circuit import Circuit, read_circuit, write_circuit
from steer.results.evidence import SearchSettings
from steer.tasks.prompts.formats import named
from steer.tasks.prompts.task import Prompts

CAPABLE = 0.9  # exact match: checkpoints below it do not do the task


@dataclass(frozen=True)
class Discovery:
    """A circuit, and how it came about."""

    circuit: Circuit
    known: bool  # it was searched before, with the same settings
    differs: bool  # the circuit beside the weights, which recipes go by, has other roles
    undrawn: str  # why its pictures failed, if they did


def capable() -> list[str]:
    """The shipped checkpoints that do the task."""
    names = checkpoint_names()
    measured = {name: read_record(CHECKPOINTS / name).accuracy for name in names}
    scores = {name: one.exact_match if one else 0.0 for name, one in measured.items()}
    return [name for name in names if scores[name] >= CAPABLE]


def check_trained(name: str) -> None:
    """Raise where a checkpoint was trained on no task of ours: its circuit is searched on prompts."""
    if task_of(name) == Prompts.name:
        raise SteerError(f"{name}: on which prompts? Give --task FILE.jsonl (docs/task.md says what stands in it)")


def find_circuit(
    name: str, folder: Path, settings: SearchSettings, force: bool = False, tell: Tell = lambda done, text: None,
    device: str = "cpu", made: Circuit | None = None, helpers: Helpers | None = None,
) -> Discovery:  # fmt: skip
    """The circuit, written to its folder and drawn. `made`: by another process."""
    check_device(device)
    loaded = load_checkpoint(name, device, circuit=not force)  # with --force a broken circuit file is ignored
    circuit = None if force or made else _saved(folder, loaded, settings)
    known = circuit is not None
    if circuit is None:
        circuit = _same(made, loaded) if made else on_own_task(loaded).circuit(settings, tell, helpers)
    write_circuit(circuit, folder)
    _, undrawn = attempt(lambda: draw_all(circuit, folder), "circuit") if circuit.members else (None, "")
    home = locate(name)
    if not is_shipped(home) and loaded.circuit is None:  # shipped ones keep the circuit they came with
        write_circuit(circuit, home)  # recipes on the user's own checkpoint may now name roles
    beside = _beside(home, loaded)
    return Discovery(circuit, known, beside is not None and beside.roles != circuit.roles, undrawn)


def is_known(name: str, folder: Path, settings: SearchSettings, device: str = "cpu") -> bool:
    check_device(device)
    return _saved(folder, load_checkpoint(name, device), settings) is not None


def _same(circuit: Circuit, subject: Subject) -> Circuit:
    """A circuit that was searched elsewhere, on weights that are those here."""
    weights = subject.weights
    if circuit.checkpoint.sha256 != weights_id(weights):
        raise SteerError(f"{weights.name}: the worker that searched its circuit has other weights")
    return circuit.model_copy(update={"checkpoint": circuit.checkpoint.model_copy(update={"name": weights.name})})


def asked_of(task: Path | None, dtype: str) -> tuple[str, ...]:
    """The words of a results folder that tell searches of one model apart: on which prompts, in which numbers."""
    return () if task is None else (named(task)[0].stem, *([dtype] if dtype != "float32" else []))


def find_on_prompts(
    name: str, file: Path, folder: Path, settings: SearchSettings, force: bool = False,
    tell: Tell = lambda done, text: None, device: str = "cpu", dtype: str = "float32", memory: int = MEMORY,
    made: Circuit | None = None, helpers: Helpers | None = None,
) -> Discovery:  # fmt: skip
    """The circuit behind a model's answers to prompts of a file. It is kept in its folder alone: it has no roles."""
    sought = on_prompts(name, file, device, dtype, memory)
    circuit = None if force or made else _known_on_prompts(folder, sought.subject, settings)
    known = circuit is not None
    if circuit is None:
        circuit = _same(made, sought.subject) if made else sought.circuit(settings, tell, helpers)
    write_circuit(circuit, folder)
    _, undrawn = attempt(lambda: draw_all(circuit, folder), "circuit") if circuit.members else (None, "")
    return Discovery(circuit, known, False, undrawn)


def is_known_on_prompts(name: str, file: Path, folder: Path, settings: SearchSettings, device: str, dtype: str) -> bool:
    return _known_on_prompts(folder, on_prompts(name, file, device, dtype).subject, settings) is not None


def _known_on_prompts(folder: Path, subject: Subject, settings: SearchSettings) -> Circuit | None:
    circuit = read_circuit(folder, weights_id(subject.weights))
    evidence = circuit.evidence if circuit else None
    same = evidence is not None and (evidence.settings, evidence.prompts) == (settings, subject.task.fingerprint)
    return circuit if same else None


def _beside(home: Path, checkpoint: Checkpoint) -> Circuit | None:
    """The circuit that recipes use: the stored one, if there was one. A search does not replace a shipped circuit."""
    if not is_shipped(home):
        return checkpoint.circuit
    try:
        return read_circuit(home, checkpoint.record.weights_sha256)
    except SteerError:  # broken: recipes report it themselves
        return None


def _saved(folder: Path, checkpoint: Checkpoint, settings: SearchSettings) -> Circuit | None:
    """A circuit of the same weights and settings, in the checkpoint's folder or in the results; None without one."""
    for circuit in (checkpoint.circuit, read_circuit(folder, checkpoint.record.weights_sha256)):
        if circuit and circuit.evidence and circuit.evidence.settings == settings:
            return circuit
    return None
