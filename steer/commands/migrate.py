"""`steer migrate`: rewrite files of an earlier format in today's."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def migrate(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Results (folder or result.json), circuit.yaml, recipes.")
    ],
) -> None:
    """Rewrite results, circuits and recipes of an earlier format, and say what changed.

    Nothing is written unless all of them can be read.
    """
    from steer.experiments.migrating import migrate as rewrite

    for migration in rewrite(*files):
        typer.echo("\n  ".join((f"{migration.place}: {migration.state}", *migration.changes)))
