"""The task that a recipe brings: `task: FILE.jsonl`, or `task: {file: FILE.csv, format: eap-ig}`."""

from __future__ import annotations

from pathlib import Path

from steer.base.errors import ConfigError, SteerError
from steer.base.shipped import DEFAULT
from steer.base.yaml import Document, Strict, check
from steer.models.families import tokenizer_of
from steer.recipe.schema import TaskFile
from steer.tasks import TASKS
from steer.tasks.prompts.formats import named
from steer.tasks.prompts.task import read_prompts
from steer.tasks.task import Task


class Brought(Strict):
    task: TaskFile


def checkpoint_named(document: Document) -> str:
    return str(document.data.get("checkpoint", DEFAULT)) if isinstance(document.data, dict) else DEFAULT


def brought_task(document: Document, checkpoint: str) -> Task | None:
    """The task of the file that a recipe names, its texts cut by the tokenizer of the checkpoint; None if it has none.

    The name of a task of ours will do too.
    """
    given = document.data.get("task") if isinstance(document.data, dict) else None
    if given is None:
        return None
    if isinstance(given, str) and given in TASKS:
        return TASKS[given]
    wanted = _wanted(given) if isinstance(given, str) else given
    task = check(Document(document.name, {"task": wanted}, document.places, document.keys), Brought).task
    try:
        tokenizer = tokenizer_of(checkpoint)
    except SteerError as error:
        place = document.place(("checkpoint",))
        raise ConfigError(*(f"{place}: checkpoint: {fault}" for fault in error.faults)) from error
    return read_prompts(Path(document.name).parent / task.file, task.format, tokenizer, given)


def _wanted(given: str) -> dict[str, str]:
    file, form = named(given)
    return {"file": given if form == "steer" else str(file), "format": form}
