"""The option that puts a file of prompts to a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

TaskOption = Annotated[
    Path | None, typer.Option(help="A file of prompts (JSONL, CSV, …), for models that were trained on none of ours.")
]
