"""`steer ls`: list the shipped files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from steer.commands.options import JsonOption

if TYPE_CHECKING:
    from steer.experiments.listing import Listing, ModelLine, PresetLine
    from steer.models.record import CheckpointLine


def ls(json: JsonOption = False) -> None:
    """List the shipped recipes, checkpoints, models and training presets, one line each."""
    from json import dumps

    from steer.experiments.listing import ls as shipped

    listed = shipped()
    if json:
        typer.echo(dumps(listed, indent=1))
        return
    for kind, lines in _lines(listed).items():
        typer.echo(kind)
        for name, text in lines:
            typer.echo(f"  {name:34} {text}")


def _lines(listed: Listing) -> dict[str, list[tuple[str, str]]]:
    return {
        "recipes": [(row["name"], row["description"]) for row in listed["recipes"]],
        "checkpoints": [(row["name"], _checkpoint(row)) for row in listed["checkpoints"]],
        "models": [(row["name"], _model(row)) for row in listed["models"]],
        "presets": [(row["name"], _preset(row)) for row in listed["presets"]],
    }


def _preset(row: PresetLine) -> str:
    return "; ".join(filter(None, (row["description"], row["cost"], row["learns"])))


def _model(row: ModelLine) -> str:
    trained = f"{row['accuracy']:.1%} of its words, seed {row['seed']}"
    return f"Hugging Face {row['family']}, {trained}: {row['description']}"


def _checkpoint(row: CheckpointLine) -> str:
    size = f"{row['layers'][0]}+{row['layers'][1]} layers, {row['heads']} heads, d_model {row['d_model']}"
    exact = "not evaluated" if row["exact_match"] is None else f"{row['exact_match']:.1%} exact"
    return f"{exact}, {size}, seed {row['seed']}: {row['description']}"
