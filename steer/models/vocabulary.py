"""A model's tokens and their ids, as a checkpoint's record lists them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

PAD, START, END = 0, 1, 2  # ids in every vocabulary of the plain family


@dataclass(frozen=True)
class Vocabulary:
    """A token's id is its place in the list. Three of them frame a sequence: padding, start and end."""

    tokens: tuple[str, ...]
    pad: int = PAD
    start: int = START
    end: int | None = END  # None: nothing closes an answer

    @cached_property
    def ids(self) -> dict[str, int]:
        return {token: number for number, token in enumerate(self.tokens)}

    def encode(self, tokens: Iterable[str]) -> list[int]:
        return [self.ids[token] for token in tokens]

    def decode(self, ids: Iterable[int]) -> tuple[str, ...]:
        return tuple(self.tokens[number] for number in ids)

    def decode_answer(self, ids: Sequence[int]) -> tuple[str, ...]:
        """The tokens of a written answer, without the end that closes it and what comes after."""
        return self.decode(ids[: ids.index(self.end)] if self.end is not None and self.end in ids else ids)
