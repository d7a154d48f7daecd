"""Paths of the files that come with the package. No torch here: listing them must be quick."""

from __future__ import annotations

from pathlib import Path

from steer.base.errors import CheckpointError, unknown
from steer.base.files import is_there

PACKAGE = Path(__file__).parents[1]
CHECKPOINTS, PRESETS = PACKAGE / "models" / "shipped", PACKAGE / "models" / "training" / "presets"
# In a checkout the recipes are at the top level, where people look for them; in a wheel they are in the package.
RECIPES = next(folder for folder in (PACKAGE / "recipes", PACKAGE.parent / "recipes") if folder.is_dir())
RECORD = "checkpoint.json"
CONFIG, ABOUT = "config.json", "about.json"  # of a Hugging Face model, and what we say of one that is shipped
DEFAULT = "strict2"  # the checkpoint that commands take when none is named
DEFAULT_TASK = "compositional"  # the task of checkpoints and circuits that name none


def checkpoint_records() -> list[Path]:
    return sorted(CHECKPOINTS.glob(f"*/{RECORD}"))


def checkpoint_names() -> list[str]:
    return [path.parent.name for path in checkpoint_records()]


def model_folders() -> list[Path]:
    """The Hugging Face models that are shipped."""
    return [path.parent for path in sorted(CHECKPOINTS.glob(f"*/{CONFIG}"))]


def model_names() -> list[str]:
    return [folder.name for folder in model_folders()]


def is_shipped(folder: Path) -> bool:
    return folder.resolve().parent == CHECKPOINTS.resolve()


def preset_files() -> list[Path]:
    return sorted(PRESETS.glob("*.yaml"))


def preset_names() -> list[str]:
    return [path.stem for path in preset_files()]


def recipe_files() -> list[Path]:
    return sorted(RECIPES.rglob("*.yaml"))


def recipe_names() -> list[str]:
    return [str(path.relative_to(RECIPES).with_suffix("")) for path in recipe_files()]


def everything() -> dict[str, Path]:
    """All that is shipped, by name. A preset that shares its name with a checkpoint is `presets/NAME`."""
    named = {path.parent.name: path.parent for path in checkpoint_records()}
    named |= {folder.name: folder for folder in model_folders()}
    named |= {f"presets/{path.stem}" if path.stem in named else path.stem: path for path in preset_files()}
    return named | dict(zip(recipe_names(), recipe_files(), strict=True))


def locate(name: str) -> Path:
    """The folder of a checkpoint given by shipped name or by path."""
    for folder in (Path(name), CHECKPOINTS / name):
        if is_there(folder / RECORD) and (folder / RECORD).is_file():
            return folder
    if name.startswith("hf:") or name in model_names() or is_there(Path(name) / CONFIG):
        raise CheckpointError(
            f"{name} is a Hugging Face model, and this is for checkpoints trained on a task of ours ({RECORD}); "
            "`steer check FILE.jsonl -c`, `steer run`, `attend`, `attribute`, `ask` and `discover --task` take it"
        )
    if is_there(name):
        raise CheckpointError(f"{name} is not a checkpoint: it holds no {RECORD}")
    known = [*checkpoint_names(), *model_names()]
    raise CheckpointError(f"{unknown('checkpoint', name, known)} (or give the path of a checkpoint folder)")
