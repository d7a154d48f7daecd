"""`steer align`: in how few dimensions of some sites a variable lives; the short form of a recipe of that kind."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from steer.base.shipped import DEFAULT
from steer.commands.completion import complete_site
from steer.commands.options import CheckpointOption, DeviceOption, FormatOption, JsonOption, QuietOption
from steer.commands.subjects import TaskOption


def align(
    sites: Annotated[
        list[str],
        typer.Argument(help="Aligned together: '$question-broadcast:all.z', enc-mlp-1.", autocompletion=complete_site),
    ],
    variable: Annotated[str, typer.Option(help="In which counterparts differ (index-in-question).")],
    k: Annotated[
        list[str] | None, typer.Option("-k", help="Dimensions of each site, or all; repeatable (1, 2, 4).")
    ] = None,
    seeds: Annotated[int, typer.Option(help="Number of starts of the search.")] = 1,
    epochs: Annotated[int, typer.Option(min=1, max=1000, help="How often a training example is seen.")] = 20,
    train: Annotated[int, typer.Option(min=8, max=10_000, help="Examples that it is learnt on.")] = 300,
    episodes: Annotated[int, typer.Option(min=1, max=10_000, help="Others, that it is judged on.")] = 300,
    no_controls: Annotated[str, typer.Option(help="Nothing beside it, and why.")] = "",
    checkpoint: CheckpointOption = DEFAULT,
    task: TaskOption = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the result.")] = Path("results"),
    device: DeviceOption = "cpu",
    force: Annotated[bool, typer.Option("--force", help="Run again, even if the result is saved.")] = False,
    formats: FormatOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Learn the few dimensions of some sites that carry a variable (distributed alignment search), beside controls.

    The subspaces are written beside the result, for recipes to exchange: `project: {subspace: FILE}`.
    """
    from json import dumps

    from steer.commands.pictures import warn
    from steer.commands.progress import bar
    from steer.drawing.tables import result_text
    from steer.experiments.aligning import align_recipe, numbers_of
    from steer.experiments.api import run_outcome

    made = align_recipe(
        sites, variable, numbers_of(k or []), checkpoint, seeds=seeds, epochs=epochs, train=train,
        episodes=episodes, no_controls=no_controls, task=task,
    )  # fmt: skip
    with bar("aligning", 1.0, quiet) as advance:
        outcome = run_outcome(
            made, out=out, device=device, force=force, formats=formats or (), tell=lambda done: advance(done, "align")
        )
    assert outcome.result is not None
    if json:
        typer.echo(dumps(outcome.to_json(), indent=1))
        return
    typer.echo(result_text(outcome.name, outcome.result, outcome.pictures, outcome.unchanged))
    warn(*outcome.undrawn)
