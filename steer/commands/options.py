"""Options that several commands share, so that they read and behave the same everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

CheckpointOption = Annotated[
    str, typer.Option("--checkpoint", "-c", help="A shipped checkpoint by name (see `steer ls`), or a folder.")
]
DeviceOption = Annotated[str, typer.Option(help="Where to compute: cpu, cuda, cuda:1.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")]
OutOption = Annotated[Path | None, typer.Option("--out", "-o", help="Folder to write to.")]
