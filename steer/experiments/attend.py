"""One head's attention on one episode, and the tokens on both axes."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from steer.anatomy.nodes import Node, Site
from steer.base.errors import SteerError
from steer.engine.engine import Engine
from steer.engine.session import Inputs, Session
from steer.measures.pattern import axis_tokens
from steer.models.checkpoint import Checkpoint
from steer.plan.plan import clean_plan
from steer.results.details import Pattern
from steer.tasks.task import Example


def choose_episode(checkpoint: Checkpoint, number: int | None, prompt: str | None) -> Example:
    """An example of the last split by its number, or one that the user typed."""
    if number is not None and prompt is not None:
        raise SteerError("give --episode or --prompt, not both")
    if prompt is not None:
        typed: Example = checkpoint.task.parse(prompt)
        if len(typed.prompt) > checkpoint.model.max_length:
            raise SteerError(f"prompt: {len(typed.prompt)} tokens, the model takes {checkpoint.model.max_length}")
        return typed
    split = checkpoint.task.splits[-1]
    episodes: Sequence[Example] = checkpoint.task.split(split, checkpoint.record.data_seed)
    if not 0 <= (number or 0) < len(episodes):
        raise SteerError(f"the {split} split has episodes 0 to {len(episodes) - 1:,}, not {number}")
    return episodes[number or 0]


@torch.no_grad()
def attention_pattern(checkpoint: Checkpoint, head: Node, episode: Example) -> Pattern:
    """A head's pattern while the model reads the prompt and writes its own answer."""
    written = next(checkpoint.answers([episode]))
    engine, site = Engine(checkpoint.model), Site(head, "pattern")
    (found,) = Session(engine, clean_plan([site]), Inputs([episode.answering(written)]))
    weights = found.values[site][0]
    queries, keys = axis_tokens(engine.layout, head, found.batch, 0, checkpoint.vocabulary)
    return Pattern(str(head), str(episode), written, queries, keys, plain_numbers(weights), expected=episode.answer)


def plain_numbers(weights: Tensor) -> tuple[tuple[float, ...], ...]:
    return tuple(map(tuple, weights.tolist()))
