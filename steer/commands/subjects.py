"""The model that a command is about, with the task that is put to it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from steer.models.subject import Subject

TaskOption = Annotated[
    Path | None, typer.Option(help="A file of prompts (JSONL, CSV, …), for models that were trained on none of ours.")
]


def load_with_task(checkpoint: str, task: Path | None) -> Subject:
    """A checkpoint with its own task, or with a file of prompts."""
    from steer.models.families import load_subject, task_of, tokenizer_of
    from steer.tasks.prompts.task import Prompts, read_prompts

    if task is not None:  # what is wrong with the file is said before any weights are read
        brought = read_prompts(task, "steer", tokenizer_of(checkpoint), str(task.resolve()))
        return load_subject(checkpoint).about(brought)
    subject = load_subject(checkpoint)
    typed = task_of(checkpoint) == Prompts.name
    return subject.about(Prompts(tokenizer=tokenizer_of(checkpoint))) if typed else subject
