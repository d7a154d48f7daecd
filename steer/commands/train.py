"""`steer train`: a protocol and a seed in, a checkpoint folder out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steer.commands.options import DeviceOption, QuietOption

if TYPE_CHECKING:
    from steer.models.training.loop import Trainer


def train(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the checkpoint, the log and the state.")],
    changes: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Changes to the protocol: stages.0.epochs=5")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**31 - 1, help="Seed of weights, order and dropout.")] = 0,
    preset: Annotated[str | None, typer.Option(help="A shipped protocol by name (see `steer ls`).")] = None,
    config: Annotated[Path | None, typer.Option(help="A protocol of your own (YAML).")] = None,
    start: Annotated[
        str | None, typer.Option("--from", help="Begin with a checkpoint's weights instead of random ones.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the folder's last epoch.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Start again in a folder that is not empty.")] = False,
    device: DeviceOption = "cpu",
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads; for two seeds side by side, 1 each.")] = None,
    quiet: QuietOption = False,
) -> None:
    """Train a model by a protocol. An interrupted run continues with --resume and ends with the same weights."""
    from steer.base.errors import SteerError
    from steer.base.files import make_folder
    from steer.models.training.load import load_protocol

    protocol = load_protocol(preset, config, changes or [])
    if start is not None and resume:
        raise SteerError("--resume goes on from the folder's own state; --from is for a new run")
    if resume and overwrite:
        raise SteerError("give --resume or --overwrite, not both")
    if out.exists() and not out.is_dir():
        raise SteerError(f"{out} is a file, not a folder")
    if out.is_dir() and any(out.iterdir()) and not (resume or overwrite):
        raise SteerError(f"{out} is not empty; give --resume to go on from it or --overwrite to start again")

    import torch

    from steer.models.checkpoint import load_checkpoint
    from steer.models.devices import check_device
    from steer.models.training.loop import STATE, Trainer

    check_device(device)
    if threads is not None:
        torch.set_num_threads(threads)
    trainer = Trainer(protocol, seed, device)
    if start is not None:
        trainer.begin_from(load_checkpoint(start))
    if resume:
        trainer.resume(out)
    make_folder(out)
    try:
        _run(trainer, out, quiet)
    except KeyboardInterrupt as error:
        kept = "--resume goes on from the last whole epoch"
        raise KeyboardInterrupt(*[kept] * (out / STATE).is_file()) from error
    exact = _evaluate(trainer, out)
    typer.echo(f"{out}: {trainer.progress.presentations:,} presentations, held-out exact match {exact:.1%}")


def _evaluate(trainer: Trainer, out: Path) -> float:
    """Measure the finished model on the held-out episodes and write that into its record."""
    from steer.experiments.accuracy import accuracy
    from steer.models.checkpoint import Checkpoint, save_checkpoint

    record = trainer.record()
    trained = Checkpoint(trainer.model, record, out.name)
    result = accuracy(trained, trained.task.split(trained.task.splits[-1], record.data_seed))
    save_checkpoint(out, trainer.model, record.model_copy(update={"accuracy": result.to_json()}))
    return result.exact_match


def _run(trainer: Trainer, out: Path, quiet: bool) -> None:
    from steer.commands.progress import bar
    from steer.models.training.loop import Event

    total = sum(stage.epochs for stage in trainer.protocol.stages)
    with bar("training", total, quiet, unit="epochs") as advance:
        advance(trainer.progress.epochs, "")

        def tell(event: Event) -> None:
            seen = "" if event.validation is None else f", validation {event.validation:.1%}"
            done = sum(stage.epochs for stage in trainer.protocol.stages[: trainer.progress.stage])
            advance(done + event.epoch + event.step / event.steps, f"{event.stage.name}: loss {event.loss:.3f}{seen}")

        trainer.run(out, tell)
