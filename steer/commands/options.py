"""Options that several commands share, so that they read and behave the same everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steer.base.errors import SteerError, unknown

if TYPE_CHECKING:
    from steer.tasks.task import Task

CheckpointOption = Annotated[
    str, typer.Option("--checkpoint", "-c", help="A shipped checkpoint (see `steer ls`), a folder, or hf:NAME.")
]
DeviceOption = Annotated[str, typer.Option(help="Where to compute: cpu, cuda, cuda:1.")]
DtypeOption = Annotated[str, typer.Option(help="float32, float64 or bfloat16.")]
MemoryOption = Annotated[
    str, typer.Option(help="What a run may take beside the weights: 8G, 500M. Batches are as large as fits.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")]
OutOption = Annotated[Path | None, typer.Option("--out", "-o", help="Folder to write to.")]
SplitOption = Annotated[str, typer.Option(help="Which of the task's fixed sets: train, validation or test.")]


def check_split(split: str, task: Task) -> None:
    if split not in task.splits:
        raise SteerError(f"--split: {unknown('split', split, task.splits)}")
