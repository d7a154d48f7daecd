"""What the task predicts for examples under a recipe's intervention."""

from __future__ import annotations

from collections.abc import Sequence

from steer.recipe.schema import PositionSwap, Recipe, Steer
from steer.tasks.task import Example


def changed_variable(recipe: Recipe) -> str | None:
    """The variable that a recipe changes: only examples whose answer this changes are of use to it."""
    if isinstance(recipe, PositionSwap) and recipe.task.exchange is not None:
        return recipe.task.exchange.variable
    return recipe.variable if isinstance(recipe, Steer) else None


def counterparts(examples: Sequence[Example], recipe: Recipe) -> list[Example]:
    """Each example with the variable of a `steer` changed, and the answer that it then has; none for other kinds."""
    if not isinstance(recipe, Steer):
        return []
    changed = [recipe.task.counterpart(example, recipe.variable) for example in examples]
    return [other for other in changed if other is not None]


def counterfactual(examples: Sequence[Example], recipe: Recipe) -> list[Example]:
    """The same examples with the answers that are predicted under the recipe's intervention."""
    if isinstance(recipe, Steer):
        others = counterparts(examples, recipe)
        return [example.answering(other.answer) for example, other in zip(examples, others, strict=True)]
    assert isinstance(recipe, PositionSwap)
    return [recipe.task.exchanged(example, recipe.tokens) for example in examples]
