"""`steer ls`: list the shipped files."""

from __future__ import annotations

from typing import Any

import typer

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
            typer.echo(f"  {row['name']:34} {_line(row)}")


def _line(row: dict[str, Any]) -> str:
    if "cost" in row:
        return "; ".join(filter(None, (row["description"], row["cost"], row["learns"])))
    if "family" in row:
        trained = f"{row['accuracy']:.1%} of its words, seed {row['seed']}"
        return f"Hugging Face {row['family']}, {trained}: {row['description']}"
    if "layers" not in row:
        return str(row["description"])
    size = f"{row['layers'][0]}+{row['layers'][1]} layers, {row['heads']} heads, d_model {row['d_model']}"
    exact = "not evaluated" if row["exact_match"] is None else f"{row['exact_match']:.1%} exact"
    return f"{exact}, {size}, seed {row['seed']}: {row['description']}"
