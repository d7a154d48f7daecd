"""The option that puts a file of prompts to a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypedDict

import typer

TaskOption = Annotated[
    Path | None,
    typer.Option(
        help="A file of prompts (JSONL, CSV, …; mib:FILE for another tool's), for models trained on none of ours."
    ),
]


class Given(TypedDict):
    """Prompts of the user's own, and how a model is run on them."""

    task: Path | None
    device: str
    dtype: str
    memory: str
