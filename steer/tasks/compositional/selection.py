"""Which episodes a recipe means, and what Algorithm 1 predicts for them under its intervention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from steer.base.dice import Dice
from steer.base.errors import SteerError
from steer.recipe.schema import Episodes, PositionSwap, Recipe, Steer
from steer.tasks.compositional.counterparts import Variable, counterpart
from steer.tasks.compositional.episode import Episode
from steer.tasks.compositional.program import solve
from steer.tasks.compositional.slices import function_count, make_slices, repeats_argument, shares_argument
from steer.tasks.compositional.splits import make_splits


def select(wanted: Episodes, data_seed: int, variable: Variable | None = None) -> list[Episode]:
    """The split's episodes that pass the filters (and in which a variable can be changed), as many as asked for."""
    everything = _everything(wanted.split, data_seed)
    matching = [episode for episode in everything if _fits(episode, wanted)]
    if not matching:
        asked = wanted.model_dump(exclude_defaults=True, exclude={"split", "count", "seed"})
        told = ", ".join(f"{key} {value}" for key, value in asked.items())
        raise SteerError(f"0 of {len(everything):,} {wanted.split} episodes match: {told}")
    if variable is not None:
        able = [episode for episode in matching if counterpart(episode, variable) is not None]
        if not able:
            raise SteerError(f"{len(matching):,} episodes match, and the {variable} of none of them can be changed")
        matching = able
    if wanted.count < len(matching):
        chosen = Dice(wanted.seed, "select").sample(range(len(matching)), wanted.count)
        matching = [matching[row] for row in sorted(chosen)]
    return matching


def _everything(split: str, data_seed: int) -> Sequence[Episode]:
    if split == "strict":
        return [e for name, part in make_slices(data_seed).items() if name != "long" for e in part]
    if split == "long":
        return make_slices(data_seed)["long"]
    return make_splits(data_seed)[split]  # type: ignore[index]


def _fits(episode: Episode, wanted: Episodes) -> bool:
    return (
        wanted.arity in (None, len(episode.question.arguments))
        and _within(len(episode.answer), wanted.length)
        and _within(function_count(episode), wanted.functions)
        and wanted.overlap in (None, shares_argument(episode))
        and wanted.repeated in (None, repeats_argument(episode))
    )


def _within(count: int, ends: tuple[int, int] | None) -> bool:
    return ends is None or ends[0] <= count <= ends[1]


def counterparts(episodes: Sequence[Episode], variable: Variable) -> list[Episode]:
    """Each episode with one variable of Algorithm 1 changed, and the answer that it then has."""
    return [changed for episode in episodes if (changed := counterpart(episode, variable)) is not None]


def counterfactual(episodes: Sequence[Episode], recipe: Recipe) -> list[Episode]:
    """The same episodes with the answer that Algorithm 1 predicts under the recipe's intervention."""
    if isinstance(recipe, Steer):
        others = counterparts(episodes, recipe.variable)
        return [replace(episode, answer=other.answer) for episode, other in zip(episodes, others, strict=True)]
    assert isinstance(recipe, PositionSwap)
    first, second = recipe.tokens
    changed = []
    for episode in episodes:
        solution = solve(episode)
        exchange = {first: second, second: first}
        symbol_at = {exchange.get(place, place): symbol for place, symbol in solution.symbol_at.items()}
        changed.append(replace(episode, answer=solution.answer_with(symbol_at, solution.relative_index)))
    return changed
