"""The authors' task as the rest of the package sees it: the compositional one, with other words, prompts and episodes.

Validation and test are drawn like the episodes that the authors analyse, but only with answers that the support
determines. `train` is drawn like the episodes that their model was trained on, as plain tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from pydantic import Field

from steer.base.dice import Dice
from steer.base.json import Json
from steer.tasks.authors import evaluation
from steer.tasks.authors.episode import AuthorsEpisode
from steer.tasks.authors.evaluation import is_answered
from steer.tasks.authors.files import AuthorsExample, EpisodeFile, read_folder
from steer.tasks.authors.generator import draw_long, draw_mlc
from steer.tasks.authors.vocabulary import COLOURS, TOKENS
from steer.tasks.compositional.episode import Episode
from steer.tasks.compositional.program import solve
from steer.tasks.compositional.selection import Episodes, choose
from steer.tasks.compositional.splits import Drawn
from steer.tasks.compositional.task import Compositional
from steer.tasks.task import Example, Lesson, Slice, TaskOf

SIZES = {"train": 2_000, "validation": 500, "test": 2_000}
LONGEST = 9  # the authors' decoder takes ten steps, the end among them


class AuthorsEpisodes(Episodes):
    """Which episodes are shown to the model."""

    split: Annotated[Literal["validation", "test"], Field(description="drawn like the authors' test_data_long")] = (
        "test"
    )


class Authors(Compositional):
    name = "authors"
    tokens = TOKENS
    longest_answer = LONGEST
    selection = AuthorsEpisodes
    notes = evaluation.NOTES
    lesson = Lesson

    def split(self, name: str, seed: int) -> Sequence[Any]:
        return make_split(name, seed)

    def examples(self, wanted: Episodes, seed: int, variable: str | None = None) -> Sequence[Episode]:
        return choose(wanted, make_split(wanted.split, seed), variable)

    def read(self, folder: Path) -> Sequence[AuthorsExample]:
        return read_folder(folder)

    def counts(self, token: str) -> bool:
        return token in COLOURS

    def parse(self, text: str) -> Episode:
        episode = AuthorsEpisode.parse(text)
        return replace(episode, answer=solve(episode).answer)

    def describe(self, example: AuthorsExample) -> Json:  # type: ignore[override]
        """With the variables of Algorithm 1, where it finds an answer."""
        return super().describe(example) if is_answered(example) else TaskOf.describe(cast(Any, self), example)

    def text(self, example: AuthorsExample) -> str:  # type: ignore[override]
        return super().text(example) if is_answered(example) else TaskOf.text(cast(Any, self), example)

    def alternatives(self, example: Episode) -> tuple[str, ...]:
        return COLOURS

    def chooses(self, example: Episode) -> bool:
        return len(set(example.question.arguments)) == 2

    def kind(self, example: AuthorsExample) -> str:  # type: ignore[override]
        return evaluation.kind(example)

    def groups(self, examples: Sequence[Any], trained: Sequence[Any]) -> Mapping[str, Sequence[bool]]:
        return evaluation.groups(examples)

    def epoch(self, lesson: Any, data_seed: int, seed: int, number: int) -> Sequence[Sequence[Example]]:
        return TaskOf.epoch(self, lesson, data_seed, seed, number)

    def slices(self, seed: int) -> Mapping[str, Slice]:
        return {}


@lru_cache(maxsize=8)
def make_split(name: str, seed: int) -> Sequence[Any]:
    drawn = _questions(Dice(seed, "authors", name), draw_mlc if name == "train" else draw_long)
    wanted = drawn if name == "train" else filter(is_answered, drawn)
    return Drawn(SIZES[name], lambda: next(wanted))


def _questions(dice: Dice, draw: Callable[[Dice], EpisodeFile]) -> Iterator[AuthorsExample]:
    while True:
        yield from draw(dice).examples()


TASK = Authors()
