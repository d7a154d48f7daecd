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
    import re
    import shutil

    from steer.base.errors import SteerError, unknown
    from steer.base.files import write_atomically
    from steer.base.shipped import RECIPES, everything

    shipped = everything()
    if name not in shipped:
        raise SteerError(unknown("shipped recipe, preset or checkpoint", name, sorted(shipped)))
    source = shipped[name]
    target = to / source.name if to.is_dir() else to
    if target.exists() and target.resolve() == source.resolve():
        raise SteerError(f"{target} is the shipped one itself; give another name")
    if target.exists() and not force:
        raise SteerError(f"{target} is there already; give another name, or --force")
    try:
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True)
        else:
            # The line that tells editors where the schema is must still lead there.
            text = re.sub(r"(\$schema=).*schema\.json", rf"\g<1>{RECIPES / 'schema.json'}", source.read_text())
            write_atomically(target, text)
    except OSError as error:
        raise SteerError(f"cannot write {target}: {error.strerror or error}") from error
    typer.echo(f"{source.name} -> {target}")
