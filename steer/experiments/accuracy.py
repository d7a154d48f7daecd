"""Exact match under greedy decoding, overall and by the kind of question."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from steer.models.decoding import answers, score_all
from steer.models.plain.transformer import Transformer
from steer.results.evaluation import Accuracy, GroupScore
from steer.results.intervals import wilson
from steer.tasks.compositional.episode import Episode
from steer.tasks.compositional.renaming import canonical
from steer.tasks.compositional.slices import SLICES

NEW = "new up to names"  # in no training episode, whatever its symbols and colours are called
ARITIES = {0: "bare primitives", 1: "one argument", 2: "two arguments"}


def accuracy(
    model: Transformer, episodes: Sequence[Episode], tell: Callable[[int], None] = lambda done: None,
    trained: Sequence[Episode] = (),
) -> Accuracy:  # fmt: skip
    """With the episodes that were `trained` on given, also on those that are not among them under other names."""
    given = []
    for answer in answers(model, episodes):
        given.append(answer)
        tell(len(given))
    right = np.array([answer == episode.answer for answer, episode in zip(given, episodes, strict=True)])
    forced = score_all(model, episodes)
    groups = [
        _score("all", right),
        *_by_arity(episodes, right),
        *(_new(episodes, right, trained) if trained else []),
        *_by_length(episodes, right),
    ]
    return Accuracy(
        len(episodes), float(right.mean()), wilson(int(right.sum()), len(right)), forced.token_accuracy,
        forced.perplexity, tuple(groups),
    )  # fmt: skip


def strict(
    model: Transformer, slices: Mapping[str, Sequence[Episode]], tell: Callable[[int], None] = lambda done: None
) -> list[GroupScore]:
    """Exact match on each slice of questions that must be composed, where its prompts fit into the model."""
    scores, done = [], 0
    for name, episodes in slices.items():
        score = GroupScore(SLICES[name].words, 0, slice=name)
        if max(len(episode.prompt) for episode in episodes) <= model.config.max_length:
            right = [given == episode.answer for given, episode in zip(answers(model, episodes), episodes, strict=True)]
            score = _score(SLICES[name].words, np.array(right), name)
        scores.append(score)
        done += len(episodes)
        tell(done)
    return scores


def _by_arity(episodes: Sequence[Episode], right: NDArray[np.bool_]) -> list[GroupScore]:
    counts = np.array([len(e.question.arguments) if e.question.function else 0 for e in episodes])
    return [_score(ARITIES[n], right[counts == n]) for n in np.unique(counts).tolist()]


def _new(episodes: Sequence[Episode], right: NDArray[np.bool_], trained: Sequence[Episode]) -> list[GroupScore]:
    """Those that training does not have under other names or in another order: all, and with two arguments."""
    seen = {canonical(episode) for episode in trained}
    new = np.array([canonical(episode) not in seen for episode in episodes])
    two = np.array([len(episode.question.arguments) == 2 for episode in episodes])
    groups = {NEW: new, f"{NEW}, {ARITIES[2]}": new & two}
    return [_score(name, right[rows]) for name, rows in groups.items() if rows.any()]


def _by_length(episodes: Sequence[Episode], right: NDArray[np.bool_]) -> list[GroupScore]:
    lengths = np.array([len(episode.answer) for episode in episodes])
    return [_score(f"{n} token{'s' * (n > 1)}", right[lengths == n]) for n in np.unique(lengths).tolist()]


def _score(group: str, right: NDArray[np.bool_], slice_: str = "") -> GroupScore:
    hits, total = int(right.sum()), len(right)
    return GroupScore(group, total, hits / total, wilson(hits, total), slice_)
