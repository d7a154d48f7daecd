"""Which episodes a recipe means, and what Algorithm 1 predicts for them under its intervention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from steer.errors import SteerError
from steer.recipe import Episodes, PositionSwap, Recipe, Steer
from steer.task.counterparts import Variable, counterpart
from steer.task.episode import Episode
from steer.task.grammar import Dice
from steer.task.program import solve
from steer.task.splits import make_splits


def select(wanted: Episodes, data_seed: int, variable: Variable | None = None) -> list[Episode]:
    """The split's episodes that pass the filters (and in which a variable can be changed), as many as asked for."""
    everything = make_splits(data_seed)[wanted.split]
    least, most = wanted.length or (1, 5)
    matching = [
        episode
        for episode in everything
        if wanted.arity in (None, len(episode.question.arguments)) and least <= len(episode.answer) <= most
    ]
    if variable is not None:
        matching = [episode for episode in matching if counterpart(episode, variable) is not None]
    if not matching:
        raise SteerError(f"0 of {len(everything):,} episodes match: arity {wanted.arity}, length {wanted.length}")
    if wanted.count < len(matching):
        chosen = Dice(wanted.seed, "select").sample(range(len(matching)), wanted.count)
        matching = [matching[row] for row in sorted(chosen)]
    return matching


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
