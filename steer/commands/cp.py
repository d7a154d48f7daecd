"""`steer cp`: take a shipped recipe, preset or checkpoint out to change it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def cp(
    name: Annotated[str, typer.Argument(help="A shipped recipe, preset or checkpoint (see `steer ls`).")],
    to: Annotated[Path, typer.Argument(help="A folder or a new name.")] = Path(),
    force: Annotated[bool, typer.Option("--force", help="Write over what is there.")] = False,
) -> None:
    """Copy a shipped recipe, preset or checkpoint."""
    import shutil

    from steer.errors import SteerError, unknown
    from steer.shipped import everything

    shipped = everything()
    if name not in shipped:
        raise SteerError(unknown("shipped recipe, preset or checkpoint", name, sorted(shipped)))
    source = shipped[name]
    target = to / source.name if to.is_dir() else to
    if target.exists() and not force:
        raise SteerError(f"{target} is there already; give another name, or --force")
    try:
        copy = shutil.copytree if source.is_dir() else shutil.copyfile
        if target.is_dir():
            shutil.rmtree(target)
        copy(source, target)
    except OSError as error:
        raise SteerError(f"cannot write {target}: {error.strerror or error}") from error
    typer.echo(f"{source.name} -> {target}")
