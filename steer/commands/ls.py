"""`steer ls`: list the shipped files."""

from __future__ import annotations

import typer

from steer.base.json import Json
from steer.commands.options import JsonOption


def ls(json: JsonOption = False) -> None:
    """List the shipped recipes, checkpoints, models and training presets, one line each."""
    from json import dumps

    from steer.experiments.listing import ls as shipped

    listed = shipped()
    if json:
        typer.echo(dumps(listed, indent=1))
        return
    for kind, rows in listed.items():
        typer.echo(kind)
        for row in rows:
            typer.echo(f"  {row['name']:34} {LINES[kind](row)}")


def _recipe(row: Json) -> str:
    return str(row["description"])


def _preset(row: Json) -> str:
    return "; ".join(filter(None, (row["description"], row["cost"], row["learns"])))


def _model(row: Json) -> str:
    trained = f"{row['accuracy']:.1%} of its words, seed {row['seed']}"
    return f"Hugging Face {row['family']}, {trained}: {row['description']}"


def _checkpoint(row: Json) -> str:
    size = f"{row['layers'][0]}+{row['layers'][1]} layers, {row['heads']} heads, d_model {row['d_model']}"
    exact = "not evaluated" if row["exact_match"] is None else f"{row['exact_match']:.1%} exact"
    return f"{exact}, {size}, seed {row['seed']}: {row['description']}"


LINES = {"recipes": _recipe, "checkpoints": _checkpoint, "models": _model, "presets": _preset}
