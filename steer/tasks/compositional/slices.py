"""Questions that must be composed: fixed sets of episodes, each of one kind.

In the paper's grammar most questions share an argument with a demonstration of their function, which opens a
shortcut. A *disjoint* question shares none. Other slices have many functions, a repeated argument, or the long supports
of the authors' test episodes. All questions have two arguments. Slices share nothing with the three splits, and
training avoids them as it avoids the test episodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from steer.base.dice import Dice
from steer.tasks.compositional.episode import Episode
from steer.tasks.compositional.grammar import Grammar, draw
from steer.tasks.compositional.splits import Conjunction, conjunctions, draw_outside, make_splits

COUNT = 400  # episodes of each slice
# The rules of the authors' test episodes (github.com/chengtang827/MLC-transformer-interpretability, test_data_long).
AUTHORS_RULES = ("21211", "21122", "12121", "12212")


def shares_argument(episode: Episode) -> bool:
    """Does a demonstration of the asked function take an argument of the question?"""
    question = episode.question
    return any(
        set(shown.call.arguments) & set(question.arguments)
        for shown in episode.demonstrations
        if shown.call.function == question.function
    )


def repeats_argument(episode: Episode) -> bool:
    return len(set(episode.question.arguments)) < len(episode.question.arguments)


def function_count(episode: Episode) -> int:
    return len({shown.call.function for shown in episode.demonstrations})


def _says_both(episode: Episode) -> bool:
    return len(set(episode.answer)) == 2


@dataclass(frozen=True)
class Slice:
    """A grammar, and which of its episodes belong to the slice."""

    words: str
    grammar: Grammar
    belongs: Callable[[Episode], bool]


def _functions(count: int, disjoint: bool = True) -> Grammar:
    ends = (count, count)
    return Grammar((3, 4), functions=ends, demonstrations=ends, arities=(2,), length=(2, 5), disjoint=disjoint)


def _disjoint(count: int) -> Slice:
    functions = f"{count} functions" if count > 1 else "one function"
    return Slice(f"disjoint, {functions}", _functions(count), lambda e: _says_both(e) and not shares_argument(e))


SLICES: Mapping[str, Slice] = {
    **{f"disjoint-{count}": _disjoint(count) for count in (1, 2, 3, 4)},
    "any-4": Slice("any arguments, 4 functions", _functions(4, disjoint=False), _says_both),
    "overlap-1": Slice(
        "shares an argument, one function", _functions(1, False), lambda e: _says_both(e) and shares_argument(e)
    ),
    "repeated": Slice(
        "repeated argument, 1 to 4 functions",
        Grammar(functions=(1, 4), demonstrations=(2, 4), arities=(2,), length=(2, 5), repeats=True),
        repeats_argument,
    ),
    "long": Slice(
        "10 demonstrations of 4 functions, authors' rules",
        Grammar(
            (4, 4), functions=(4, 4), demonstrations=(10, 10), arities=(2,), repeats=True, independent=True,
            templates=AUTHORS_RULES,
        ),
        lambda episode: True,
    ),
}  # fmt: skip


@lru_cache(maxsize=4)
def make_slices(seed: int = 0) -> Mapping[str, tuple[Episode, ...]]:
    return {name: make_slice(name, seed) for name in SLICES}


@lru_cache(maxsize=4 * len(SLICES))
def make_slice(name: str, seed: int = 0) -> tuple[Episode, ...]:
    """The episodes of one slice. Drawing them needs all splits, because they share nothing with them."""
    part, dice, known = SLICES[name], Dice(seed, "slice", name), _known(seed)
    episodes: list[Episode] = []
    while len(episodes) < COUNT:
        episode = draw_outside(known, lambda: draw(part.grammar, dice))
        if part.belongs(episode):
            episodes.append(episode)
    return tuple(episodes)


@lru_cache(maxsize=4)
def _known(seed: int) -> frozenset[Conjunction]:
    splits = make_splits(seed)
    return splits.held_out | conjunctions(splits.train)


@lru_cache(maxsize=4)
def held_out(seed: int = 0) -> frozenset[Conjunction]:
    """The conjunctions of validation, test and every slice, which training must not use."""
    slices = conjunctions(episode for part in make_slices(seed).values() for episode in part)
    return make_splits(seed).held_out | slices
