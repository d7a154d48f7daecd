"""`steer plan`, `steer validate`, `steer schema`: show and check what a recipe would do, without running it."""

from __future__ import annotations

from typing import Annotated

import typer

from steer.commands.options import JsonOption


def plan(
    recipe: Annotated[str, typer.Argument(help="A file or a shipped name.")],
    changes: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Changes to the recipe.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Print the compiled plan: the runs, what each edits and reads at which hook, and where it starts and stops."""
    from json import dumps

    from steer.engine.schedule import make_schedule
    from steer.engine.text import describe_plan
    from steer.models.families import steps_of
    from steer.recipe.load import load_recipe

    loaded = load_recipe(recipe, *(changes or []))
    names = loaded.names()
    lowered = loaded.lower(names)
    described = describe_plan(
        loaded.name, make_schedule(lowered.plan, names.layout, steps_of(loaded.recipe.checkpoint))
    )
    unmoved = sorted(lowered.unmoved)
    left_out = [{"condition": condition, "measure": number} for condition, number in unmoved]
    if json:
        typer.echo(dumps(described | {"left_out": left_out}, indent=1))
        return
    typer.echo(f"{described['name']}: {described['forwards']} forward passes for each batch of episodes")
    for run in described["runs"]:
        fed_back = ", the model's own tokens fed back" if run["decoding"] == "greedy" else ""
        typer.echo(f"\n{run['name']}\n  from {run['start']} to {run['stop'] or 'the end'}{fed_back}")
        for edit in run["edits"]:
            typer.echo(f"  edit {edit['what']}  [{edit['hook']}]")
        for read in run["reads"]:
            typer.echo(f"  read {read['site']}  [{read['hook']}]")
    for condition, number in unmoved:
        measure = loaded.recipe.measures[number]
        typer.echo(f"\nno row: {condition!r} cannot change measure {number} ({measure.name})")


def validate(
    recipes: Annotated[list[str], typer.Argument(help="Files, folders or shipped names.")],
) -> None:
    """Check recipes against the schema and against the model they name; report every fault of every file."""
    from steer.base.errors import ConfigError, SteerError
    from steer.recipe.load import gather, load_recipe

    paths, missing = gather(recipes)
    faults = [fault for found in missing.values() for fault in found]
    for path in paths:
        try:
            loaded = load_recipe(str(path))
            loaded.lower(loaded.names())
        except SteerError as error:
            faults += error.faults
    if faults:
        raise ConfigError(*faults)
    typer.echo(f"{len(paths)} recipe{'s' * (len(paths) > 1)}: no faults")


def schema() -> None:
    """Print the JSON Schema of recipes, for editors that complete and check YAML."""
    from json import dumps

    from steer.base.shipped import DEFAULT_TASK
    from steer.recipe.tasked import recipe_schema
    from steer.tasks import TASKS

    typer.echo(dumps(recipe_schema(TASKS[DEFAULT_TASK]).json(), indent=1))
