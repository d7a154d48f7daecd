"""Counterparts: the same prompt with one variable of Algorithm 1 changed, and the answer that it then has.

They predict what an intervention on that variable should do, before it is made. A counterpart has the same tokens at
the same places, except for those that carry the variable, so values can be taken from its run place by place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from steer.tasks.compositional.episode import Call, Demonstration, Episode, Item
from steer.tasks.compositional.program import is_determined, primitives, solve, understand


def counterpart(episode: Episode, variable: str) -> Episode | None:
    """The episode with one variable changed; None if that cannot be done without changing what the symbols mean."""
    if not episode.has_two_arguments:
        return None
    changed = CHANGES[variable](episode)
    if changed is None or not is_determined(changed) or primitives(changed) != primitives(episode):
        return None
    changed = replace(changed, answer=solve(changed).answer)
    return changed if changed.answer != episode.answer else None


def exchange_arguments(episode: Episode) -> Episode:
    """`B S A` for `A S B`: every symbol has another index-in-question."""
    first, second = episode.question.arguments
    return replace(episode, question=Call((second, first), episode.question.function))


def mirror_function(episode: Episode) -> Episode:
    """The function's right-hand colours exchanged: every output token has another relative-index-on-LHS."""
    return replace(episode, support=tuple(_mirrored(item, episode) for item in episode.support))


def _mirrored(item: Item, episode: Episode) -> Item:
    if not isinstance(item, Demonstration) or len(item.call.arguments) != 2:
        return item
    if item.call.function != episode.question.function:
        return item
    colours = understand(episode).colours
    if not set(item.call.arguments) <= set(colours):
        return item
    one, two = (colours[argument] for argument in item.call.arguments)
    return replace(item, output=tuple({one: two, two: one}[colour] for colour in item.output))


def replace_argument(episode: Episode) -> Episode | None:
    """`A S C` for `A S B`: another primitive takes over the second argument's index."""
    first, second = episode.question.arguments
    others = [symbol for symbol in understand(episode).colours if symbol not in (first, second)]
    return replace(episode, question=Call((first, others[0]), episode.question.function)) if others else None


def ask_distractor(episode: Episode) -> Episode | None:
    """`A T B` for `A S B`: another function of two arguments is read."""
    others = [
        shown.call.function
        for shown in episode.demonstrations
        if len(shown.call.arguments) == 2 and shown.call.function != episode.question.function
    ]
    return replace(episode, question=Call(episode.question.arguments, others[0])) if others else None


CHANGES: Mapping[str, Callable[[Episode], Episode | None]] = {
    "index-in-question": exchange_arguments,
    "relative-index": mirror_function,
    "argument": replace_argument,
    "function": ask_distractor,
}
VARIABLES = tuple(CHANGES)


def why_fixed(episode: Episode, variable: str) -> str:
    """Why an episode has no counterpart."""
    if not episode.has_two_arguments:
        return "a question of two arguments is needed (`steer attend` shows the answer to any other)"
    return {
        "function": "the support shows no other function of two arguments with another answer",
        "argument": "there is no primitive besides the two arguments",
    }.get(variable, "the answer would be the same")


def with_exchanged_places(episode: Episode, places: tuple[int, int]) -> Episode:
    """The answer that Algorithm 1 gives when two places of the question (from 1) exchange their positions."""
    solution = solve(episode)
    first, second = places
    exchange = {first: second, second: first}
    symbol_at = {exchange.get(place, place): symbol for place, symbol in solution.symbol_at.items()}
    return replace(episode, answer=solution.answer_with(symbol_at, solution.relative_index))
