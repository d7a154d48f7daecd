"""`steer results`, `steer compare`: what is there, and two of them side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from steer.commands.options import JsonOption


def results(
    folder: Annotated[Path, typer.Argument(help="A folder of results.")] = Path("results"),
    json: JsonOption = False,
) -> None:
    """List the results in a folder: recipe, changes against the shipped one, checkpoint, date."""
    from json import dumps

    from steer.drawing.tables import listing_table, render
    from steer.experiments.saved import results as listed

    lines = listed(folder)
    if json:
        typer.echo(dumps([one.to_json() for one in lines], indent=1))
        return
    typer.echo(render(listing_table(lines.rows)) if lines else f"{folder}: no results yet")


def compare(
    first: Annotated[Path, typer.Argument(help="A result's folder, or its result.json.")],
    second: Annotated[Path, typer.Argument(help="Another one.")],
    positions: Annotated[bool, typer.Option("--positions", help="Also the rows of each position.")] = False,
    json: JsonOption = False,
) -> None:
    """Set two results side by side: the second less the first, with 95 % intervals."""
    from json import dumps

    from steer.drawing.tables import comparison_parts, render
    from steer.experiments.saved import compare as compared

    made = compared(first, second)
    typer.echo(dumps(made.to_json(), indent=1) if json else render(*comparison_parts(made, positions)))
