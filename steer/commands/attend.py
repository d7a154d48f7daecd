"""`steer attend`: one head's attention on one episode."""

from __future__ import annotations

from typing import Annotated

import typer

from steer.base.shipped import DEFAULT
from steer.commands.options import CheckpointOption, JsonOption, OutOption
from steer.commands.subjects import TaskOption, load_with_task

EpisodeOption = Annotated[int | None, typer.Option(help="Number of a test episode, or of a line of --task, from 0.")]
PromptOption = Annotated[str | None, typer.Option(help='Your own: "B S A | A = red | B = blue | A S B = blue red".')]


def attend(
    head: Annotated[str, typer.Option(help="A head (dec-cross-1.4) or a role ($output).")],
    checkpoint: CheckpointOption = DEFAULT,
    episode: EpisodeOption = None,
    prompt: PromptOption = None,
    task: TaskOption = None,
    out: OutOption = None,
    json: JsonOption = False,
) -> None:
    """Show what a head attends to on an episode: as text, as JSON and as a figure."""
    from dataclasses import asdict
    from hashlib import sha256
    from json import dumps

    from steer.base.files import make_folder
    from steer.commands.folders import results_folder
    from steer.commands.pictures import draw_or_warn
    from steer.drawing.figures.pattern import draw_pattern
    from steer.drawing.tables import pattern_text
    from steer.experiments.attend import attention_pattern, choose_episode
    from steer.models.families import names_of

    node = names_of(checkpoint).head(head)
    loaded = load_with_task(checkpoint, task)
    shown = choose_episode(loaded, episode, prompt)
    pattern = attention_pattern(loaded, node, shown)
    folder = out or results_folder("attend", checkpoint, sha256(str(shown).encode()).hexdigest()[:8])
    make_folder(folder)
    picture = draw_or_warn(lambda: draw_pattern(pattern, folder, str(node)), str(node))
    if json:
        typer.echo(dumps(asdict(pattern) | {"picture": picture and str(picture)}, indent=1))
        return
    if loaded.weights.numbering:
        typer.echo(loaded.weights.numbering)
    typer.echo(pattern_text(pattern) + (f"\n\npicture: {picture}" if picture else ""))
