"""The fixed sets of episodes: 10,000 for training, 500 for validation, 2,000 held out.

What must not be shared between training and the other two is an episode's *conjunction*: the whole of its primitive
and function assignments (the paper's criterion). The held-out sets are drawn first, and every training episode,
relabelled and curriculum episodes included, is checked against `Splits.held_out`. Episodes are drawn when they are
used: the first test episode needs nothing else, the first training episode needs all held-out ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import Literal, TypeAlias, TypeVar, overload

from steer.base.dice import Dice
from steer.tasks.compositional.episode import Episode, Function, Primitive
from steer.tasks.compositional.grammar import PAPER, Grammar, draw
from steer.tasks.compositional.program import functions_of, primitives_of, understand

T = TypeVar("T")
SplitName: TypeAlias = Literal["train", "validation", "test"]
SIZES: dict[SplitName, int] = {"train": 10_000, "validation": 500, "test": 2_000}
Conjunction: TypeAlias = tuple[frozenset[Primitive], frozenset[Function]]


def conjunction(episode: Episode) -> Conjunction:
    understood = understand(episode)
    return primitives_of(understood), functions_of(understood)


def conjunctions(episodes: Iterable[Episode]) -> frozenset[Conjunction]:
    return frozenset(map(conjunction, episodes))


class Drawn(Sequence[T]):
    """A sequence of `size` things, each made when it is first used."""

    def __init__(self, size: int, make: Callable[[], T]) -> None:
        self._size, self._make = size, make
        self._drawn: list[T] = []

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, place: int) -> T: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[T, ...]: ...
    def __getitem__(self, place: int | slice) -> T | tuple[T, ...]:
        if isinstance(place, slice):
            return tuple(self[number] for number in range(self._size)[place])
        number = range(self._size)[place]  # raises beyond the end, counts from the end below zero
        while len(self._drawn) <= number:
            self._drawn.append(self._make())
        return self._drawn[number]


@dataclass(frozen=True)
class Splits:
    train: Sequence[Episode]
    validation: Sequence[Episode]
    test: Sequence[Episode]

    def __getitem__(self, name: SplitName) -> Sequence[Episode]:
        return {"train": self.train, "validation": self.validation, "test": self.test}[name]

    @cached_property
    def held_out(self) -> frozenset[Conjunction]:
        """The conjunctions of validation and test."""
        return conjunctions(self.test) | conjunctions(self.validation)


@lru_cache(maxsize=4)
def make_splits(seed: int = 0, grammar: Grammar = PAPER) -> Splits:
    test = _drawn("test", seed, grammar, frozenset)
    validation = _drawn("validation", seed, grammar, lambda: conjunctions(test))
    train = _drawn("train", seed, grammar, lambda: splits.held_out)
    splits = Splits(train, validation, test)
    return splits


def _drawn(
    name: SplitName, seed: int, grammar: Grammar, held_out: Callable[[], AbstractSet[Conjunction]]
) -> Drawn[Episode]:
    """One set, drawn outside of `held_out`, which is computed when its first episode is drawn."""
    dice, known = Dice(seed, name), cache(held_out)
    return Drawn(SIZES[name], lambda: draw_outside(known(), lambda: draw(grammar, dice)))


def draw_outside(held_out: AbstractSet[Conjunction], make: Callable[[], Episode]) -> Episode:
    """The first episode that `make` gives whose conjunction is not held out."""
    episode = make()
    while held_out and conjunction(episode) in held_out:
        episode = make()
    return episode
