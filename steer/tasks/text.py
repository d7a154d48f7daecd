"""Where text meets a model's tokens.

A task of texts is bound to no model: its prompts and answers are strings, its spans are ranges of characters. The model
brings a `Tokenizer`, which cuts a text into pieces and says which characters each piece covers; this turns spans into
places. As everywhere in a task, a token is named by a string that stands for one id of the model's vocabulary.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from steer.base.errors import PromptError, unknown


@dataclass(frozen=True)
class Piece:
    """A token and the characters of the text that it stands for: from `start` up to, not including, `end`."""

    token: str
    start: int
    end: int


class Tokenizer(Protocol):
    """Cuts texts into pieces. The model's `encode` adds what the model puts around them (a start, an end)."""

    def prompt(self, text: str) -> Sequence[Piece]: ...
    def answer(self, prompt: str, text: str) -> Sequence[Piece]: ...  # as it follows this prompt
    def token(self, number: int) -> str: ...  # the name of an id, for files that hold ids; a fault, if there is none


@dataclass(frozen=True)
class Words:
    """The tokenizer of a plain vocabulary: each word between blanks is one token."""

    vocabulary: tuple[str, ...]

    def prompt(self, text: str) -> Sequence[Piece]:
        pieces = [Piece(word.group(), word.start(), word.end()) for word in re.finditer(r"\S+", text)]
        known = set(self.vocabulary)
        strange = dict.fromkeys(piece.token for piece in pieces if piece.token not in known)
        if strange:
            raise PromptError(*(unknown("token", word, self.vocabulary) for word in strange))
        return pieces

    def answer(self, prompt: str, text: str) -> Sequence[Piece]:
        return self.prompt(text)

    def token(self, number: int) -> str:
        if number >= len(self.vocabulary):
            raise PromptError(f"no token has the id {number}: there are {len(self.vocabulary)}")
        return self.vocabulary[number]


def covered(pieces: Iterable[Piece], start: int, end: int) -> tuple[int, ...]:
    """The places of the pieces that share a character with this range."""
    return tuple(place for place, piece in enumerate(pieces) if piece.start < end and start < piece.end)


def cuts(text: str, pieces: Iterable[Piece], start: int, end: int) -> bool:
    """Does this range leave out a part of a piece that it shares? A blank in front of a word does not count."""
    shared = [piece for piece in pieces if piece.start < end and start < piece.end]
    return any((text[piece.start : start] + text[max(end, piece.start) : piece.end]).strip() for piece in shared)
