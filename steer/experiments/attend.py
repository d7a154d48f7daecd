"""One head's attention on one episode, with the tokens it runs between."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from steer.anatomy.nodes import Node, Site
from steer.base.errors import SteerError
from steer.engine.engine import Engine
from steer.measures.marks import right_entries
from steer.measures.pattern import axis_tokens
from steer.models.checkpoint import Checkpoint
from steer.results.details import Pattern
from steer.tasks.task import Example


def choose_episode(checkpoint: Checkpoint, number: int | None, prompt: str | None) -> Example:
    """An example of the held-out split by its number, or one that was typed."""
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
    return attention_patterns(checkpoint, [head], episode)[0]


@torch.no_grad()
def attention_patterns(checkpoint: Checkpoint, heads: Sequence[Node], episode: Example) -> list[Pattern]:
    """The same for several heads, from one forward pass."""
    written = next(checkpoint.answers([episode]))
    engine = Engine(checkpoint.model)
    (batch,) = engine.batches([episode.answering(written)])
    values = engine.clean(batch, [Site(head, "pattern") for head in heads])
    patterns = []
    for head in heads:
        queries, keys = axis_tokens(engine.layout, head, batch, 0, checkpoint.vocabulary)
        weights, roles = plain_numbers(values[Site(head, "pattern")][0]), tuple(checkpoint.names.plays(head))
        patterns.append(
            Pattern(
                str(head), str(episode), written, queries, keys, weights, expected=episode.answer, roles=roles,
                right=right_entries(checkpoint.names, checkpoint.task, head, episode, batch, 0),
            )
        )  # fmt: skip
    return patterns


def plain_numbers(weights: Tensor) -> tuple[tuple[float, ...], ...]:
    return tuple(map(tuple, weights.tolist()))
