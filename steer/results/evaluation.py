"""Exact match of a checkpoint, overall and by group."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from steer.base.json import Json
from steer.base.shown import Card, Shown


@dataclass(frozen=True)
class GroupScore:
    """Exact match on one group of episodes; None if its prompts are too long for the model."""

    group: str
    episodes: int
    exact_match: float | None = None
    interval: tuple[float, float] | None = None
    slice: str = ""  # the name of the task's slice, if the group is one


@dataclass(frozen=True)
class Accuracy:
    """Scores on one set of episodes: exact match of the model's own answers; the rest given the right tokens before."""

    episodes: int
    exact_match: float
    interval: tuple[float, float]
    token_accuracy: float
    perplexity: float
    groups: tuple[GroupScore, ...]
    decoding: str = "greedy"

    def to_json(self) -> Json:
        return asdict(self)


@dataclass(frozen=True, repr=False)
class Evaluation(Shown):
    """A checkpoint's accuracy on a split, and on the slices of its task."""

    checkpoint: str
    split: str
    strict: tuple[GroupScore, ...]
    accuracy: Accuracy
    strict_title: str = ""  # what the slices are, in the task's words
    folder: str = ""  # where the episodes were read from, unless they are a split of the task

    def card(self) -> Card:
        scores = [score for score in (*self.strict, *self.accuracy.groups) if score.exact_match is not None]
        rows = [(score.group, f"{score.episodes:,}", f"{score.exact_match:.1%}") for score in scores]
        return Card(f"exact match of {self.checkpoint}, greedy decoding", (), ("", "episodes", "exact match"), rows)

    @property
    def title(self) -> str:
        return f"the episodes of {self.folder}" if self.folder else f"the {self.split} split"

    def to_json(self) -> Json:
        strict = [asdict(score) for score in self.strict]
        return {
            "checkpoint": self.checkpoint,
            "split": self.split,
            **({"folder": self.folder} if self.folder else {}),
            "strict": strict,
            "strict_title": self.strict_title,
            **self.accuracy.to_json(),
        }
