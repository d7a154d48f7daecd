"""Greedy answers and their scores."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from steer.models.batch import Batch, collate
from steer.models.plain.transformer import Transformer
from steer.models.vocabulary import Vocabulary
from steer.tasks.task import Example


@dataclass(frozen=True)
class Scores:
    """What was measured on each example, in the order given."""

    exact: NDArray[np.bool_]
    token_hits: NDArray[np.int64]
    tokens: NDArray[np.int64]
    log_likelihood: NDArray[np.float64]

    @property
    def perplexity(self) -> float:
        return math.exp(-self.log_likelihood.sum() / self.tokens.sum())

    @property
    def token_accuracy(self) -> float:
        return float(self.token_hits.sum() / self.tokens.sum())


@torch.no_grad()
def greedy(model: Transformer, prompt: Tensor, vocabulary: Vocabulary, longest: int) -> Tensor:
    """The model's own answers: token ids until the end token, padded."""
    memory = model.encode(prompt)
    return write_greedily(prompt, lambda output: model.decode(output, memory, prompt)[:, -1], vocabulary, longest)


def write_greedily(
    prompt: Tensor, next_logits: Callable[[Tensor], Tensor], vocabulary: Vocabulary, longest: int
) -> Tensor:
    """The most likely token is taken at each step and fed back, until the end token: B, at most `longest` + 1."""
    output = prompt.new_full((len(prompt), 1), vocabulary.start)
    done = torch.zeros(len(prompt), dtype=torch.bool, device=prompt.device)
    for _ in range(longest + 1):  # the end is a step too
        step = next_logits(output).argmax(-1).masked_fill(done, vocabulary.pad)
        output = torch.cat([output, step[:, None]], dim=1)
        done |= step == vocabulary.end
        if done.all():
            break
    return output[:, 1:]


def answers(
    model: Transformer, examples: Sequence[Example], vocabulary: Vocabulary, longest: int, batch: int = 250
) -> Iterator[tuple[str, ...]]:
    """The model's answers as tokens, end and padding cut off."""
    device = model.unembed.weight.device
    for start in range(0, len(examples), batch):
        prompt = torch.from_numpy(collate(examples[start : start + batch], vocabulary).prompt).to(device)
        for row in greedy(model, prompt, vocabulary, longest).tolist():
            yield vocabulary.decode_answer(row)


@torch.no_grad()
def score(model: Transformer, batch: Batch, pad: int) -> Scores:
    """Teacher-forced scores. Greedy decoding is right exactly when every teacher-forced choice is: up to the first
    mistake both see the same inputs."""
    device = model.unembed.weight.device
    prompt, output, target = (torch.from_numpy(a).to(device) for a in (batch.prompt, batch.output, batch.target))
    logits = model(prompt, output)
    real = target != pad
    hits = (logits.argmax(-1) == target) & real
    likelihood = -F.cross_entropy(logits.flatten(0, 1).double(), target.flatten(), reduction="none").view_as(real)
    return Scores(
        exact=(hits == real).all(-1).cpu().numpy(),
        token_hits=hits.sum(-1).cpu().numpy(),
        tokens=real.sum(-1).cpu().numpy(),
        log_likelihood=(likelihood * real).sum(-1).cpu().numpy(),
    )


def score_all(model: Transformer, examples: Sequence[Example], vocabulary: Vocabulary, batch: int = 250) -> Scores:
    starts = range(0, len(examples), batch)
    parts = [score(model, collate(examples[i : i + batch], vocabulary), vocabulary.pad) for i in starts]
    columns = ("exact", "token_hits", "tokens", "log_likelihood")
    return Scores(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in columns})
