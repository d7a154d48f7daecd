"""One head's attention on one episode, and the tokens on both axes."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from steer.anatomy.nodes import Node, Site
from steer.base.errors import SteerError
from steer.engine.engine import Engine
from steer.engine.session import Inputs, Session
from steer.measures.marks import right_entries
from steer.measures.pattern import axis_tokens
from steer.models.greedy import write_answers
from steer.models.subject import Subject
from steer.plan.plan import clean_plan
from steer.results.details import Pattern
from steer.tasks.task import Example


def choose_episode(subject: Subject, number: int | None, prompt: str | None) -> Example:
    """An example by its number, of the held-out split or of the file of prompts, or one that the user typed."""
    if number is not None and prompt is not None:
        raise SteerError("give --episode or --prompt, not both")
    task = subject.task
    if prompt is not None:
        typed: Example = task.parse(prompt)
        if len(typed.prompt) > subject.model.max_length:
            raise SteerError(f"prompt: {len(typed.prompt)} tokens, the model takes {subject.model.max_length}")
        return typed
    split = task.splits[0] if task.source else task.splits[-1]
    episodes: Sequence[Example] = task.split(split, subject.data_seed)
    if not 0 <= (number or 0) < len(episodes):
        where = str(task.source) if task.source else f"the {split} split"
        raise SteerError(f"{where} has episodes 0 to {len(episodes) - 1:,}, not {number}")
    return episodes[number or 0]


@torch.no_grad()
def attention_pattern(subject: Subject, head: Node, episode: Example, engine: Engine | None = None) -> Pattern:
    """A head's pattern while the model reads the prompt and writes its own answer."""
    return attention_patterns(subject, [head], episode, engine)[0]


@torch.no_grad()
def attention_patterns(
    subject: Subject, heads: Sequence[Node], episode: Example, engine: Engine | None = None
) -> list[Pattern]:
    """The same for several heads, from one forward pass."""
    engine, sites = engine or Engine(subject.model), [Site(head, "pattern") for head in heads]
    subject.examine([episode])
    written = answer_of(subject, engine, episode)
    (ran,) = Session(engine, clean_plan(sites), Inputs([episode.answering(written)]))
    patterns = []
    for head, site in zip(heads, sites, strict=True):
        queries, keys = axis_tokens(engine.layout, head, ran.batch, 0, subject.scoring.vocabulary)
        right = right_entries(subject.names, subject.task, head, episode, ran.batch, 0)
        patterns.append(
            Pattern(
                str(head), str(episode), written, queries, keys, plain_numbers(ran.values[site][0]),
                expected=episode.answer, roles=tuple(subject.names.plays(head)), right=right,
            )
        )  # fmt: skip
    return patterns


def answer_of(subject: Subject, engine: Engine, episode: Example) -> tuple[str, ...]:
    """The model's own answer; of a prompt whose answer nobody knows, the next token."""
    (batch,) = engine.batches([episode])
    logits, longest = engine.steps.hook(engine.layout.logits), max(len(episode.answer), subject.task.longest_answer)
    steps = longest + (engine.model.end is not None)  # the end is a step too
    written = write_answers(engine.model, batch, lambda now: engine.hooks(now, [logits])[logits], max(steps, 1))
    return subject.scoring.vocabulary.decode_answer(written[0].tolist())


def plain_numbers(weights: Tensor) -> tuple[tuple[float, ...], ...]:
    return tuple(map(tuple, weights.tolist()))
