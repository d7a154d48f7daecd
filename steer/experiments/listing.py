"""What there is to look at: shipped recipes, checkpoints and presets, and the episodes of a task."""

from __future__ import annotations

import re
from json import loads
from pathlib import Path
from typing import TypedDict

from steer.base.errors import SteerError, unknown
from steer.base.files import write_atomically
from steer.base.shipped import (
    ABOUT,
    CONFIG,
    DEFAULT_TASK,
    RECIPES,
    checkpoint_records,
    everything,
    model_folders,
    preset_files,
    recipe_files,
    recipe_names,
)
from steer.base.yaml import read
from steer.experiments.given import check_split
from steer.models.record import CheckpointLine, read_record
from steer.tasks import TASKS
from steer.tasks.task import Example


class RecipeLine(TypedDict):
    name: str
    description: str


class ModelLine(TypedDict):
    """A Hugging Face model that is shipped, and what its `about.json` says."""

    name: str
    family: str
    description: str
    seed: int
    steps: int
    accuracy: float


class PresetLine(TypedDict):
    name: str
    description: str
    cost: str
    learns: str


class Listing(TypedDict):
    """What is shipped, with what there is to say of each."""

    recipes: list[RecipeLine]
    checkpoints: list[CheckpointLine]
    models: list[ModelLine]
    presets: list[PresetLine]


def ls() -> Listing:
    """The shipped recipes, checkpoints, Hugging Face models and training presets, with what there is to say of each."""
    described = zip(recipe_names(), map(read, recipe_files()), strict=True)
    return Listing(
        recipes=[RecipeLine(name=name, description=file.data.get("description", "")) for name, file in described],
        checkpoints=[read_record(path.parent).summary(path.parent.name) for path in checkpoint_records()],
        models=[_model(folder) for folder in model_folders()],
        presets=[_preset(path) for path in preset_files()],
    )


def _model(folder: Path) -> ModelLine:
    family = loads((folder / CONFIG).read_text())["model_type"]
    about: ModelLine = loads((folder / ABOUT).read_text())
    return {"name": folder.name, "family": family, **about}


def _preset(path: Path) -> PresetLine:
    said = read(path).data
    description, cost, learns = (said.get(key, "") for key in ("description", "cost", "learns"))
    return PresetLine(name=path.stem, description=description, cost=cost, learns=learns)


def cp(name: str, to: Path | str = ".", *, force: bool = False) -> Path:
    """Copy a shipped recipe, preset or checkpoint to a folder or a new name; gives where it is."""
    shipped, to = everything(), Path(to)
    if name not in shipped:
        raise SteerError(unknown("shipped recipe, preset or checkpoint", str(name), sorted(shipped)))
    source = shipped[name]
    target = to / source.name if to.is_dir() else to
    if target.exists() and target.resolve() == source.resolve():
        raise SteerError(f"{target} is the shipped one itself; give another name")
    if target.exists() and not force:
        raise SteerError(f"{target} is there already; give another name, or --force")
    if source.is_dir():
        for file in sorted(source.rglob("*")):
            if file.is_file():
                write_atomically(target / file.relative_to(source), file.read_bytes())
    else:
        # The line that tells editors where the schema is must still lead there.
        text = re.sub(r"(\$schema=).*schema\.json", rf"\g<1>{RECIPES / 'schema.json'}", source.read_text())
        write_atomically(target, text)
    return target


def episodes(
    n: int = 5, *, split: str = "test", start: int = 0, seed: int = 0, task: str = DEFAULT_TASK
) -> list[Example]:
    """Some episodes of one of a task's fixed sets."""
    about = TASKS[task]
    check_split(split, about)
    drawn = about.split(split, seed)
    if n < 1:
        raise SteerError(f"--n: 1 at least, not {n}")
    if start < 0 or start + n > len(drawn):
        raise SteerError(f"the {split} split has {len(drawn):,} episodes; {start} + {n} goes beyond it")
    return [drawn[number] for number in range(start, start + n)]
