"""`steer attend`: the attention of one head, or of every head, on one episode."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steer.base.shipped import DEFAULT
from steer.commands.completion import complete_head
from steer.commands.options import (
    CheckpointOption,
    DeviceOption,
    DtypeOption,
    EpisodeOption,
    FormatOption,
    JsonOption,
    MemoryOption,
    OutOption,
    PromptOption,
)
from steer.commands.subjects import Given, TaskOption

if TYPE_CHECKING:
    from steer.drawing.look import Look
    from steer.results.details import Pattern


def attend(
    head: Annotated[
        str | None,
        typer.Option(help="A head (dec-cross-1.5) or a role ($output).", autocompletion=complete_head),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Every head at once, small; with --head a pattern of names: dec-cross-*.*")
    ] = False,
    checkpoint: CheckpointOption = DEFAULT,
    episode: EpisodeOption = None,
    prompt: PromptOption = None,
    task: TaskOption = None,
    out: OutOption = None,
    device: DeviceOption = "cpu",
    dtype: DtypeOption = "float32",
    memory: MemoryOption = "4G",
    formats: FormatOption = None,
    json: JsonOption = False,
) -> None:
    """Show what a head attends to on an episode: as text, as JSON and as a figure. With --all: every head."""
    from steer.base.errors import SteerError
    from steer.commands.glance import at_a_glance
    from steer.drawing.look import look_of
    from steer.experiments import looking

    if head is None and not everything:
        raise SteerError("which head? give --head with its name or its role, or --all for every head")
    look = look_of(formats or ())
    given: Given = {"task": task, "device": device, "dtype": dtype, "memory": memory}
    at_a_glance()
    if everything:
        patterns = looking.attend_all(prompt, heads=head or "*", episode=episode, checkpoint=checkpoint, **given)
    else:
        patterns = [looking.attend(head or "", prompt, episode=episode, checkpoint=checkpoint, **given)]
    picture = _draw(patterns, everything, out or _folder(checkpoint, patterns[0].prompt), look)
    _show(patterns, everything, checkpoint, picture, json)


def _folder(checkpoint: str, prompt: str) -> Path:
    from hashlib import sha256

    from steer.experiments.folders import results_folder

    return results_folder("attend", checkpoint, sha256(prompt.encode()).hexdigest()[:8])


def _draw(patterns: list[Pattern], everything: bool, folder: Path, look: Look) -> Path | None:
    from steer.base.files import make_folder
    from steer.commands.pictures import draw_or_warn
    from steer.drawing.figures.pattern import draw_pattern, draw_sheet

    make_folder(folder)
    if everything:
        return draw_or_warn(lambda: draw_sheet(patterns, folder, "heads", look), "heads")
    name = patterns[0].head
    return draw_or_warn(lambda: draw_pattern(patterns[0], folder, name, look), name)


def _show(patterns: list[Pattern], everything: bool, checkpoint: str, picture: Path | None, json: bool) -> None:
    from dataclasses import asdict
    from json import dumps

    if json:
        shown = {"heads": list(map(asdict, patterns))} if everything else asdict(patterns[0])
        typer.echo(dumps(shown | {"picture": picture and str(picture)}, indent=1))
        return
    _print(patterns, everything, checkpoint)
    if picture:
        typer.echo(f"\npicture: {picture}")


def _print(patterns: list[Pattern], everything: bool, checkpoint: str) -> None:
    from steer.drawing.tables import pattern_text, sheet_text
    from steer.experiments.folders import numbering_of

    if numbering := numbering_of(checkpoint):
        typer.echo(numbering)
    typer.echo(sheet_text(patterns) if everything else pattern_text(patterns[0]))
