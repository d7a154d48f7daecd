"""Exact match under greedy decoding, overall and by the kind of question."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from steer.models.checkpoint import Checkpoint
from steer.models.decoding import score_all
from steer.results.evaluation import Accuracy, GroupScore
from steer.results.intervals import wilson
from steer.tasks.task import Example, Slice


def accuracy(
    checkpoint: Checkpoint, episodes: Sequence[Example], tell: Callable[[int], None] = lambda done: None,
    trained: Sequence[Example] = (),
) -> Accuracy:  # fmt: skip
    """Scores of a checkpoint. `trained`: examples it was trained on, so that the task can report on new ones."""
    given = []
    for answer in checkpoint.answers(episodes):
        given.append(answer)
        tell(len(given))
    right = np.array([answer == episode.answer for answer, episode in zip(given, episodes, strict=True)])
    forced = score_all(checkpoint.transformer, episodes, checkpoint.vocabulary)
    named = checkpoint.task.groups(episodes, trained)
    groups = [
        _score("all", right),
        *(_score(name, right[np.array(rows)]) for name, rows in named.items()),
        *_by_length(episodes, right),
    ]
    return Accuracy(
        len(episodes), float(right.mean()), wilson(int(right.sum()), len(right)), forced.token_accuracy,
        forced.perplexity, tuple(groups),
    )  # fmt: skip


def strict(
    checkpoint: Checkpoint, slices: Mapping[str, Slice], tell: Callable[[int], None] = lambda done: None
) -> list[GroupScore]:
    """Exact match on each slice of the task, where its prompts fit into the model."""
    scores, done = [], 0
    for name, part in slices.items():
        score = GroupScore(part.words, 0, slice=name)
        if max(len(episode.prompt) for episode in part.examples) <= checkpoint.model.max_length:
            given = checkpoint.answers(part.examples)
            right = [answer == episode.answer for answer, episode in zip(given, part.examples, strict=True)]
            score = _score(part.words, np.array(right), name)
        scores.append(score)
        done += len(part.examples)
        tell(done)
    return scores


def _by_length(episodes: Sequence[Example], right: NDArray[np.bool_]) -> list[GroupScore]:
    lengths = np.array([len(episode.answer) for episode in episodes])
    return [_score(f"{n} token{'s' * (n > 1)}", right[lengths == n]) for n in np.unique(lengths).tolist()]


def _score(group: str, right: NDArray[np.bool_], slice_: str = "") -> GroupScore:
    hits, total = int(right.sum()), len(right)
    return GroupScore(group, total, hits / total, wilson(hits, total), slice_)
