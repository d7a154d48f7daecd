"""Recipes fitted to one checkpoint: on it, on fewer episodes, without the roles that none of its heads plays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel

from steer.anatomy.named import named_keys
from steer.anatomy.names import Names
from steer.base.errors import SteerError
from steer.recipe.kinds.compare import Compare, Condition
from steer.recipe.load import Loaded

if TYPE_CHECKING:
    from steer.models.checkpoint import Checkpoint

Spec = TypeVar("Spec", bound=BaseModel)


def fit(loaded: Loaded, checkpoint: Checkpoint, episodes: int | None = None) -> tuple[Loaded, tuple[str, ...]]:
    """The recipe fitted to this checkpoint and checked; and why parts of it were left out."""
    fitted, lost = without_missing_roles(loaded, checkpoint.names)
    wanted = fitted.recipe.episodes
    if episodes is not None:
        wanted = wanted.model_copy(update={"count": min(episodes, wanted.count)})
    recipe = fitted.recipe.model_copy(update={"checkpoint": checkpoint.name, "episodes": wanted})
    fitted = replace(fitted, recipe=recipe)
    fitted.lower(checkpoint.names)
    return fitted, lost


def without_missing_roles(loaded: Loaded, names: Names) -> tuple[Loaded, tuple[str, ...]]:
    """The recipe without the conditions and measures whose role no head of this checkpoint plays; and why."""
    recipe = loaded.recipe
    lost: list[str] = []

    def there(name: str) -> bool:
        try:
            names.heads(name.partition(".")[0].replace(":any", ":all")) if name.startswith("$") else None
        except SteerError as error:
            lost.extend(error.faults)
            return False
        return True

    measures = tuple(kept for measure in recipe.measures if (kept := _measure(measure, there)) is not None)
    is_left = bool(measures)
    recipe = recipe.model_copy(update={"measures": measures})
    if isinstance(recipe, Compare):
        conditions = tuple(condition for condition in recipe.conditions if _played(condition, there))
        is_left = is_left and bool(conditions)
        recipe = recipe.model_copy(update={"conditions": conditions})
    if not is_left:
        raise SteerError(*dict.fromkeys(lost))
    return replace(loaded, recipe=recipe), tuple(dict.fromkeys(lost))


def _played(condition: Condition, there: Callable[[str], bool]) -> bool:
    """Are the heads there that a condition needs? `:any` beside others that are ablated need not be."""
    needed = [name for name in condition.ablate if ":any" not in name] or condition.ablate
    return all(map(there, (*needed, *condition.keep, *condition.among)))


def _measure(measure: Spec, there: Callable[[str], bool]) -> Spec | None:
    """The measure without names that the checkpoint lacks; None if nothing is left."""
    left: dict[str, str | tuple[str, ...]] = {}
    for key in named_keys(type(measure)):
        names = getattr(measure, key)
        kept = [name for name in ([names] if isinstance(names, str) else names) if there(name)]
        if not kept:
            return None
        left[key] = names if isinstance(names, str) else tuple(kept)
    return measure.model_copy(update=left)
