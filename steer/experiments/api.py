"""Recipes from Python: built, run, planned and checked, with the defaults and the messages of the command line.

The other verbs stand beside this file; `steer/__init__.py` lists them all. No torch until something is run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steer.base.errors import ConfigError, SteerError
from steer.base.json import Json
from steer.base.memory import parse_memory
from steer.base.shipped import DEFAULT_TASK
from steer.drawing.look import look_of
from steer.experiments.given import (
    Changes,
    CheckpointLike,
    RecipeLike,
    change_words,
    name_of,
    recipe_from_keys,
    recipe_of,
    subject_for,
)
from steer.recipe.load import Loaded, gather, load_recipe
from steer.results.result import Result

if TYPE_CHECKING:
    from steer.engine.engine import Engine
    from steer.engine.text import Planned
    from steer.experiments.many import Outcome
    from steer.models.subject import Subject


def build_recipe(name: str = "recipe", **keys: Any) -> Loaded:
    """A recipe from keyword arguments, checked like one from a file: `build_recipe(kind="clean", measures=[…])`."""
    return recipe_from_keys(name, keys)


def run(
    recipe: RecipeLike, checkpoint: CheckpointLike | None = None, *, changes: Changes = (),
    out: Path | str | None = None, device: str = "cpu", dtype: str = "float32", memory: str = "4G",
    force: bool = False, formats: Sequence[str] = (), tell: Callable[[float], None] = lambda done: None,
    remote: bool | str = False,
) -> Result:  # fmt: skip
    """Run a recipe (by name or path, a dict, or a loaded one) on the checkpoint that it names, or on another.

    With `out`, the result is written to a folder there as `steer run` does, and not computed again if it is there
    already; without, nothing is written to disk. `remote`: on a server of nnsight's (NDIF), or on the host named.
    """
    look_of(formats)  # said also where nothing is drawn
    loaded, subject, engine = _prepared(recipe, checkpoint, changes, device, dtype, memory, remote)
    if out is None:
        from steer.experiments.sweeping import run_question

        return run_question(loaded, subject, tell, engine)
    result = _written(loaded, subject, engine, Path(out), force, formats, tell).result
    assert result is not None
    return result


def run_outcome(
    recipe: RecipeLike, checkpoint: CheckpointLike | None = None, *, changes: Changes = (), out: Path | str,
    device: str = "cpu", dtype: str = "float32", memory: str = "4G", force: bool = False, formats: Sequence[str] = (),
    tell: Callable[[float], None] = lambda done: None,
) -> Outcome:  # fmt: skip
    """The same, written to a folder: with the pictures, and whether it was known already."""
    loaded, subject, engine = _prepared(recipe, checkpoint, changes, device, dtype, memory)
    return _written(loaded, subject, engine, Path(out), force, formats, tell)


def _prepared(
    recipe: RecipeLike, checkpoint: CheckpointLike | None, changes: Changes, device: str, dtype: str, memory: str,
    remote: bool | str = False,
) -> tuple[Loaded, Subject, Engine]:  # fmt: skip
    from steer.engine.engine import Engine
    from steer.experiments.remote import remote_engine

    most = parse_memory(memory)
    loaded = recipe_of(recipe, changes, _named(recipe, checkpoint))
    if remote:
        return loaded, *remote_engine(loaded, remote, most)
    subject = subject_for(loaded, checkpoint, device, dtype)
    return loaded, subject, Engine.within(subject.model, most)


def _written(
    loaded: Loaded, subject: Subject, engine: Engine, out: Path, force: bool, formats: Sequence[str],
    tell: Callable[[float], None],
) -> Outcome:  # fmt: skip
    from steer.experiments.many import run_loaded
    from steer.experiments.sweeping import question_hash

    content = question_hash(loaded, subject, engine.memory)
    return run_loaded(
        loaded, subject, out / f"{loaded.name}-{content[:8]}", force, tell, engine, content, look_of(formats)
    )


def _named(recipe: RecipeLike, checkpoint: CheckpointLike | None) -> str | None:
    """Another checkpoint by name is a change of the recipe, which may then be about another task."""
    return None if checkpoint is None or isinstance(recipe, Loaded) else name_of(checkpoint)


def run_many(
    recipes: Sequence[str | Path] | str | Path, *, changes: Changes = (), out: Path | str = "results",
    device: str = "cpu", dtype: str = "float32", memory: str = "4G", jobs: int | None = 1, force: bool = False,
    formats: Sequence[str] = (), tell: Callable[[float, str], None] = lambda done, name: None,
    workers: int | None = None, on: str | None = None, say: Callable[[str], None] = lambda text: None,
    remote: bool | str = False,
) -> list[Outcome]:  # fmt: skip
    """Run recipes by name, path or folder; a bad one does not stop the others: each outcome has a result or faults.

    `jobs`: processes; None for as many as pay (a script that has some needs `if __name__ == "__main__":`).
    `workers`: of a Dask cluster that starts and ends with the call; `on`: the address of a running one's scheduler.
    `remote`: on a server of nnsight's (NDIF), or on the host named.
    """
    from steer.experiments.cluster import opened
    from steer.experiments.many import Job, run_batch
    from steer.experiments.processes import check_jobs

    if remote and (workers is not None or on is not None or (jobs or 1) > 1):
        raise SteerError("--remote sends one recipe after another: leave --jobs, --workers and --on out")
    check_jobs(jobs, workers, on)
    job = Job(change_words(changes), Path(out), device, dtype, parse_memory(memory), force, look_of(formats), remote)
    several = [recipes] if isinstance(recipes, str | Path) else recipes
    with opened(workers, on, say) as cluster:
        return run_batch([str(one) for one in several], job, jobs, tell, cluster)


def plan(recipe: RecipeLike, checkpoint: str | Path | None = None, *, changes: Changes = ()) -> Planned:
    """The dry run: which forward passes a recipe means, what each edits and reads."""
    from steer.engine.schedule import make_schedule
    from steer.engine.text import planned
    from steer.models.families import steps_of

    loaded = recipe_of(recipe, changes, _named(recipe, checkpoint))
    names = loaded.names()
    lowered = loaded.lower(names)
    schedule = make_schedule(lowered.plan, names.layout, steps_of(loaded.recipe.checkpoint))
    unmoved = [(where, number, loaded.recipe.measures[number].name) for where, number in sorted(lowered.unmoved)]
    return planned(loaded.name, schedule, tuple(unmoved))


def validate(*recipes: RecipeLike) -> tuple[str, ...]:
    """Check recipes, also folders of them, and give their names; every fault of all of them is raised at once."""
    checked = check_recipes(recipes)
    faults = [fault for faults_of in checked.values() for fault in faults_of]
    if faults:
        raise ConfigError(*faults)
    return tuple(checked)


def check_recipes(recipes: Sequence[RecipeLike]) -> dict[str, tuple[str, ...]]:
    """Recipe -> what is wrong with it; of a name that is no recipe's, that."""
    named = [str(one) for one in recipes if isinstance(one, str | Path)]
    paths, missing = gather(named)
    made = {f"recipe {number + 1}": one for number, one in enumerate(recipes) if not isinstance(one, str | Path)}
    lost = {name: error.faults for name, error in missing.items()}
    return lost | {name: _faults(one) for name, one in ({str(path): path for path in paths} | made).items()}


def _faults(recipe: RecipeLike) -> tuple[str, ...]:
    try:
        loaded = load_recipe(str(recipe)) if isinstance(recipe, str | Path) else recipe_of(recipe)
        loaded.check()
    except SteerError as error:
        return error.faults
    return ()


def schema(task: str = DEFAULT_TASK) -> Json:
    """The JSON Schema of recipes about a task."""
    from steer.recipe.tasked import recipe_schema
    from steer.tasks import TASKS

    return recipe_schema(TASKS[task]).json()
