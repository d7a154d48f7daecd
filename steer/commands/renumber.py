"""`steer renumber`: the same model with other head numbers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steer.base.shipped import DEFAULT
from steer.commands.options import CheckpointOption, JsonOption

if TYPE_CHECKING:
    from steer.experiments.renumber import Numbering
    from steer.models.checkpoint import Checkpoint

PAPER, TRAINED = "paper", "trained"


def renumber(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the renumbered checkpoint.")],
    checkpoint: CheckpointOption = DEFAULT,
    like: Annotated[
        str, typer.Option(help="paper: roles get the paper's numbers; trained: undo; or another checkpoint.")
    ] = PAPER,
    json: JsonOption = False,
) -> None:
    """Give heads other numbers, by their roles. The model computes the same; its circuit follows."""
    from json import dumps

    from steer.commands.folders import check_empty
    from steer.experiments.renumber import renumber as renumbered
    from steer.models.checkpoint import load_checkpoint, save_checkpoint
    from steer.results.circuit import write_circuit

    check_empty(out)
    loaded = load_checkpoint(checkpoint)
    numbering, whose = _numbering(loaded, like)
    made = renumbered(loaded, numbering, whose, out.resolve().name)
    save_checkpoint(out, made.model, made.record)
    if made.circuit is not None:
        write_circuit(made.circuit, out)
    if json:
        heads = {str(now): str(then) for now, then in numbering.renamed.items()}
        typer.echo(dumps({"checkpoint": str(out), "like": like, "heads": heads, "left": numbering.left}, indent=1))
        return
    typer.echo(_text(numbering, made.record.numbering or "heads numbered as trained", out))


def _numbering(loaded: Checkpoint, like: str) -> tuple[Numbering, str]:
    """The new numbers, and whose they are."""
    from steer.experiments.renumber import numbers_as_trained, numbers_like
    from steer.models.families import names_of
    from steer.paper.numbers import PAPER_HEADS

    if like == PAPER:
        return numbers_like(loaded.names, PAPER_HEADS), "the paper's"
    if like == TRAINED:
        return numbers_as_trained(loaded.record), "trained"
    return numbers_like(loaded.names, names_of(like).roles), f"those of {Path(like).name}"


def _text(numbering: Numbering, title: str, out: Path) -> str:
    from steer.drawing.tables import pairs, render

    given = ((f"  {role}", f"{now} -> {then}") for role, (now, then) in numbering.given.items())
    moved = sum(now != then for now, then in numbering.renamed.items())
    return render(
        f"{title}; {moved} heads have another number, the model computes the same", pairs(given),
        *(f"  {text}" for text in numbering.left), f"checkpoint: {out}",
    )  # fmt: skip
