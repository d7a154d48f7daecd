"""`steer cp`: take a shipped recipe, preset or checkpoint out to change it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from steer.commands.completion import complete_shipped


def cp(
    name: Annotated[
        str,
        typer.Argument(
            help="A shipped recipe, preset or checkpoint (see `steer ls`).", autocompletion=complete_shipped
        ),
    ],
    to: Annotated[Path, typer.Argument(help="A folder or a new name.")] = Path(),
    force: Annotated[bool, typer.Option("--force", help="Write over what is there.")] = False,
) -> None:
    """Copy a shipped recipe, preset or checkpoint."""
    from steer.base.shipped import everything
    from steer.experiments.listing import cp as copy

    target = copy(name, to, force=force)
    typer.echo(f"{everything()[name].name} -> {target}")
