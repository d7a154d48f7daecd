"""What the verbs take: names, paths, dicts or objects. Whatever is none of these is answered as on the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from steer.base.errors import ConfigError, SteerError, keyed, unknown
from steer.base.yaml import Document, override
from steer.recipe.load import Loaded, load_recipe, loaded_from

if TYPE_CHECKING:
    from steer.models.checkpoint import Checkpoint
    from steer.models.subject import Subject
    from steer.tasks.prompts.task import Prompts
    from steer.tasks.task import Task

RecipeLike: TypeAlias = "Loaded | str | Path | Mapping[str, Any]"
CheckpointLike: TypeAlias = "Subject | str | Path"
Changes: TypeAlias = "Sequence[str] | Mapping[str, Any]"


def recipe_of(given: RecipeLike, changes: Changes = (), checkpoint: str | None = None) -> Loaded:
    """A recipe with changes: by name or path, from a dict, or one that is loaded already (which takes none)."""
    words = change_words(changes)
    words += (f"checkpoint={dumps(checkpoint)}",) if checkpoint is not None else ()
    match given:
        case Loaded():
            if change_words(changes):
                raise SteerError("a loaded recipe takes no more changes: give them to load_recipe")
            return given
        case str() | Path():
            return load_recipe(str(given), *words)
        case Mapping():
            return recipe_from_keys("recipe", given, words)
        case _:
            raise ConfigError(f"a recipe is a name, a path, a dict or a loaded recipe, not {given!r:.60}")


def recipe_from_keys(name: str, keys: Mapping[str, Any], changes: Sequence[str] = ()) -> Loaded:
    document = override(Document(name, deepcopy(dict(keys))), changes)
    return loaded_from(document, name, changes)


def change_words(changes: Changes) -> tuple[str, ...]:
    """`key=value`, as the command line has them: `{"episodes.count": 40}` is `episodes.count=40`."""
    if isinstance(changes, str):
        return (changes,)
    if isinstance(changes, Mapping):
        return tuple(f"{key}={_dumped(key, value)}" for key, value in changes.items())
    return tuple(changes)


def _dumped(key: str, value: Any) -> str:
    try:
        return dumps(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"changes: {key}: numbers, texts, lists and dicts can be said, not {value!r:.60}") from error


def name_of(checkpoint: CheckpointLike) -> str:
    """A checkpoint's name or path, or the name that an object has."""
    if isinstance(checkpoint, str | Path):
        return str(checkpoint)
    _check_subject(checkpoint)
    return checkpoint.name


def load_checkpoint(
    name: Path | str, device: str = "cpu", dtype: str = "float32", *, task: Path | str | None = None
) -> Subject:
    """A checkpoint of any family, by name or folder, to be asked many things. `task`: a file of prompts for it."""
    return subject_of(str(name), device, dtype, task)


def subject_of(
    given: CheckpointLike, device: str = "cpu", dtype: str = "float32", task: Path | str | None = None
) -> Subject:
    """A model of any family; a name is loaded, an object taken as it is. `task`: a file of prompts to put to it."""
    from steer.models.devices import check_device, check_dtype
    from steer.models.families import load_subject, task_of, tokenizer_of
    from steer.tasks.prompts.task import Prompts

    if not isinstance(given, str | Path):
        _check_subject(given)
        if task is not None:
            raise SteerError("a loaded checkpoint takes no file of prompts: give it to load_checkpoint as task=")
        return given
    check_dtype(dtype)
    check_device(device)
    name = str(given)
    if task is not None:  # what is wrong with the file is said before any weights are read
        brought = prompts_of(name, task)
        return load_subject(name, device, dtype).about(brought)
    subject = load_subject(name, device, dtype)
    typed = task_of(name) == Prompts.name
    return subject.about(Prompts(tokenizer=tokenizer_of(name))) if typed else subject


def prompts_of(checkpoint: str, file: Path | str) -> Prompts:
    """A file of prompts as a task for this checkpoint."""
    from steer.models.families import tokenizer_of
    from steer.tasks.prompts.formats import named
    from steer.tasks.prompts.task import read_prompts

    path, form = named(file)
    source = str(path.resolve())
    given = source if form == "steer" else {"file": source, "format": form}
    return read_prompts(path, form, tokenizer_of(checkpoint), given)


def checkpoint_of(given: CheckpointLike, device: str = "cpu") -> Checkpoint:
    """The same where only a checkpoint of the plain family will do."""
    from steer.models.checkpoint import Checkpoint, load_checkpoint
    from steer.models.devices import check_device

    if isinstance(given, str | Path):
        check_device(device)
        return load_checkpoint(str(given), device)
    _check_subject(given)
    if not isinstance(given, Checkpoint):
        raise SteerError(f"{given.name}: is not a checkpoint of the plain family")
    return given


def _check_subject(given: Subject) -> None:
    if not hasattr(given, "model") or not hasattr(given, "names"):
        raise SteerError(f"a checkpoint is a name, a path or a loaded checkpoint, not {given!r:.60}")


def check_split(split: str, task: Task) -> None:
    if split not in task.splits:
        raise SteerError(f"--split: {unknown('split', str(split), task.splits)}")


def subject_for(loaded: Loaded, given: CheckpointLike | None, device: str, dtype: str) -> Subject:
    """The checkpoint that is given, else the one that a recipe names; what is wrong with that has its place."""
    from steer.models.devices import check_device, check_dtype
    from steer.models.families import load_subject

    check_dtype(dtype)
    check_device(device)
    if given is not None and not isinstance(given, str | Path):
        _check_subject(given)
        return given
    with loaded.placing(), keyed("checkpoint"):
        return load_subject(loaded.recipe.checkpoint if given is None else str(given), device, dtype)
