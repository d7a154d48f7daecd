"""Running recipes one after another or in several processes; one bad recipe does not stop the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from steer.base.errors import ConfigError, Fault, SteerError
from steer.base.files import check_folder, is_there
from steer.base.json import Json
from steer.base.log import BUG, LOG, is_debugging, traceback_of
from steer.base.memory import MEMORY
from steer.drawing.look import PLAIN, Look
from steer.experiments.given import subject_for
from steer.experiments.processes import TRIES, fitting, in_processes
from steer.recipe.load import Loaded, gather, load_recipe
from steer.recipe.schema import Recipe
from steer.results.files import saved_result, to_json, write_result
from steer.results.provenance import Provenance
from steer.results.result import Result

if TYPE_CHECKING:
    from steer.engine.engine import Engine
    from steer.experiments.cluster import Cluster
    from steer.models.subject import Subject

Advance = Callable[[float, str], None]


@dataclass(frozen=True)
class Job:
    """How recipes are run, the same for a whole batch."""

    changes: tuple[str, ...] = ()
    out: Path = Path("results")
    device: str = "cpu"
    dtype: str = "float32"
    memory: int = MEMORY
    force: bool = False
    look: Look = PLAIN
    remote: bool | str = False


@dataclass
class Outcome:
    """How one recipe ended."""

    name: str
    result: Result | None = None
    pictures: list[Path] = field(default_factory=list)
    unchanged: bool = False
    faults: tuple[str, ...] = ()
    undrawn: tuple[str, ...] = ()  # why pictures failed; the numbers are there
    traceback: str = ""  # of an internal error; with --debug, of any

    def to_json(self) -> Json:
        if self.result is None:
            return {"name": self.name, "errors": list(self.faults)}
        pictures = [str(path) for path in self.pictures]
        files = {"folder": str(self.result.folder), "picture": pictures[0] if pictures else None, "pictures": pictures}
        files |= {"undrawn": list(self.undrawn)} if self.undrawn else {}
        return {**files, "unchanged": self.unchanged, **to_json(self.result)}


def split_changes(words: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    """The words of a command line as recipes and `key=value` changes."""
    changes = tuple(word for word in words if "=" in word and not is_there(word))
    names = [word for word in words if word not in changes]
    if not names:
        raise ConfigError("name at least one recipe (a file, a folder, or a shipped name: see `steer ls`)")
    return names, changes


def run_batch(
    names: Sequence[str], job: Job, jobs: int | None, advance: Advance, cluster: Cluster | None = None
) -> list[Outcome]:
    paths, missing = gather(names)
    lost = [
        Outcome(name, faults=error.faults, traceback=traceback_of(error) if is_debugging() else "")
        for name, error in missing.items()
    ]
    return [*lost, *run_paths(paths, job, jobs, advance, cluster)]


def run_paths(
    paths: Sequence[Path], job: Job, jobs: int | None, advance: Advance, cluster: Cluster | None = None
) -> list[Outcome]:
    """`jobs`: None for as many processes as pay."""
    check_folder(job.out)
    outcomes: dict[Path, Outcome] = {}
    try:
        for path, outcome in _ways(paths, job, jobs, advance, cluster):
            outcomes[path] = outcome
            advance(len(outcomes) / len(paths), path.stem)
    except KeyboardInterrupt as error:
        raise interrupted(len(outcomes), len(paths)) from error
    return [outcomes[path] for path in paths]


def interrupted(done: int, total: int) -> KeyboardInterrupt:
    """An interrupt with a message about the finished results, if there are any."""
    return KeyboardInterrupt(*[f"{done} of {total} results were finished and are kept"] * (done > 0))


def _ways(
    paths: Sequence[Path], job: Job, jobs: int | None, advance: Advance, cluster: Cluster | None
) -> Iterator[tuple[Path, Outcome]]:
    from steer.experiments.pool import Pool
    from steer.experiments.spread import run_spread

    if cluster is not None:
        return run_spread(paths, job, advance, cluster)
    jobs = 1 if jobs == 1 else _processes(paths, job, jobs)
    if jobs == 1:
        return _one_by_one(paths, job, advance)
    return run_spread(paths, job, advance, Pool(jobs)) if len(paths) == 1 else _side_by_side(paths, job, jobs)


def _processes(paths: Sequence[Path], job: Job, wanted: int | None) -> int:
    """As many as were asked for, or as pay; never more than can be done apart: recipes, or the points of one's sweep.

    Each would load a Hugging Face model, however large, for itself: unasked there is one.
    """
    from steer.models.huggingface.place import is_hugging_face

    loaded: list[Loaded] = []
    for path in paths:
        with suppress(SteerError):  # it is reported when the recipe is run
            loaded.append(load_recipe(str(path), *job.changes))
    things = len(paths) if len(paths) > 1 else sum(len(one.points) for one in loaded) or 1
    if wanted is not None:
        return min(wanted, things)
    large = any(":" in name or is_hugging_face(name) for name in (one.recipe.checkpoint for one in loaded))
    return 1 if job.remote or large or things == 1 else fitting(things, job.device, job.memory)


def _one_by_one(paths: Sequence[Path], job: Job, advance: Advance) -> Iterator[tuple[Path, Outcome]]:
    for number, path in enumerate(paths):

        def tell(done: float, number: int = number, path: Path = path) -> None:
            advance((number + done) / len(paths), path.stem)

        yield path, run_one(path, job, tell)


def _side_by_side(paths: Sequence[Path], job: Job, jobs: int) -> Iterator[tuple[Path, Outcome]]:
    for path, outcome in in_processes(partial(run_and_send, job=job), paths, jobs):
        lost = f"{path}: the process that ran it was ended from outside, {TRIES} times over (is memory short?)"
        yield path, outcome or Outcome(path.stem, faults=(lost,))


def run_and_send(path: Path, job: Job) -> Outcome:
    """Run a recipe in a worker. Its tensors stay on disk and are not sent back."""
    outcome = run_one(path, job)
    if outcome.result is not None:
        outcome.result.tensors, outcome.result.samples = {}, None  # `read_result` reads them back
    return outcome


def run_one(path: Path, job: Job, tell: Callable[[float], None] = lambda done: None) -> Outcome:
    return attempted(path, lambda: _run(path, job, tell))


def attempted(path: Path, work: Callable[[], Outcome]) -> Outcome:
    """How the work on a recipe ended; an error, whatever it is, must not stop the other recipes."""
    try:
        return work()
    except SteerError as error:
        return failed(path, error.faults, traceback_of(error) if is_debugging() else "")
    except Exception as error:
        return failed(path, (Fault("", (), f"{type(error).__name__}: {error} ({BUG})"),), traceback_of(error))


def failed(path: Path, faults: Sequence[Fault], traceback: str = "") -> Outcome:
    placed = tuple(fault if fault.startswith(str(path)) else Fault(str(path), (), fault) for fault in faults)
    return Outcome(path.stem, faults=placed, traceback=traceback)


def _run(path: Path, job: Job, tell: Callable[[float], None]) -> Outcome:
    loaded = load_recipe(str(path), *job.changes)

    from steer.engine.engine import Engine
    from steer.experiments.remote import remote_engine
    from steer.experiments.sweeping import question_hash

    if job.remote:
        checkpoint, engine = remote_engine(loaded, job.remote, job.memory)
    else:
        checkpoint = subject_for(loaded, None, job.device, job.dtype)
        engine = Engine.within(checkpoint.model, job.memory)
    content = question_hash(loaded, checkpoint, job.memory)
    folder = job.out / f"{loaded.name}-{content[:8]}"
    return run_loaded(loaded, checkpoint, folder, job.force, tell, engine, content, job.look)


def run_loaded(
    loaded: Loaded, checkpoint: Subject, folder: Path, force: bool, tell: Callable[[float], None],
    engine: Engine | None = None, content: str = "", look: Look = PLAIN,
) -> Outcome:  # fmt: skip
    """Run a recipe unless the folder holds its result already; draw its figures and write everything.

    `content`: the experiment's hash, if it is known already.
    """
    from steer.experiments import sweeping

    memory = engine.memory if engine else MEMORY
    content = content or sweeping.question_hash(loaded, checkpoint, memory)
    result = None if force else saved_result(folder, content)
    unchanged = result is not None
    LOG.debug("%s: %s", folder, "already known" if unchanged else "to be computed")
    if result is None:
        result = sweeping.run_question(loaded, checkpoint, tell, engine, content)
    return written(loaded, result, folder, unchanged, look)


def written(loaded: Loaded, result: Result, folder: Path, unchanged: bool, look: Look = PLAIN) -> Outcome:
    """A result in its folder, with its figures. `unchanged`: it was there already."""
    from steer.drawing.figures.draw import are_drawn, draw_each, pictures

    worded = reworded(result.provenance, loaded.recipe)
    if not unchanged or result.provenance != worded:
        result.provenance = worded
        write_result(result, folder)
    elif are_drawn(result, folder, look):
        return Outcome(loaded.name, result, pictures(result, folder), unchanged)
    drawn, undrawn = draw_each(result, folder, look)
    return Outcome(loaded.name, result, drawn, unchanged, undrawn=undrawn)


def reworded(provenance: Provenance, recipe: Recipe) -> Provenance:
    """Provenance with the recipe's present description and figures, which do not affect the numbers."""
    content = recipe.model_dump(mode="json")
    return replace(provenance, recipe=content, description=recipe.description, figures=recipe.figure)
