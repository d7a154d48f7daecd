"""Accuracy of a checkpoint on the held-out episodes: `steer eval` from Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from steer.base.shipped import DEFAULT
from steer.experiments.given import CheckpointLike, check_split, checkpoint_of
from steer.results.evaluation import Evaluation

if TYPE_CHECKING:
    from steer.models.checkpoint import Checkpoint
    from steer.tasks.task import Example, Slice


def evaluate(
    checkpoint: CheckpointLike = DEFAULT, *, split: str = "test", episodes: Path | str | None = None,
    device: str = "cpu", tell: Callable[[int, int], None] = lambda done, total: None,
) -> Evaluation:  # fmt: skip
    """Exact match under greedy decoding: on questions that must be composed, then on a split by kind of question.

    `episodes`: a folder of episode files instead of a split, where the task reads such.
    """
    from steer.experiments import accuracy as scoring

    loaded = checkpoint_of(checkpoint, device)
    check_split(split, loaded.task)
    shown = _shown_of_folder(loaded, Path(episodes)) if episodes else _shown_of_split(loaded, split)
    strictly = sum(len(part.examples) for part in shown.slices.values())
    total = strictly + len(shown.episodes)
    scores = scoring.strict(loaded, shown.slices, lambda done: tell(done, total))
    result = scoring.accuracy(loaded, shown.episodes, lambda done: tell(strictly + done, total), shown.trained)
    return Evaluation(loaded.name, shown.name, tuple(scores), result, loaded.task.words.slices, shown.folder)


@dataclass(frozen=True)
class Shown:
    """What a model is evaluated on."""

    name: str
    episodes: Sequence[Example]
    trained: Sequence[Example] = ()  # what it was trained on, to tell what is new
    slices: Mapping[str, Slice] = field(default_factory=dict)
    folder: str = ""  # that they were read from; empty: a split of the task


def _shown_of_folder(loaded: Checkpoint, folder: Path) -> Shown:
    from steer.experiments.examples import check_lengths

    episodes = loaded.task.read(folder)
    check_lengths(episodes, loaded)
    return Shown(folder.resolve().name, episodes, folder=str(folder))


def _shown_of_split(loaded: Checkpoint, split: str) -> Shown:
    task, seed = loaded.task, loaded.record.data_seed
    trained_on, *_, held_out = task.splits
    trained = () if split == trained_on else task.split(trained_on, seed)
    slices = task.slices(seed) if split == held_out else {}
    return Shown(split, task.split(split, seed), trained, slices)
