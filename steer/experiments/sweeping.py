"""A recipe at every point of its sweep, as one result: rows with a column for each key that is swept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from steer.base.errors import keyed
from steer.base.memory import MEMORY
from steer.base.version import __version__
from steer.engine.engine import Engine
from steer.experiments import one
from steer.models.families import load_subject
from steer.recipe.load import Loaded
from steer.results.directions import filed
from steer.results.provenance import Provenance, Weights
from steer.results.result import Result, content_hash

if TYPE_CHECKING:
    from steer.models.subject import Subject

Tell = Callable[[float], None]


def question_hash(loaded: Loaded, subject: Subject, memory: int = MEMORY) -> str:
    """The experiment's hash; of a sweep, that of all its points."""
    if not loaded.points:
        return one.experiment_hash(loaded.recipe, subject, loaded.folder, memory)
    return sweep_hash(
        loaded,
        (
            one.experiment_hash(point.recipe, subject_at(point, loaded, subject), point.folder, memory)
            for _, point in loaded.points
        ),
    )


def sweep_hash(loaded: Loaded, hashes: Iterable[str]) -> str:
    """From those of its points, in their order."""
    points = [[levels, content] for (levels, _), content in zip(loaded.points, hashes, strict=True)]
    return content_hash({"sweep": points}, "", __version__, {})


def run_question(
    loaded: Loaded, subject: Subject, tell: Tell = lambda done: None, engine: Engine | None = None, content: str = ""
) -> Result:
    """A recipe, or every point of its sweep, on a checkpoint."""
    if not loaded.points:
        return one.run_experiment(loaded, subject, tell, engine, content)
    memory, results = engine.memory if engine else MEMORY, []
    engine = engine or Engine(subject.model)
    for number, (_, point) in enumerate(loaded.points):

        def report(done: float, number: int = number) -> None:
            tell((number + done) / len(loaded.points))

        mine = subject_at(point, loaded, subject)
        here = engine if mine is subject else Engine(mine.model, memory // 4, memory)
        results.append(one.run_experiment(point, mine, report, here))
    return together(loaded, results, content or question_hash(loaded, subject, memory))


def subject_at(point: Loaded, loaded: Loaded, subject: Subject) -> Subject:
    """The checkpoint of a point: the one at hand, unless the sweep goes from checkpoint to checkpoint."""
    if point.recipe.checkpoint == loaded.recipe.checkpoint:
        return subject
    like = subject.model.like
    with loaded.placing(), keyed("sweep", "checkpoint"):
        return load_subject(point.recipe.checkpoint, str(like.device), str(like.dtype).removeprefix("torch."))


def together(loaded: Loaded, results: Sequence[Result], content: str) -> Result:
    """One result of the points' rows and subspaces. What figures need beyond rows is of single points, and left out."""
    rows = [
        replace(row, levels=(*levels, *row.levels))
        for (levels, _), result in zip(loaded.points, results, strict=True)
        for row in result.rows
    ]
    subspaces = {
        "_".join([*(f"{key}_{value}" for key, value in levels), name]): subspace
        for (levels, _), result in zip(loaded.points, results, strict=True)
        for name, subspace in result.subspaces.items()
    }
    return Result(_provenance([result.provenance for result in results], content), rows, subspaces=filed(subspaces))


def _provenance(origins: list[Provenance], content: str) -> Provenance:
    first = origins[0]
    seen = list({origin.checkpoint.identity: origin.checkpoint for origin in origins}.values())
    weights = (
        seen[0] if len(seen) == 1 else Weights(", ".join(one.name for one in seen), "".join(w.sha256 for w in seen))
    )
    return replace(
        first, hash=content, checkpoint=weights, edited={}, examples=min(origin.examples for origin in origins),
        forwards=sum(origin.forwards for origin in origins), seconds=round(sum(o.seconds for o in origins), 2),
        roles=first.roles if len(seen) == 1 else {},
    )  # fmt: skip
