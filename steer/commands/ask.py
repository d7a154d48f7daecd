"""`steer ask`: steer one answer and look at it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from steer.base.shipped import DEFAULT
from steer.commands.options import CheckpointOption, DeviceOption, FormatOption, JsonOption, OutOption, PromptOption

if TYPE_CHECKING:
    from steer.experiments.ask import SteeredAnswer


def ask(
    prompt: PromptOption = None,
    episode: Annotated[int | None, typer.Option(help="Number of a test episode (default: one that fits).")] = None,
    swap: Annotated[
        tuple[str, str] | None, typer.Option(help="The question's two symbols: exchange their positions.")
    ] = None,
    change: Annotated[
        str | None, typer.Option(help="The variable to change (default: the one that exchanged positions change).")
    ] = None,
    sites: Annotated[list[str] | None, typer.Option("--at", help="Where, instead of the circuit's own sites.")] = None,
    checkpoint: CheckpointOption = DEFAULT,
    out: OutOption = None,
    device: DeviceOption = "cpu",
    formats: FormatOption = None,
    json: JsonOption = False,
) -> None:
    """Ask the model, predict what it would say if one variable were different, make it so, and compare."""
    from dataclasses import asdict
    from hashlib import sha256
    from json import dumps

    from steer.base.files import make_folder, write_atomically
    from steer.commands.pictures import draw_or_warn
    from steer.commands.threads import use_one_thread
    from steer.drawing.look import look_of
    from steer.experiments.folders import results_folder
    from steer.experiments.looking import ask as ask_model

    look = look_of(formats or ())
    use_one_thread()
    answer = ask_model(
        prompt, episode=episode, swap=swap, change=change, sites=sites or (), checkpoint=checkpoint, device=device
    )
    content = sha256("\n".join((answer.prompt, answer.variable, *answer.sites)).encode()).hexdigest()
    folder = out or results_folder("ask", checkpoint, content[:8])
    make_folder(folder)
    text = dumps(asdict(answer) | {"picture": str(folder / "ask.png")}, indent=1)
    write_atomically(folder / "ask.json", text + "\n")

    from steer.drawing.figures.pattern import draw_before_after

    picture = draw_or_warn(lambda: draw_before_after(answer.before, answer.after, folder, "ask", look), "ask")
    if json:
        typer.echo(text)
        return
    typer.echo(answer_text(answer) + (f"\n\npicture: {picture}" if picture else ""))


def answer_text(answer: SteeredAnswer) -> str:
    from steer.drawing.tables import pairs, pattern_table, render

    before, after = f"{answer.before.head} before", f"{answer.after.head} after"
    patterns = ("", before, pattern_table(answer.before), "", after, pattern_table(answer.after))
    return render(pairs(answer.lines), *patterns)
