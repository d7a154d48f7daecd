"""`steer ls`: list the shipped files."""

from __future__ import annotations

from typing import Any

import typer

from steer.commands.options import JsonOption


def ls(json: JsonOption = False) -> None:
    """List the shipped recipes, checkpoints and training presets, one line each."""
    from json import dumps

    from steer.base.shipped import checkpoint_records, preset_files, recipe_files, recipe_names
    from steer.base.yaml import read
    from steer.models.record import read_record

    described = zip(recipe_names(), map(read, recipe_files()), strict=True)
    found = {
        "recipes": [{"name": name, "description": file.data.get("description", "")} for name, file in described],
        "checkpoints": [read_record(path.parent).summary(path.parent.name) for path in checkpoint_records()],
        "presets": [{"name": p.stem, "description": read(p).data.get("description", "")} for p in preset_files()],
    }
    if json:
        typer.echo(dumps(found, indent=1))
        return
    for kind, rows in found.items():
        typer.echo(kind)
        for row in rows:
            typer.echo(f"  {row['name']:34} {_line(row)}")


def _line(row: dict[str, Any]) -> str:
    if "layers" not in row:
        return str(row["description"])
    size = f"{row['layers'][0]}+{row['layers'][1]} layers, {row['heads']} heads, d_model {row['d_model']}"
    exact = "not evaluated" if row["exact_match"] is None else f"{row['exact_match']:.1%} exact"
    return f"{exact}, {size}, seed {row['seed']}: {row['description']}"
