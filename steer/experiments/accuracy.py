"""Exact match under greedy decoding, overall and by the kind of question."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steer.models.decoding import answers, score_all
from steer.models.plain.transformer import Transformer
from steer.results.intervals import wilson
from steer.tasks.compositional.episode import Episode
from steer.tasks.compositional.renaming import canonical
from steer.tasks.compositional.slices import SLICES

NEW = "new up to names"  # in no training episode, whatever its symbols and colours are called
ARITIES = {0: "bare primitives", 1: "one argument", 2: "two arguments"}


def accuracy(
    model: Transformer, episodes: Sequence[Episode], tell: Callable[[int], None] = lambda done: None,
    trained: Sequence[Episode] = (),
) -> dict[str, Any]:  # fmt: skip
    """With the episodes that were `trained` on given, also on those that are not among them under other names."""
    given = []
    for answer in answers(model, episodes):
        given.append(answer)
        tell(len(given))
    right = np.array([answer == episode.answer for answer, episode in zip(given, episodes, strict=True)])
    forced = score_all(model, episodes)
    return {
        "episodes": len(episodes),
        "exact_match": float(right.mean()),
        "interval": wilson(int(right.sum()), len(right)),
        "token_accuracy": forced.token_accuracy,
        "perplexity": forced.perplexity,
        "decoding": "greedy",
        "groups": [
            _row("all", right),
            *_by_arity(episodes, right),
            *(_new(episodes, right, trained) if trained else []),
            *_by_length(episodes, right),
        ],
    }


def strict(
    model: Transformer, slices: Mapping[str, Sequence[Episode]], tell: Callable[[int], None] = lambda done: None
) -> list[dict[str, Any]]:
    """Exact match on each slice of questions that must be composed, where its prompts fit into the model."""
    rows, done = [], 0
    for name, episodes in slices.items():
        row: dict[str, Any] = {"group": SLICES[name].words, "episodes": 0}
        if max(len(episode.prompt) for episode in episodes) <= model.config.max_length:
            right = [given == episode.answer for given, episode in zip(answers(model, episodes), episodes, strict=True)]
            row = _row(SLICES[name].words, np.array(right))
        rows.append({"slice": name} | row)
        done += len(episodes)
        tell(done)
    return rows


def _by_arity(episodes: Sequence[Episode], right: NDArray[np.bool_]) -> list[dict[str, Any]]:
    counts = np.array([len(e.question.arguments) if e.question.function else 0 for e in episodes])
    return [_row(ARITIES[n], right[counts == n]) for n in np.unique(counts).tolist()]


def _new(episodes: Sequence[Episode], right: NDArray[np.bool_], trained: Sequence[Episode]) -> list[dict[str, Any]]:
    """Those that training does not have under other names or in another order: all, and with two arguments."""
    seen = {canonical(episode) for episode in trained}
    new = np.array([canonical(episode) not in seen for episode in episodes])
    two = np.array([len(episode.question.arguments) == 2 for episode in episodes])
    groups = {NEW: new, f"{NEW}, {ARITIES[2]}": new & two}
    return [_row(name, right[rows]) for name, rows in groups.items() if rows.any()]


def _by_length(episodes: Sequence[Episode], right: NDArray[np.bool_]) -> list[dict[str, Any]]:
    lengths = np.array([len(episode.answer) for episode in episodes])
    return [_row(f"{n} token{'s' * (n > 1)}", right[lengths == n]) for n in np.unique(lengths).tolist()]


def _row(group: str, right: NDArray[np.bool_]) -> dict[str, Any]:
    hits, total = int(right.sum()), len(right)
    return {"group": group, "episodes": total, "exact_match": hits / total, "interval": wilson(hits, total)}
