"""`steer ask`: steer one answer and look at it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from steer.base.shipped import DEFAULT
from steer.commands.attend import PromptOption
from steer.commands.options import CheckpointOption, JsonOption, OutOption
from steer.commands.subjects import TaskOption, load_with_task

if TYPE_CHECKING:
    from steer.experiments.ask import SteeredAnswer
    from steer.tasks.task import Task


def ask(
    prompt: PromptOption = None,
    episode: Annotated[int | None, typer.Option(help="Number of a test episode (default: one that fits).")] = None,
    swap: Annotated[
        tuple[str, str] | None, typer.Option(help="The two tokens of the prompt whose positions are exchanged.")
    ] = None,
    change: Annotated[
        str | None, typer.Option(help="The variable to change (default: the one that exchanged positions change).")
    ] = None,
    sites: Annotated[list[str] | None, typer.Option("--at", help="Where, instead of the circuit's own sites.")] = None,
    checkpoint: CheckpointOption = DEFAULT,
    task: TaskOption = None,
    out: OutOption = None,
    json: JsonOption = False,
) -> None:
    """Ask the model, predict its answer with one variable changed, steer the model to it, and compare."""
    from dataclasses import asdict
    from hashlib import sha256
    from json import dumps

    from steer.base.files import make_folder, write_atomically
    from steer.commands.folders import results_folder
    from steer.commands.pictures import draw_or_warn
    from steer.drawing.figures.pattern import draw_before_after
    from steer.experiments.ask import ask as ask_model
    from steer.experiments.attend import choose_episode

    loaded = load_with_task(checkpoint, task)
    variable = _variable(change, loaded.task)
    if episode is None and prompt is None:
        shown = loaded.task.examples(loaded.task.selection(count=1), loaded.data_seed, variable)[0]
    else:
        shown = choose_episode(loaded, episode, prompt)
    if swap is not None:
        loaded.task.check_exchange(shown, swap, variable)
    answer = ask_model(loaded, shown, variable, sites or ())
    content = sha256("\n".join((str(shown), variable, *answer.sites)).encode()).hexdigest()
    folder = out or results_folder("ask", checkpoint, content[:8])
    make_folder(folder)
    before, after = answer.before, answer.after
    drawn = {} if before is None else {"picture": str(folder / "ask.png")}
    text = dumps(asdict(answer) | drawn, indent=1)
    write_atomically(folder / "ask.json", text + "\n")
    picture = None
    if before is not None and after is not None:
        picture = draw_or_warn(lambda: draw_before_after(before, after, folder, "ask"), "ask")
    if json:
        typer.echo(text)
        return
    typer.echo(answer_text(answer) + (f"\n\npicture: {picture}" if picture else ""))


def answer_text(answer: SteeredAnswer) -> str:
    from steer.drawing.tables import pairs, pattern_table, render

    said = "as predicted" if answer.steered == answer.predicted else "not as predicted"
    lines = [
        ("prompt", answer.prompt),
        ("answer", " ".join(answer.answer) + ("" if answer.answer == answer.right else "   (wrong)")),
        ("predicted", f"{' '.join(answer.predicted)}   ({answer.program} with another {answer.variable})"),
        ("steered", f"{' '.join(answer.steered)}   ({said}; changed at {', '.join(answer.sites)})"),
    ]
    if answer.before is None or answer.after is None:
        return render(pairs(lines))
    before, after = f"{answer.before.head} before", f"{answer.after.head} after"
    patterns = ("", before, pattern_table(answer.before), "", after, pattern_table(answer.after))
    return render(pairs(lines), *patterns)


def _variable(given: str | None, task: Task) -> str:
    """The variable to change: the one that is named, else the task's usual one."""
    from steer.base.errors import SteerError, unknown

    known = list(task.handles) or list(task.variables)
    if not known:
        raise SteerError(f"the task {task.name!r} has no variables to change")
    usual = task.exchange.variable if task.exchange else known[0]
    if given is not None and given not in known:
        raise SteerError(f"--change: {unknown('variable', given, known)}")
    return given or usual
