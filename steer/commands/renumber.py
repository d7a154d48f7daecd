"""`steer renumber`: the same model with other head numbers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steer.base.shipped import DEFAULT
from steer.commands.completion import complete_numbering
from steer.commands.options import CheckpointOption, JsonOption

if TYPE_CHECKING:
    from steer.paper.api import Renumbered


def renumber(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the renumbered checkpoint.")],
    checkpoint: CheckpointOption = DEFAULT,
    like: Annotated[
        str,
        typer.Option(
            help="paper: roles get the paper's numbers; trained: undo; or another checkpoint.",
            autocompletion=complete_numbering,
        ),
    ] = "paper",
    json: JsonOption = False,
) -> None:
    """Give heads other numbers, by their roles. The model computes the same; its circuit follows."""
    from json import dumps

    from steer.paper.api import renumber as renumbered

    made = renumbered(out, checkpoint, like=like)
    if json:
        heads = {str(now): str(then) for now, then in made.numbering.renamed.items()}
        typer.echo(dumps({"checkpoint": str(out), "like": like, "heads": heads, "left": made.numbering.left}, indent=1))
        return
    typer.echo(_text(made))


def _text(made: Renumbered) -> str:
    from steer.drawing.tables import pairs, render

    numbering = made.numbering
    given = ((f"  {role}", f"{now} -> {then}") for role, (now, then) in numbering.given.items())
    moved = sum(now != then for now, then in numbering.renamed.items())
    return render(
        f"{made.title}; {moved} heads have another number, the model computes the same", pairs(given),
        *(f"  {text}" for text in numbering.left), f"checkpoint: {made.folder}",
    )  # fmt: skip
