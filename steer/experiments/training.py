"""A protocol and a seed in, a checkpoint out: `steer train` from Python."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from steer.base.errors import SteerError
from steer.base.files import make_folder
from steer.experiments.given import Changes, CheckpointLike, change_words, checkpoint_of
from steer.models.training.load import load_protocol

if TYPE_CHECKING:
    from steer.models.checkpoint import Checkpoint
    from steer.models.training.loop import Event, Trainer
    from steer.models.training.protocol import Protocol

Tell = Callable[["Trainer", "Event | None"], None]


def train(
    out: Path | str, *, preset: str | None = None, config: Path | str | None = None, changes: Changes = (),
    seed: int | None = None, start: CheckpointLike | None = None, resume: bool = False, overwrite: bool = False,
    device: str = "cpu", threads: int | None = None, tell: Tell = lambda trainer, event: None,
) -> Checkpoint:  # fmt: skip
    """Train a model by a protocol, evaluate it, and leave a checkpoint in the folder after every epoch.

    `start`: a checkpoint whose weights to begin with. `resume`: go on from the folder's last epoch; the protocol and
    the seed are then those of the folder, and may be left out. `tell` is called after every step, and with None before
    the first.
    """
    folder = Path(out)
    _check_folder(folder, start is not None, resume, overwrite)
    known = _resumed(folder, preset, config, change_words(changes)) if resume else None
    protocol, own = known or (load_protocol(preset, Path(config) if config else None, change_words(changes)), 0)
    trainer = _trainer(protocol, own if seed is None else seed, device, threads)
    if start is not None:
        trainer.begin_from(checkpoint_of(start))
    if resume:
        trainer.resume(folder)
    make_folder(folder)
    tell(trainer, None)
    trainer.run(folder, lambda event: tell(trainer, event))
    return _evaluated(trainer, folder)


def _check_folder(out: Path, begins: bool, resume: bool, overwrite: bool) -> None:
    if begins and resume:
        raise SteerError("--resume goes on from the folder's own state; --from is for a new run")
    if resume and overwrite:
        raise SteerError("give --resume or --overwrite, not both")
    if out.exists() and not out.is_dir():
        raise SteerError(f"{out} is a file, not a folder")
    if out.is_dir() and any(out.iterdir()) and not (resume or overwrite):
        raise SteerError(f"{out} is not empty; give --resume to go on from it or --overwrite to start again")


def _resumed(
    folder: Path, preset: str | None, config: Path | str | None, changes: tuple[str, ...]
) -> tuple[Protocol, int] | None:
    """The protocol and the seed that the folder's state has; None where a protocol is given, which must be the same."""
    if preset is not None or config is not None:
        return None
    if changes:
        raise SteerError("--resume goes on with the folder's own protocol: give no changes, or the whole protocol")
    from steer.models.training.state import read_state

    state = read_state(folder)
    return state.protocol, state.seed


def _trainer(protocol: Protocol, seed: int, device: str, threads: int | None) -> Trainer:
    import torch

    from steer.models.devices import check_device
    from steer.models.training import loop

    check_device(device)
    if threads is not None:
        torch.set_num_threads(threads)
    return loop.Trainer(protocol, seed, device)


def _evaluated(trainer: Trainer, out: Path) -> Checkpoint:
    """The finished model, measured on the held-out episodes; that is written into its record."""
    from steer.experiments.accuracy import accuracy
    from steer.models.checkpoint import Checkpoint, save_checkpoint

    trained = Checkpoint(trainer.model, trainer.record(), out.name)
    result = accuracy(trained, trained.task.split(trained.task.splits[-1], trained.record.data_seed))
    record = trained.record.model_copy(update={"accuracy": result})
    save_checkpoint(out, trainer.model, record)
    return Checkpoint(trainer.model, record, out.name)
