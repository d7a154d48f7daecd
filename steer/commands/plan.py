"""`steer plan`, `steer validate`, `steer schema`: show and check what a recipe would do, without running it."""

from __future__ import annotations

from typing import Annotated

import typer

from steer.commands.completion import complete_recipe
from steer.commands.options import JsonOption

ChangesArgument = Annotated[list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Changes to the recipe.")]


def plan(
    recipe: Annotated[str, typer.Argument(help="A file or a shipped name.", autocompletion=complete_recipe)],
    changes: ChangesArgument = None,
    json: JsonOption = False,
) -> None:
    """Print the compiled plan: the runs, what each edits and reads at which hook, and where it starts and stops."""
    from json import dumps

    from steer.experiments.api import plan as make_plan

    made = make_plan(recipe, changes=changes or ())
    typer.echo(dumps(made.to_json(), indent=1) if json else str(made))


def validate(
    recipes: Annotated[
        list[str], typer.Argument(help="Files, folders or shipped names.", autocompletion=complete_recipe)
    ],
    json: JsonOption = False,
) -> None:
    """Check recipes against the schema and against the model they name; report every fault of every file."""
    from json import dumps

    from steer.experiments.api import check_recipes
    from steer.experiments.api import validate as check

    if json:
        checked = check_recipes(recipes)
        typer.echo(dumps([{"recipe": name, "faults": list(faults)} for name, faults in checked.items()], indent=1))
        for fault in (fault for faults in checked.values() for fault in faults):
            typer.echo(f"error: {fault}", err=True)
        raise typer.Exit(2 if any(checked.values()) else 0)
    names = check(*recipes)
    typer.echo(f"{len(names)} recipe{'s' * (len(names) > 1)}: no faults")


def schema() -> None:
    """Print the JSON Schema of recipes, for editors that complete and check YAML."""
    from json import dumps

    from steer.experiments.api import schema as recipe_schema

    typer.echo(dumps(recipe_schema(), indent=1))
