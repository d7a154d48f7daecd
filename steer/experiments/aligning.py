"""`steer align` from Python: the recipe of kind `align` that a few words stand for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from steer.base.errors import SteerError
from steer.base.json import Json
from steer.base.shipped import DEFAULT
from steer.experiments.api import run
from steer.experiments.given import CheckpointLike, name_of, recipe_from_keys
from steer.models.families import task_of
from steer.recipe.load import Loaded
from steer.results.result import Result
from steer.tasks import TASKS

SIZES = (1, 2, 4)  # dimensions, where none are named
MOST_SEEDS = 20
MEASURES = [{"name": "exact-match", "decoding": "greedy", "against": "counterfactual"}]


def align(
    sites: str | Sequence[str], variable: str, k: int | str | Sequence[int | str] = (),
    checkpoint: CheckpointLike = DEFAULT, *, seeds: int = 1, epochs: int = 20, train: int = 300, episodes: int = 300,
    no_controls: str = "", task: Path | str | None = None, out: Path | str | None = None, device: str = "cpu",
    force: bool = False, tell: Callable[[float], None] = lambda done: None,
) -> Result:  # fmt: skip
    """In how few dimensions of some sites a variable lives: learnt on some examples, judged on others, with controls.

    `result.subspaces` has what was learnt; with `out` they are written beside the result.
    """
    named = [sites] if isinstance(sites, str) else list(sites)
    several = [k] if isinstance(k, int | str) else list(k)
    loaded = align_recipe(
        named, variable, several, name_of(checkpoint), seeds=seeds, epochs=epochs, train=train, episodes=episodes,
        no_controls=no_controls, task=task,
    )  # fmt: skip
    given = None if isinstance(checkpoint, str | Path) else checkpoint
    return run(loaded, given, out=out, device=device, force=force, tell=tell)


def align_recipe(
    sites: Sequence[str], variable: str, k: Sequence[int | str], checkpoint: str, *, seeds: int = 1, epochs: int = 20,
    train: int = 300, episodes: int = 300, no_controls: str = "", task: Path | str | None = None,
) -> Loaded:  # fmt: skip
    """The recipe, checked."""
    if not 1 <= seeds <= MOST_SEEDS:
        raise SteerError(f"--seeds: from 1 to {MOST_SEEDS}, not {seeds}")
    needed = {} if task is not None else dict(TASKS[task_of(checkpoint)].needed.keys)
    trained = {} if task is not None else {"split": TASKS[task_of(checkpoint)].splits[0]}
    keys: Json = {
        "kind": "align", "checkpoint": checkpoint, "variable": variable, "k": list(k) or list(SIZES), "epochs": epochs,
        "sets": [{"name": ", ".join(sites), "sites": list(sites)}], "episodes": {"count": episodes, **needed},
        "train": {"count": train, **trained, **needed}, "measures": MEASURES, "figure": "dose",
        "description": f"dimensions of {', '.join(sites)} in which {variable} lives",
    }  # fmt: skip
    keys |= {"controls": [], "no_controls": no_controls} if no_controls else {}
    keys |= {"task": str(Path(task).resolve())} if task is not None else {}
    keys |= {"sweep": {"seed": list(range(seeds))}} if seeds > 1 else {}
    return recipe_from_keys("align", keys)


def numbers_of(words: Sequence[str]) -> list[int | str]:
    """`-k 1 -k all` as numbers."""
    for word in words:
        if word != "all" and not (word.isdecimal() and int(word)):
            raise SteerError(f"-k: a number of dimensions from 1, or all, not {word!r}")
    return [word if word == "all" else int(word) for word in words]
