"""The task as the rest of the package sees it. This file only connects the methods of a task to their functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from steer.base.errors import SteerError
from steer.base.json import Json
from steer.tasks.compositional import counterparts, evaluation
from steer.tasks.compositional.curriculum import epoch_batches, material
from steer.tasks.compositional.episode import ARGUMENTS, Episode
from steer.tasks.compositional.grammar import PAPER
from steer.tasks.compositional.labels import LABEL_TITLES, LABELS, labelled_tokens
from steer.tasks.compositional.lesson import CompositionalLesson
from steer.tasks.compositional.program import Solution, solve
from steer.tasks.compositional.roles import LOOKS, gaze
from steer.tasks.compositional.selection import Episodes, select
from steer.tasks.compositional.slices import SLICES, make_slice
from steer.tasks.compositional.splits import make_splits
from steer.tasks.compositional.steering import CARRIERS, EXCHANGE, HANDLES, INDEX, NEEDED
from steer.tasks.compositional.vocabulary import COLOURS, TOKENS
from steer.tasks.task import Example, Gaze, Lesson, Place, Slice, TaskOf, Tokens, Words


class Compositional(TaskOf[Episode, Episodes]):
    name = "compositional"
    tokens: ClassVar[Tokens] = TOKENS
    longest_answer = PAPER.length[1]
    selection = Episodes
    roles = LOOKS
    output_role = "output"
    variables = counterparts.VARIABLES
    span_names = (*ARGUMENTS, "function")
    labels = LABELS
    label_titles = LABEL_TITLES
    labels_text = (
        "of assignments (A = red) whose symbol is asked about: A (symbols) or red (colours); the question's own "
        "arguments; all copies of their colours; or the steps of the answer"
    )
    exchange, needed, handles, carriers = EXCHANGE, NEEDED, HANDLES, CARRIERS
    notes = evaluation.NOTES
    lesson: ClassVar[type[Lesson]] = CompositionalLesson
    words = Words(
        token="colour", tokens="colours", program="Algorithm 1", exchanged="the two arguments",
        choosing="two-argument questions", rival="the other argument", slices="questions that must be composed",
    )  # fmt: skip

    def split(self, name: str, seed: int) -> Sequence[Episode]:
        return make_splits(seed)[name]  # type: ignore[index]

    def examples(self, wanted: Episodes, seed: int, variable: str | None = None) -> Sequence[Episode]:
        return select(wanted, seed, variable)

    def counts(self, token: str) -> bool:
        return token in COLOURS

    def parse(self, text: str) -> Episode:
        episode = Episode.parse(text)
        return replace(episode, answer=solve(episode).answer)

    def describe(self, example: Episode) -> Json:
        """With the variables that Algorithm 1 finds on the way to the answer."""
        solution = solve(example)
        return super().describe(example) | {
            "symbol_to_colour": dict(solution.symbol_to_colour),
            "index_in_question": dict(solution.index_in_question),
            "relative_index_on_lhs": list(solution.relative_index),
        }

    def text(self, example: Episode) -> str:
        solution = solve(example)
        indices = " ".join(f"{symbol}={index}" for symbol, index in solution.index_in_question.items())
        return (
            f"{example}\n"
            f"  answer                 {' '.join(example.answer)}\n"
            f"  index-in-question      {indices}\n"
            f"  relative-index-on-LHS  {' '.join(map(str, solution.relative_index))}"
        )

    def solve(self, example: Episode) -> Solution:
        return solve(example)

    def alternatives(self, example: Episode) -> tuple[str, ...]:
        return COLOURS

    def counterpart(self, example: Episode, variable: str) -> Episode | None:
        return counterparts.counterpart(example, variable)

    def why_fixed(self, example: Episode, variable: str) -> str:
        return counterparts.why_fixed(example, variable)

    def keeps_length(self, variable: str) -> bool:
        return variable != "function"

    def exchanged(self, example: Episode, places: tuple[int, int]) -> Episode:
        return counterparts.with_exchanged_places(example, places)

    def check_exchange(self, example: Episode, named: Sequence[str], variable: str) -> None:
        if variable != INDEX:
            raise SteerError(f"--swap exchanges the {INDEX}; give --change {variable} without it")
        arguments = example.question.arguments
        if not example.has_two_arguments or set(map(str.upper, named)) != set(map(str.upper, arguments)):
            present = " and ".join(arguments) if example.has_two_arguments else "only one argument"
            raise SteerError(f"--swap {' '.join(named)}: the question has {present}")

    def labelled(self, example: Episode, label: str, tokens: str) -> Sequence[tuple[Place, int]]:
        sequence = LABELS[label][tokens]
        return [((sequence, place), value) for place, value in labelled_tokens(example, label, tokens)]

    def gaze(self, example: Episode, role: str) -> Sequence[Gaze]:
        return gaze(example, role)

    def chooses(self, example: Episode) -> bool:
        return example.has_two_arguments

    def rivals(self, example: Episode) -> tuple[str, ...]:
        return evaluation.rivals(example)

    def kind(self, example: Episode) -> str:
        return evaluation.kind(example)

    def groups(self, examples: Sequence[Episode], trained: Sequence[Episode]) -> Mapping[str, Sequence[bool]]:
        return evaluation.groups(examples, trained)

    def epoch(self, lesson: Any, data_seed: int, seed: int, number: int) -> Sequence[Sequence[Example]]:
        return epoch_batches(lesson, material(data_seed), seed, number)

    def slices(self, seed: int) -> Mapping[str, Slice]:
        return {name: Slice(part.words, make_slice(name, seed)) for name, part in SLICES.items()}


TASK = Compositional()
