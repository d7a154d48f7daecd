"""The keys of a training stage for its episodes: where they come from, what is asked, how they are written."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator
from typing_extensions import Self

from steer.base.yaml import AT_LEAST_ONE, Strict
from steer.tasks.compositional.grammar import PAPER, Grammar
from steer.tasks.task import Lesson

Count = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0, le=1)]


class Questions(Strict):
    """The questions about one episode at one visit. The paper asks one composition, MLC all of them."""

    compositions: Annotated[int, Field(ge=0, description="unseen calls of the support's functions")] = 1
    primitives: Annotated[int, Field(ge=0, description="bare symbols (`A` -> its colour)")] = 0
    copies: Annotated[int, Field(ge=0, description="calls that the support shows (copy its right side)")] = 0

    @model_validator(mode="after")
    def _ask_something(self) -> Questions:
        if self.compositions + self.primitives + self.copies == 0:
            raise ValueError("at least one question must be asked about an episode")
        return self


class Writing(Strict):
    """How prompts are written, easier than the task's own way: the answer stays the same (a curriculum)."""

    spelled: Annotated[Share, Field(description="share of right-hand tokens written as the symbol, not its colour")] = (
        0.0
    )
    marked: Annotated[
        Share, Field(description="share of right-hand tokens written as the argument's place (SOS: first, EOS: second)")
    ] = 0.0
    order: Annotated[
        Literal["as drawn", "last", "aligned"],
        Field(description="last: demonstrations after all primitives; aligned: also, its arguments' primitives first"),
    ] = "as drawn"


class CompositionalLesson(Lesson):
    episodes: Annotated[
        Literal["split"] | Count,
        Field(description="'split': the 10,000 training episodes; a number: that many new ones each epoch"),
    ] = "split"
    grammars: Annotated[
        tuple[Grammar, ...],
        AT_LEAST_ONE,
        Field(description="ranges of fresh episodes; each is drawn from one at random"),
    ] = (PAPER,)
    questions: Questions = Questions()
    writing: Writing = Writing()
    relabel: Annotated[bool, Field(description="rename symbols and colours at each visit")] = False
    reshuffle: Annotated[bool, Field(description="put the support in another order at each visit")] = False

    @property
    def longest_prompt(self) -> int:
        """Of this stage and of the held-out episodes."""
        return max(grammar.longest for grammar in (PAPER, *self.grammars))

    @model_validator(mode="after")
    def _draw_from_something(self) -> Self:
        asks = self.questions.compositions + self.questions.primitives
        if self.episodes != "split" and not asks and not any(g.demonstrations[1] for g in self.grammars):
            raise ValueError("questions: only copies are asked, and no grammar has demonstrations to copy")
        return self
