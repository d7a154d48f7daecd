"""`steer draw`: draw the figures of a saved result again, without a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from steer.commands.completion import complete_figure
from steer.commands.options import FormatOption
from steer.drawing.look import KINDS


def draw(
    result: Annotated[Path, typer.Argument(help="A result's folder, its result.json, or a circuit.yaml.")],
    figure: Annotated[
        str | None,
        typer.Option(help=f"{', '.join(KINDS)}, instead of the recipe's choice.", autocompletion=complete_figure),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Folder for the pictures [the result's].")] = None,
    formats: FormatOption = None,
    size: Annotated[str | None, typer.Option(help="Inches: WIDTH, or WIDTHxHEIGHT (7x4).")] = None,
) -> None:
    """Draw the figures of a saved result again."""
    from steer.experiments.saved import draw as draw_saved

    pictures = draw_saved(result, figure=figure, out=out, formats=formats or (), size=size)
    text = "\n".join(f"picture: {picture}" for picture in pictures)
    typer.echo(text or f"this recipe asks for no figure; give --figure with one of {', '.join(KINDS)}")
