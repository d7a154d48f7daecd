"""An episode in the authors' words: `dax lug zup | zup = GREEN | … |`, with a separator after the last item, too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import Self

from steer.tasks.authors.vocabulary import COLOURS, EOS, IO, MARKS, SOS, WORDS
from steer.tasks.compositional.episode import Episode
from steer.tasks.compositional.vocabulary import BAR, EQUALS


@dataclass(frozen=True)
class AuthorsEpisode(Episode):
    """An episode whose prompt has other marks; everything else is the same."""

    colours: ClassVar[tuple[str, ...]] = COLOURS
    symbols: ClassVar[tuple[str, ...]] = WORDS

    @property
    def prompt(self) -> tuple[str, ...]:
        """The tokens of the prompt: items, each closed by a separator, then EOS."""
        return join_items(self.items)

    def __str__(self) -> str:
        return " | ".join(" ".join(item) for item in self.items) + " |"

    @classmethod
    def parse(cls, text: str) -> Self:
        """As people type it, or with the authors' own marks; the last separator may be missing."""
        marks = {SOS: BAR, IO: EQUALS}
        words = " ".join(marks.get(word.upper(), word) for word in text.split()).strip()
        return super().parse(words.removesuffix(EOS).strip().removesuffix(BAR))


def join_items(items: tuple[tuple[str, ...], ...]) -> tuple[str, ...]:
    tokens = (token for item in items for token in (*item, BAR))
    return (*(MARKS.get(token, token) for token in tokens), EOS)
