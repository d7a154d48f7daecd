"""`steer train`: a protocol and a seed in, a checkpoint folder out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steer.commands.completion import complete_checkpoint, complete_preset
from steer.commands.options import DeviceOption, QuietOption

if TYPE_CHECKING:
    from steer.models.training.loop import Event, Trainer


def train(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the checkpoint, the log and the state.")],
    changes: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Changes to the protocol: stages.0.epochs=5")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, max=2**31 - 1, help="Seed of weights, order and dropout [0].")
    ] = None,
    preset: Annotated[
        str | None, typer.Option(help="A shipped protocol by name (see `steer ls`).", autocompletion=complete_preset)
    ] = None,
    config: Annotated[Path | None, typer.Option(help="A protocol of your own (YAML).")] = None,
    start: Annotated[
        str | None,
        typer.Option(
            "--from", help="Begin with a checkpoint's weights, not random ones.", autocompletion=complete_checkpoint
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the folder's last epoch, by the folder's protocol.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Start again in a folder that is not empty.")] = False,
    device: DeviceOption = "cpu",
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads; for two seeds side by side, 1 each.")] = None,
    quiet: QuietOption = False,
) -> None:
    """Train a model by a protocol. An interrupted run continues with --resume and ends with the same weights."""
    from steer.experiments.training import train as train_model
    from steer.models.training.state import STATE

    try:
        with telling(quiet) as tell:
            made = train_model(
                out, preset=preset, config=config, changes=changes or (), seed=seed, start=start, resume=resume,
                overwrite=overwrite, device=device, threads=threads, tell=tell,
            )  # fmt: skip
    except KeyboardInterrupt as error:
        kept = "--resume goes on from the last whole epoch"
        raise KeyboardInterrupt(*[kept] * (out / STATE).is_file()) from error
    last = made.record.history[-1]
    assert made.record.accuracy is not None
    exact = f"held-out exact match {made.record.accuracy.exact_match:.1%}"
    typer.echo(f"{out}: {last['presentations']:,} presentations, {exact}")


@contextmanager
def telling(quiet: bool) -> Iterator[Callable[[Trainer, Event | None], None]]:
    """A bar on a terminal; elsewhere a line when it starts and one after every epoch."""
    from rich.console import Console

    from steer.commands.progress import bar

    if quiet or not Console(stderr=True).is_terminal:
        yield (lambda trainer, event: None) if quiet else tell_lines
        return
    with bar("training", 1.0, unit="") as advance:

        def tell(trainer: Trainer, event: Event | None) -> None:
            stages = trainer.protocol.stages
            before = sum(stage.epochs for stage in stages[: trainer.progress.stage])
            done = before + trainer.progress.epoch + (event.step / event.steps if event else 0)
            text = f"{event.stage.name}: loss {event.loss:.3f}{_seen(event)}" if event else ""
            advance(done / sum(stage.epochs for stage in stages), text)

        yield tell


def tell_lines(trainer: Trainer, event: Event | None) -> None:
    """For a log: what is trained, then a line an epoch, told at its last step."""
    stages, at = trainer.protocol.stages, trainer.progress
    if event is None:
        total = sum(stage.epochs for stage in stages)
        what = trainer.protocol.description or "a protocol without a description"
        typer.echo(f"{what}; seed {trainer.seed}; {at.epochs} epochs done, {total} at most", err=True)
    elif event.step == event.steps:
        place = f"{event.stage.name}, epoch {event.epoch + 1} of {event.stage.epochs}"
        typer.echo(f"{place}: loss {event.loss:.4f}{_seen(event)}", err=True)


def _seen(event: Event) -> str:
    return "" if event.validation is None else f", validation before it {event.validation:.1%}"
