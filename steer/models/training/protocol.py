"""A training protocol as data: what a preset file may say.

A protocol is a model, an optimiser and a list of stages. A stage says which episodes are shown, what is asked about
them and how the learning rate moves. Everything a training study varies is a key here, so that a study is a list of
commands.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from steer.base.yaml import AT_LEAST_ONE, Strict
from steer.models.plain.config import ModelConfig
from steer.tasks.compositional.grammar import PAPER, Grammar

Count = Annotated[int, Field(ge=1)]
Rate = Annotated[float, Field(gt=0, le=1)]
Share = Annotated[float, Field(ge=0, le=1)]


class Questions(Strict):
    """What is asked about one episode at one visit. The paper's text: one composition. MLC: all of them."""

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
        Field(description="last: demonstrations after all primitives; aligned: those of its arguments first, too"),
    ] = "as drawn"


class Stage(Strict):
    name: str = "main"
    epochs: Count = 50
    episodes: Annotated[
        Literal["split"] | Count,
        Field(description="'split': the 10,000 training episodes; a number: so many fresh ones each epoch"),
    ] = "split"
    grammars: Annotated[
        tuple[Grammar, ...],
        AT_LEAST_ONE,
        Field(description="ranges of fresh episodes; each is drawn from one at random"),
    ] = (PAPER,)
    questions: Questions = Questions()
    writing: Writing = Writing()
    relabel: Annotated[bool, Field(description="rename symbols and colours afresh at each visit")] = False
    reshuffle: Annotated[bool, Field(description="put the support in another order at each visit")] = False
    batch: Annotated[int, Field(ge=1, description="episodes in a batch, with all their questions")] = 25
    warmup: Annotated[float, Field(ge=0, description="epochs of linear warm-up at the stage's start")] = 0.0
    lr: Annotated[tuple[Rate, Rate], Field(description="learning rate at the stage's start and end")] = (1e-3, 5e-5)
    dropout: Annotated[float | None, Field(ge=0, le=0.9, description="the model's own rate unless given")] = None
    noise: Annotated[Share, Field(description="share of colours replaced at random in what the decoder reads")] = 0.0
    silent: Annotated[
        Literal["none", "decoder", "all"], Field(description="whose MLPs are left out of the model in this stage")
    ] = "none"
    output_heads: Annotated[
        Count | None, Field(description="only the first so many heads of the last cross-attention write in this stage")
    ] = None
    until: Annotated[
        Rate | None, Field(description="end the stage early once an epoch's training exact match reaches this")
    ] = None

    @model_validator(mode="after")
    def _draw_from_something(self) -> Stage:
        asks = self.questions.compositions + self.questions.primitives
        if self.episodes != "split" and not asks and not any(g.demonstrations[1] for g in self.grammars):
            raise ValueError("questions: only copies are asked, and no grammar has demonstrations to copy")
        return self


class Optimiser(Strict):
    """AdamW; without weight decay it is Adam."""

    betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] = (0.9, 0.95)
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    clip: Annotated[float | None, Field(gt=0, description="largest gradient norm")] = None


class Protocol(Strict):
    description: str = ""
    data_seed: Annotated[int, Field(ge=0, description="seed of the 10,000 / 500 / 2,000 episodes")] = 0
    model: ModelConfig = ModelConfig()
    optimiser: Optimiser = Optimiser()
    stages: Annotated[tuple[Stage, ...], AT_LEAST_ONE] = (Stage(),)

    @model_validator(mode="after")
    def _fits_the_model(self) -> Protocol:
        if any((stage.output_heads or 0) > self.model.heads for stage in self.stages):
            raise ValueError(f"output_heads: the model has {self.model.heads} heads")
        longest = max(g.longest for g in (PAPER, *(g for stage in self.stages for g in stage.grammars)))
        if longest > self.model.max_length:
            raise ValueError(f"model.max_length: must be {longest} at least, the longest prompt of a stage")
        return self
