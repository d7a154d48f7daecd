"""Episodes as padded arrays of token ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from steer.tasks.compositional.vocabulary import EOS_ID, PAD_ID, SOS_ID, encode


@dataclass(frozen=True)
class Batch:
    prompt: NDArray[np.int64]  # B S
    output: NDArray[np.int64]  # B T: SOS, then the answer (what the decoder reads)
    target: NDArray[np.int64]  # B T: the answer, then EOS (what it should say)

    def __len__(self) -> int:
        return len(self.prompt)


class Shown(Protocol):
    """Anything with a prompt and an answer: an episode, or one that training has written in another way."""

    @property
    def prompt(self) -> tuple[str, ...]: ...
    @property
    def answer(self) -> tuple[str, ...]: ...


def collate(episodes: Sequence[Shown]) -> Batch:
    answers = [encode(episode.answer) for episode in episodes]
    prompt = _pad([encode(episode.prompt) for episode in episodes])
    return Batch(prompt, _pad([[SOS_ID, *a] for a in answers]), _pad([[*a, EOS_ID] for a in answers]))


def _pad(rows: list[list[int]]) -> NDArray[np.int64]:
    padded = np.full((len(rows), max(map(len, rows))), PAD_ID, dtype=np.int64)
    for row, ids in zip(padded, rows, strict=True):
        row[: len(ids)] = ids
    return padded
