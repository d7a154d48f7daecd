"""`steer ask`: steer one answer and look at it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steer.base.shipped import DEFAULT
from steer.commands.completion import complete_site
from steer.commands.options import (
    CheckpointOption,
    DeviceOption,
    DtypeOption,
    FormatOption,
    JsonOption,
    MemoryOption,
    OutOption,
    PromptOption,
)
from steer.commands.subjects import TaskOption

if TYPE_CHECKING:
    from steer.drawing.look import Look
    from steer.experiments.ask import SteeredAnswer


def ask(
    prompt: PromptOption = None,
    episode: Annotated[int | None, typer.Option(help="Number of a test episode (default: one that fits).")] = None,
    swap: Annotated[
        tuple[str, str] | None, typer.Option(help="The two tokens of the prompt whose positions are exchanged.")
    ] = None,
    change: Annotated[
        str | None, typer.Option(help="The variable to change (default: the one that exchanged positions change).")
    ] = None,
    sites: Annotated[
        list[str] | None,
        typer.Option("--at", help="Where, instead of the circuit's own sites.", autocompletion=complete_site),
    ] = None,
    checkpoint: CheckpointOption = DEFAULT,
    task: TaskOption = None,
    out: OutOption = None,
    device: DeviceOption = "cpu",
    dtype: DtypeOption = "float32",
    memory: MemoryOption = "4G",
    formats: FormatOption = None,
    json: JsonOption = False,
) -> None:
    """Ask the model, predict its answer with one variable changed, steer the model to it, and compare."""
    from hashlib import sha256

    from steer.commands.glance import at_a_glance
    from steer.drawing.look import look_of
    from steer.experiments.folders import results_folder
    from steer.experiments.looking import ask as ask_model

    look = look_of(formats or ())
    at_a_glance()
    answer = ask_model(
        prompt, episode=episode, swap=swap, change=change, sites=sites or (), checkpoint=checkpoint, task=task,
        device=device, dtype=dtype, memory=memory,
    )  # fmt: skip
    content = sha256("\n".join((answer.prompt, answer.variable, *answer.sites)).encode()).hexdigest()
    _show(answer, out or results_folder("ask", checkpoint, content[:8]), look, json)


def _show(answer: SteeredAnswer, folder: Path, look: Look, json: bool) -> None:
    from dataclasses import asdict
    from json import dumps

    from steer.base.files import make_folder, write_atomically
    from steer.commands.pictures import draw_or_warn
    from steer.drawing.figures.pattern import draw_before_after

    make_folder(folder)
    before, after, picture = answer.before, answer.after, None
    drawn = {} if before is None else {"picture": str(folder / "ask.png")}
    text = dumps(asdict(answer) | drawn, indent=1)
    write_atomically(folder / "ask.json", text + "\n")
    if before is not None and after is not None:
        picture = draw_or_warn(lambda: draw_before_after(before, after, folder, "ask", look), "ask")
    typer.echo(text if json else answer_text(answer) + (f"\n\npicture: {picture}" if picture else ""))


def answer_text(answer: SteeredAnswer) -> str:
    from steer.drawing.tables import pairs, pattern_table, render

    if answer.before is None or answer.after is None:
        return render(pairs(answer.lines))
    before, after = f"{answer.before.head} before", f"{answer.after.head} after"
    patterns = ("", before, pattern_table(answer.before), "", after, pattern_table(answer.after))
    return render(pairs(answer.lines), *patterns)
