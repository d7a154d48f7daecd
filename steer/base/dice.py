"""Seeded choices.

Only `random.Random.random` is used: the one method whose sequence Python promises to keep. So a seed gives the same
choices on every machine and with every version.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")
Range = tuple[int, int]  # both ends included


class Dice:
    """Choices that depend on the seed alone."""

    def __init__(self, *seed: int | str) -> None:
        self._random = random.Random(":".join(map(str, seed))).random

    def below(self, bound: int) -> int:
        return int(self._random() * bound)

    def between(self, ends: Range) -> int:
        return ends[0] + self.below(ends[1] - ends[0] + 1)

    def choice(self, things: Sequence[T]) -> T:
        return things[self.below(len(things))]

    def sample(self, things: Sequence[T], count: int) -> list[T]:
        """`count` different things in random order (a Fisher-Yates shuffle cut short)."""
        pool = list(things)
        for place in range(count):
            other = place + self.below(len(pool) - place)
            pool[place], pool[other] = pool[other], pool[place]
        return pool[:count]

    def shuffled(self, things: Sequence[T]) -> list[T]:
        return self.sample(things, len(things))
