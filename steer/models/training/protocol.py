"""A training protocol as data: what a preset file may say.

A protocol is a model, an optimiser and a list of stages. A stage says which examples are shown (the task's own keys)
and how the learning rate changes. Everything that a training study varies is a key, so a study is a list of commands.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import Field, create_model, model_validator
from typing_extensions import Self

from steer.base.shipped import DEFAULT_TASK
from steer.base.yaml import AT_LEAST_ONE, Strict
from steer.models.plain.config import ModelConfig
from steer.tasks.task import Lesson, Task

Count = Annotated[int, Field(ge=1)]
Rate = Annotated[float, Field(gt=0, le=1)]
Share = Annotated[float, Field(ge=0, le=1)]


class Stage(Lesson):
    """One stage; `protocol_for` adds the keys of a task's lesson."""

    name: str = "main"
    epochs: Count = 50
    warmup: Annotated[float, Field(ge=0, description="epochs of linear warm-up at the stage's start")] = 0.0
    lr: Annotated[tuple[Rate, Rate], Field(description="learning rate at the stage's start and end")] = (1e-3, 5e-5)
    dropout: Annotated[float | None, Field(ge=0, le=0.9, description="the model's own rate unless given")] = None
    noise: Annotated[
        Share, Field(description="share of the scored tokens in the decoder's input that are replaced at random")
    ] = 0.0
    silent: Annotated[
        Literal["none", "decoder", "all"], Field(description="whose MLPs are left out of the model in this stage")
    ] = "none"
    output_heads: Annotated[
        Count | None,
        Field(description="how many heads of the last cross-attention, from the first, write in this stage"),
    ] = None
    until: Annotated[
        Rate | None, Field(description="end the stage early once an epoch's training exact match reaches this")
    ] = None


class Optimiser(Strict):
    """AdamW; without weight decay it is Adam."""

    betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] = (0.9, 0.95)
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    clip: Annotated[float | None, Field(gt=0, description="largest gradient norm")] = None


class Protocol(Strict):
    """A whole training run. `protocol_for` gives its stages the keys of one task."""

    description: str = ""
    # For `steer ls`; no part of what is trained, and so of no record.
    cost: Annotated[str, Field(exclude=True, description="what training by it takes")] = ""
    learns: Annotated[str, Field(exclude=True, description="what comes of it")] = ""
    task: str = DEFAULT_TASK
    data_seed: Annotated[int, Field(ge=0, description="seed of the task's fixed sets of examples")] = 0
    model: ModelConfig = ModelConfig()
    optimiser: Optimiser = Optimiser()
    stages: Annotated[tuple[Stage, ...], AT_LEAST_ONE] = (Stage(),)

    @model_validator(mode="after")
    def _fits_the_model(self) -> Self:
        if any((stage.output_heads or 0) > self.model.heads for stage in self.stages):
            raise ValueError(f"output_heads: the model has {self.model.heads} heads")
        longest = max(stage.longest_prompt for stage in self.stages)
        if longest > self.model.max_length:
            raise ValueError(f"model.max_length: must be {longest} at least, the longest prompt of a stage")
        return self


@lru_cache(maxsize=8)
def stage_for(task: Task) -> type[Any]:
    """A stage with the task's own keys."""
    return create_model("Stage", __base__=(Stage, task.lesson))


@lru_cache(maxsize=8)
def protocol_for(task: Task) -> type[Any]:
    stage = stage_for(task)
    stages = Annotated[tuple[stage, ...], AT_LEAST_ONE]  # type: ignore[valid-type]
    return create_model("Protocol", __base__=Protocol, stages=(stages, (stage(),)))
