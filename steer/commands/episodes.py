"""`steer episodes`: print examples of the task."""

from __future__ import annotations

from typing import Annotated

import typer

from steer.base.shipped import DEFAULT_TASK
from steer.commands.options import JsonOption, SplitOption


def episodes(
    n: Annotated[int, typer.Option("--n", "-n", min=1, help="How many to print.")] = 5,
    split: SplitOption = "test",
    start: Annotated[int, typer.Option(min=0, help="Number of the first one.")] = 0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the sets.")] = 0,
    task: Annotated[str, typer.Option(help="Of which task.")] = DEFAULT_TASK,
    json: JsonOption = False,
) -> None:
    """Print episodes, with the variables of the task's program on the way to the answer."""
    from json import dumps

    from steer.experiments.listing import episodes as drawn
    from steer.tasks import TASKS

    shown = dict(enumerate(drawn(n, split=split, start=start, seed=seed, task=task), start))
    about = TASKS[task]
    if json:
        rows = [{"episode": number, "split": split} | about.describe(one) for number, one in shown.items()]
        typer.echo(dumps(rows, indent=1))
        return
    typer.echo("\n\n".join(f"{split} {number}: {about.text(one)}" for number, one in shown.items()))
