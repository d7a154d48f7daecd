"""Examples as a Hugging Face model takes them: token ids, real places, and where each of the task's places is.

An encoder-decoder reads the prompt, framed as its tokenizer frames texts, and is given the answer behind its start
token. A decoder reads one sequence: the prompt, and the answer behind it. Padding stands behind a row's own tokens in
both (BART and Marian count positions from the left whatever is padding), and what is real is known by length, not by
token: T5 starts its answers with the padding token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import pad

from steer.anatomy.layout import Layout
from steer.models.protocol import Batch
from steer.models.vocabulary import Vocabulary
from steer.tasks.task import ANSWER, PROMPT, Example


@dataclass(frozen=True)
class Frame:
    """A model's tokens by name, and those that stand around a text."""

    vocabulary: Vocabulary
    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()

    @property
    def opening(self) -> tuple[int, ...]:
        """What an encoder-decoder's answers begin with: the start, then what stands before every text."""
        return (self.vocabulary.start, *self.before)


def encode(frame: Frame, layout: Layout, examples: Sequence[Example], rows: list[int], number: int) -> Batch:
    words = frame.vocabulary
    prompts = [words.encode(examples[row].prompt) for row in rows]
    said = [words.encode(examples[row].answer) for row in rows]
    closing = [] if words.end is None else [words.end]
    right = [[*answer, *closing] for answer in said]
    fed = [answer[: max(len(due) - 1, 0)] for answer, due in zip(said, right, strict=True)]
    target = _padded(right, words.pad)[0]
    made = _one if layout.prompt == layout.answer else _two
    return made(frame, layout, Batch(number, rows, {}, {}, target), prompts, fed)


def _two(frame: Frame, layout: Layout, bare: Batch, prompts: list[list[int]], fed: list[list[int]]) -> Batch:
    """A sequence each for prompt and answer."""
    fill, opening = frame.vocabulary.pad, frame.opening
    made = {
        layout.prompt: _padded([[*frame.before, *prompt, *frame.after] for prompt in prompts], fill),
        layout.answer: _padded([[*opening, *answer] for answer in fed], fill),
    }
    steps = len(opening) - 1 + torch.arange(bare.target.shape[1]).expand(len(prompts), -1)
    places = {PROMPT: _prompt_places(frame, prompts), ANSWER: steps}
    return replace(
        bare, tokens={k: v[0] for k, v in made.items()}, real={k: v[1] for k, v in made.items()}, places=places
    )


def _one(frame: Frame, layout: Layout, bare: Batch, prompts: list[list[int]], fed: list[list[int]]) -> Batch:
    """One sequence: step 0 of the answer is read at the prompt's last token."""
    before, steps = len(frame.before), max(bare.target.shape[1], 1)
    width = before + max(map(len, prompts)) + steps - 1
    texts = [[*frame.before, *prompt, *answer] for prompt, answer in zip(prompts, fed, strict=True)]
    tokens, real = _padded(texts, frame.vocabulary.pad, width)
    firsts = torch.tensor([before + len(prompt) - 1 for prompt in prompts])
    places = {PROMPT: _prompt_places(frame, prompts), ANSWER: firsts[:, None] + torch.arange(steps)}
    return replace(bare, tokens={layout.answer: tokens}, real={layout.answer: real}, places=places)


def _prompt_places(frame: Frame, prompts: list[list[int]]) -> Tensor:
    return len(frame.before) + torch.arange(max(map(len, prompts))).expand(len(prompts), -1)


def _padded(rows: list[list[int]], fill: int, width: int = 0) -> tuple[Tensor, Tensor]:
    width = max(width, *map(len, rows))
    tokens = torch.tensor([[*row, *[fill] * (width - len(row))] for row in rows], dtype=torch.long)
    lengths = torch.tensor([len(row) for row in rows])
    return tokens, torch.arange(width) < lengths[:, None]


def moved(batch: Batch, device: torch.device) -> Batch:
    """The same batch on another device."""
    parts = ({k: v.to(device) for k, v in part.items()} for part in (batch.tokens, batch.real, batch.places))
    tokens, real, places = parts
    return replace(batch, tokens=tokens, real=real, places=places, target=batch.target.to(device))


def unanswered(frame: Frame, layout: Layout, batch: Batch) -> Batch:
    """With nothing said yet."""
    answer, first = layout.answer, batch.places[ANSWER][:, :1]
    width = int(first.max()) + 1
    tokens, real = batch.tokens[answer][:, :width], batch.real[answer][:, :width]
    behind = torch.arange(width, device=tokens.device) > first
    return _saying(batch, layout, tokens.masked_fill(behind, frame.vocabulary.pad), real & ~behind, first)


def answered(frame: Frame, layout: Layout, batch: Batch, said: Tensor) -> Batch:
    """With these tokens said too. What is said behind an answer's end is padding."""
    answer, steps, words = layout.answer, batch.places[ANSWER], frame.vocabulary
    after = steps[:, -1:] + 1
    missing = max(0, int(after.max()) + 1 - batch.tokens[answer].shape[1])
    tokens = pad(batch.tokens[answer], (0, missing), value=words.pad)
    real = pad(batch.real[answer], (0, missing), value=False)
    before = tokens.gather(1, steps[:, 1:])  # what was said so far
    over = (before == words.end).any(1) if words.end is not None else torch.zeros_like(said, dtype=torch.bool)
    tokens, real = tokens.scatter(1, after, said[:, None]), real.scatter(1, after, ~over[:, None])
    return _saying(batch, layout, tokens, real, torch.cat([steps, after], dim=1))


def _saying(batch: Batch, layout: Layout, tokens: Tensor, real: Tensor, steps: Tensor) -> Batch:
    return replace(
        batch,
        tokens={**batch.tokens, layout.answer: tokens},
        real={**batch.real, layout.answer: real},
        places={**batch.places, ANSWER: steps},
    )
