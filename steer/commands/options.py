"""Options that several commands share, so that they read and behave the same everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from steer.commands.completion import complete_checkpoint, complete_format

CheckpointOption = Annotated[
    str,
    typer.Option(
        "--checkpoint",
        "-c",
        help="A shipped checkpoint (see `steer ls`), a folder, or hf:NAME.",
        autocompletion=complete_checkpoint,
    ),
]
DeviceOption = Annotated[str, typer.Option(help="Where to compute: cpu, cuda, cuda:1.")]
DtypeOption = Annotated[str, typer.Option(help="float32, float64 or bfloat16.")]
MemoryOption = Annotated[
    str, typer.Option(help="What a run may take beside the weights: 8G, 500M. Batches are as large as fits.")
]
JobsOption = Annotated[
    int | None,
    typer.Option("--jobs", "-j", min=1, help="So many processes, a recipe each. By default as many as pay."),
]
WorkersOption = Annotated[
    int | None, typer.Option(min=1, help="So many processes of this machine share the work (needs Dask).")
]
OnOption = Annotated[str | None, typer.Option(help="The address of a Dask scheduler whose workers do the work.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")]
OutOption = Annotated[Path | None, typer.Option("--out", "-o", help="Folder to write to.")]
SplitOption = Annotated[str, typer.Option(help="Which of the task's fixed sets: train, validation or test.")]
FormatOption = Annotated[
    list[str] | None,
    typer.Option(
        "--format",
        help="Write pictures also as pdf or svg; give it again for both. The PNG is always written.",
        autocompletion=complete_format,
    ),
]
EpisodeOption = Annotated[int | None, typer.Option(help="Number of a test episode, or of a line of --task, from 0.")]
PromptOption = Annotated[str | None, typer.Option(help='Your own: "B S A | A = red | B = blue | A S B = blue red".')]
