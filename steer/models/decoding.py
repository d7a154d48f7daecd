"""Greedy answers and how right they are."""

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
from steer.tasks.compositional.episode import Episode
from steer.tasks.compositional.vocabulary import EOS_ID, PAD_ID, SOS_ID, decode_answer

LONGEST = 6  # tokens of an answer, EOS included


@dataclass(frozen=True)
class Scores:
    """What was measured on each episode, in the order given."""

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
def greedy(model: Transformer, prompt: Tensor, longest: int = LONGEST) -> Tensor:
    """The model's own answers: token ids until EOS, padded."""
    memory = model.encode(prompt)
    return write_greedily(prompt, lambda output: model.decode(output, memory, prompt)[:, -1], longest)


def write_greedily(prompt: Tensor, next_logits: Callable[[Tensor], Tensor], longest: int = LONGEST) -> Tensor:
    """The most likely token is taken at each step and fed back, until EOS: B, at most `longest`."""
    output = prompt.new_full((len(prompt), 1), SOS_ID)
    done = torch.zeros(len(prompt), dtype=torch.bool, device=prompt.device)
    for _ in range(longest):
        step = next_logits(output).argmax(-1).masked_fill(done, PAD_ID)
        output = torch.cat([output, step[:, None]], dim=1)
        done |= step == EOS_ID
        if done.all():
            break
    return output[:, 1:]


def answers(model: Transformer, episodes: Sequence[Episode], batch: int = 250) -> Iterator[tuple[str, ...]]:
    """The model's answers as tokens, EOS and padding cut off."""
    device = model.unembed.weight.device
    for start in range(0, len(episodes), batch):
        prompt = torch.from_numpy(collate(episodes[start : start + batch]).prompt).to(device)
        for row in greedy(model, prompt).tolist():
            yield decode_answer(row)


@torch.no_grad()
def score(model: Transformer, batch: Batch) -> Scores:
    """Teacher-forced scores. Greedy decoding is right exactly when every teacher-forced choice is: up to the first
    mistake both see the same inputs."""
    device = model.unembed.weight.device
    prompt, output, target = (torch.from_numpy(a).to(device) for a in (batch.prompt, batch.output, batch.target))
    logits = model(prompt, output)
    real = target != PAD_ID
    hits = (logits.argmax(-1) == target) & real
    likelihood = -F.cross_entropy(logits.flatten(0, 1).double(), target.flatten(), reduction="none").view_as(real)
    return Scores(
        exact=(hits == real).all(-1).cpu().numpy(),
        token_hits=hits.sum(-1).cpu().numpy(),
        tokens=real.sum(-1).cpu().numpy(),
        log_likelihood=(likelihood * real).sum(-1).cpu().numpy(),
    )


def score_all(model: Transformer, episodes: Sequence[Episode], batch: int = 250) -> Scores:
    parts = [score(model, collate(episodes[i : i + batch])) for i in range(0, len(episodes), batch)]
    columns = ("exact", "token_hits", "tokens", "log_likelihood")
    return Scores(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in columns})
