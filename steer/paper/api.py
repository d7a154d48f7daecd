"""The verbs that know the paper: `reproduce`, and `renumber`, which may give heads the paper's numbers."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from steer.base.errors import SteerError, unknown
from steer.base.memory import MEMORY
from steer.base.shipped import DEFAULT
from steer.experiments.folders import check_empty, results_folder
from steer.experiments.given import CheckpointLike, checkpoint_of, name_of
from steer.models.families import names_of
from steer.paper.numbers import PAPER_HEADS

if TYPE_CHECKING:
    from steer.experiments.renumber import Numbering
    from steer.models.checkpoint import Checkpoint
    from steer.paper.reproduce import Reproduction

PAPER, TRAINED = "paper", "trained"
QUESTIONS = "episodes."  # the key whose values say which questions are asked
FEWEST = 10  # episodes of a quick look


def reproduce(
    checkpoint: CheckpointLike = DEFAULT, *changes: str, out: Path | str | None = None, device: str = "cpu",
    episodes: int | None = None, against: str = PAPER, force: bool = False,
    tell: Callable[[float, str], None] = lambda done, name: None, jobs: int | None = 1,
    workers: int | None = None, on: str | None = None, say: Callable[[str], None] = lambda text: None,
) -> Reproduction:  # fmt: skip
    """Every figure and claim of the paper on a checkpoint, written to a folder with an index page.

    `changes`: other questions (`episodes.split=strict`). `episodes`: the most for each recipe, for a quick look.
    `against`: `paper`, or `authors` for the numbers of their notebooks. `jobs`, `workers`, `on`: as
    `run_many` has them.
    """
    from steer.base.files import make_folder
    from steer.experiments.cluster import opened
    from steer.experiments.many import interrupted
    from steer.experiments.pool import Pool
    from steer.experiments.processes import check_jobs, fitting
    from steer.paper import reproduce as reproducing
    from steer.recipe.load import load_recipe
    from steer.results.files import RESULT

    if episodes is not None and episodes < FEWEST:
        raise SteerError(f"--episodes: {FEWEST} at least, not {episodes}")
    if against not in reproducing.AGAINST:
        raise SteerError(f"--against: {unknown('table of claims', str(against), list(reproducing.AGAINST))}")
    compared = reproducing.AGAINST[against]
    loaded = checkpoint_of(checkpoint, device)
    _check_questions(changes)
    if changes:  # a value that no recipe takes
        load_recipe(str(compared.recipes()[0]), *changes, task=loaded.task)
    more = [] if against == PAPER else [against]
    words = [re.sub(r"[^\w.-]+", "-", change.removeprefix(QUESTIONS)).strip("-") for change in changes]
    folder = Path(out) if out is not None else results_folder("reproduce", name_of(checkpoint), *more, *words)
    make_folder(folder)
    check_jobs(jobs, workers, on)
    named = isinstance(checkpoint, str | Path)  # an object is in this process alone
    jobs = 1 if not named else jobs or fitting(len(compared.recipes()), device, MEMORY)
    try:
        with opened(workers, on, say) as cluster:
            taken = cluster or (Pool(jobs) if jobs > 1 else None)
            return reproducing.reproduce(
                loaded, folder, tell, episodes, force, compared, taken, name_of(checkpoint), changes
            )
    except KeyboardInterrupt as error:
        kept = len(list(folder.glob(f"*/{RESULT}")))
        raise interrupted(kept, len(compared.recipes())) from error


def _check_questions(changes: Sequence[str]) -> None:
    """A claim is judged by its recipe: only the questions that are asked may be others."""
    faults = [
        f"{change!r}: reproduce changes which questions are asked ({QUESTIONS}KEY=VALUE) and nothing else of a recipe"
        for change in changes
        if not change.startswith(QUESTIONS) or "=" not in change
    ]
    if faults:
        raise SteerError(*faults)


@dataclass(frozen=True)
class Renumbered:
    """A checkpoint whose heads have other numbers: where it is, whose numbers they are, and which head became which."""

    folder: Path
    title: str
    numbering: Numbering


def renumber(out: Path | str, checkpoint: CheckpointLike = DEFAULT, *, like: str = PAPER) -> Renumbered:
    """Give heads other numbers, by their roles; the model computes the same, and its circuit follows.

    `like`: `paper` (roles get the paper's numbers), `trained` (undo), or another checkpoint.
    """
    from steer.experiments.renumber import renumber as renumbered
    from steer.models.checkpoint import save_checkpoint
    from steer.results.circuit import write_circuit

    folder = Path(out)
    check_empty(folder)
    loaded = checkpoint_of(checkpoint)
    numbering, whose = _numbering(loaded, like)
    made = renumbered(loaded, numbering, whose, folder.resolve().name)
    save_checkpoint(folder, made.model, made.record)
    if made.circuit is not None:
        write_circuit(made.circuit, folder)
    return Renumbered(folder, made.record.numbering or "heads numbered as trained", numbering)


def _numbering(loaded: Checkpoint, like: str) -> tuple[Numbering, str]:
    """The new numbers, and whose they are."""
    from steer.experiments.renumber import numbers_as_trained, numbers_like

    if like == PAPER:
        return numbers_like(loaded.names, PAPER_HEADS), "the paper's"
    if like == TRAINED:
        return numbers_as_trained(loaded.record), "trained"
    return numbers_like(loaded.names, names_of(like).roles), f"those of {Path(like).name}"
