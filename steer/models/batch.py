"""Examples as padded arrays of token ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steer.models.vocabulary import Vocabulary
from steer.tasks.task import Example


@dataclass(frozen=True)
class Batch:
    prompt: NDArray[np.int64]  # B S
    output: NDArray[np.int64]  # B T: the start token, then the answer (what the decoder reads)
    target: NDArray[np.int64]  # B T: the answer, then the end token (what it should say)

    def __len__(self) -> int:
        return len(self.prompt)


def collate(examples: Sequence[Example], vocabulary: Vocabulary) -> Batch:
    answers = [vocabulary.encode(example.answer) for example in examples]
    closing = [] if vocabulary.end is None else [vocabulary.end]
    return Batch(
        prompt=_pad([vocabulary.encode(example.prompt) for example in examples], vocabulary.pad),
        output=_pad([[vocabulary.start, *answer] for answer in answers], vocabulary.pad),
        target=_pad([[*answer, *closing] for answer in answers], vocabulary.pad),
    )


def _pad(rows: list[list[int]], pad: int) -> NDArray[np.int64]:
    padded = np.full((len(rows), max(map(len, rows))), pad, dtype=np.int64)
    for row, ids in zip(padded, rows, strict=True):
        row[: len(ids)] = ids
    return padded
