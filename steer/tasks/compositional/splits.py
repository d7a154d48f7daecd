"""The fixed sets of episodes: 10,000 to train on, 500 to watch training by, 2,000 held out.

What must not be shared between training and the other two is an episode's *conjunction*: the whole of its primitive
and function assignments (the paper's criterion). The held-out sets are drawn first and everything trained on,
relabelled and curriculum episodes included, is checked against `Splits.held_out`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias

from steer.base.dice import Dice
from steer.tasks.compositional.episode import Episode, Function, Primitive
from steer.tasks.compositional.grammar import PAPER, Grammar, draw
from steer.tasks.compositional.program import functions, primitives

SplitName: TypeAlias = Literal["train", "validation", "test"]
SIZES: dict[SplitName, int] = {"train": 10_000, "validation": 500, "test": 2_000}
Conjunction: TypeAlias = tuple[frozenset[Primitive], frozenset[Function]]


def conjunction(episode: Episode) -> Conjunction:
    return primitives(episode), functions(episode)


@dataclass(frozen=True)
class Splits:
    train: tuple[Episode, ...]
    validation: tuple[Episode, ...]
    test: tuple[Episode, ...]
    held_out: frozenset[Conjunction]  # of validation and test

    def __getitem__(self, name: SplitName) -> tuple[Episode, ...]:
        parts: dict[SplitName, tuple[Episode, ...]] = {
            "train": self.train,
            "validation": self.validation,
            "test": self.test,
        }
        return parts[name]


@lru_cache(maxsize=4)
def make_splits(seed: int = 0, grammar: Grammar = PAPER) -> Splits:
    held_out: set[Conjunction] = set()
    parts: dict[SplitName, tuple[Episode, ...]] = {}
    names: tuple[SplitName, ...] = ("test", "validation", "train")
    for name in names:
        dice = Dice(seed, name)
        drawn = [draw_outside(held_out, lambda: draw(grammar, dice)) for _ in range(SIZES[name])]  # noqa: B023
        parts[name] = tuple(drawn)
        if name != "train":
            held_out |= {conjunction(episode) for episode in drawn}
    return Splits(parts["train"], parts["validation"], parts["test"], frozenset(held_out))


def draw_outside(held_out: set[Conjunction] | frozenset[Conjunction], make: Callable[[], Episode]) -> Episode:
    """The first episode that `make` gives whose conjunction is not held out."""
    while conjunction(episode := make()) in held_out:
        pass
    return episode
