"""`steer draw`: a figure again from a saved result, without a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def draw(
    result: Annotated[Path, typer.Argument(help="A result's folder, or its result.json.")],
    figure: Annotated[str | None, typer.Option(help="bars or positions, instead of the recipe's choice.")] = None,
) -> None:
    """Draw the figure of a saved result again."""
    from steer.errors import SteerError, unknown
    from steer.results import read_result

    found = read_result(result)
    if "recipe" not in found.metadata or found.folder is None:
        raise SteerError(f"{result}: is not the result of a recipe")
    if figure is not None:
        if figure not in ("bars", "positions"):
            raise SteerError(unknown("figure", figure, ["bars", "positions"]))
        found.metadata["recipe"]["figure"] = figure

    from steer.figures.sweep import draw_result

    picture = draw_result(found, found.folder)
    typer.echo(f"picture: {picture}" if picture else "this recipe asks for no figure; give --figure bars or positions")
