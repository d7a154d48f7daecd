"""Running recipes one after another or in several processes; one bad recipe does not stop the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steer.base.errors import ConfigError, SteerError
from steer.base.files import check_folder, is_there
from steer.experiments.processes import TRIES, in_processes
from steer.plan.plan import ENDS
from steer.recipe.load import Loaded, gather, load_recipe
from steer.results.result import NO_SHARES, Result, known, write_result

if TYPE_CHECKING:
    from steer.engine.engine import Engine
    from steer.models.checkpoint import Checkpoint

Advance = Callable[[float, str], None]
EDITED = 12  # sites that fit into a line


@dataclass(frozen=True)
class Job:
    """How recipes are run, the same for a whole batch."""

    changes: tuple[str, ...] = ()
    out: Path = Path("results")
    device: str = "cpu"
    dtype: str = "float32"
    force: bool = False


@dataclass
class Outcome:
    """How one recipe ended."""

    name: str
    result: Result | None = None
    pictures: list[Path] = field(default_factory=list)
    unchanged: bool = False
    faults: tuple[str, ...] = ()
    undrawn: tuple[str, ...] = ()  # pictures that failed, and why; the numbers are there

    def as_json(self) -> dict[str, Any]:
        if self.result is None:
            return {"name": self.name, "errors": list(self.faults)}
        pictures = [str(path) for path in self.pictures]
        files = {"folder": str(self.result.folder), "picture": pictures[0] if pictures else None, "pictures": pictures}
        files |= {"undrawn": list(self.undrawn)} if self.undrawn else {}
        found = {"unchanged": self.unchanged, "rows": self.result.rows, "details": self.result.details}
        return {**self.result.metadata, **files, **found}

    def text(self) -> str:
        """One recipe's result for people: its table and where it lies."""
        if self.result is None:
            return f"{self.name}: failed"
        told = self.result.metadata
        asked, used = told["recipe"]["episodes"]["count"], told["episodes"]
        fit = f"{used:,} episodes" + (f" (all that fit; {asked:,} asked for)" if used < asked else "")
        state = "already known" if self.unchanged else f"{told['seconds']:.1f} s"
        picture = "".join(f"\npicture: {path}" for path in self.pictures)
        head = f"{self.name} on {told['checkpoint']['name']}, {fit}: {self.result.folder} ({state})"
        positions = "positions" in told["recipe"]["figure"]
        return f"{head}\n{_table(self.result.rows, positions)}\n{_ablated(told)}{_edited(told)}{picture}"

    def line(self) -> str:
        """One line of a batch's summary."""
        if self.result is None:
            return f"{self.name:28}{'failed':10}"
        state, seconds = ("known", "") if self.unchanged else ("done", f"{self.result.metadata['seconds']:.1f} s")
        conditions = len({row["condition"] for row in self.result.rows})
        return f"{self.name:28}{state:10}{seconds:>9}{conditions:>12}   {self.result.folder}"


SUMMARY = f"{'recipe':28}{'state':10}{'time':>9}{'conditions':>12}   result"


def split_changes(words: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    """Recipes and `key=value` changes stand together on the command line."""
    changes = tuple(word for word in words if "=" in word and not is_there(word))
    names = [word for word in words if word not in changes]
    if not names:
        raise ConfigError("name at least one recipe (a file, a folder, or a shipped name: see `steer ls`)")
    return names, changes


def run_batch(names: Sequence[str], job: Job, jobs: int, advance: Advance) -> list[Outcome]:
    paths, missing = gather(names)
    lost = [Outcome(name, faults=faults) for name, faults in missing.items()]
    return [*lost, *run_paths(paths, job, jobs, advance)]


def run_paths(paths: Sequence[Path], job: Job, jobs: int, advance: Advance) -> list[Outcome]:
    check_folder(job.out)
    found: dict[Path, Outcome] = {}
    try:
        for path, outcome in (
            _one_by_one(paths, job, advance) if 1 in (jobs, len(paths)) else _side_by_side(paths, job, jobs)
        ):
            found[path] = outcome
            advance(len(found) / len(paths), path.stem)
    except KeyboardInterrupt as error:
        raise interrupted(len(found), len(paths)) from error
    return [found[path] for path in paths]


def interrupted(done: int, total: int) -> KeyboardInterrupt:
    """An interrupt that says what is kept, if anything is."""
    return KeyboardInterrupt(*[f"{done} of {total} results were finished and are kept"] * (done > 0))


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
    """An outcome fit for the way between processes: tensors are on disk."""
    outcome = run_one(path, job)
    if outcome.result is not None:
        outcome.result.tensors = {}
    return outcome


def run_one(path: Path, job: Job, tell: Callable[[float], None] = lambda done: None) -> Outcome:
    try:
        return _run(path, job, tell)
    except SteerError as error:
        faults = error.faults
    except Exception as error:  # a bug of ours must not take the other recipes along
        faults = (f"unexpected {type(error).__name__}: {error}",)
    return Outcome(path.stem, faults=tuple(f if str(path) in f else f"{path}: {f}" for f in faults))


def _run(path: Path, job: Job, tell: Callable[[float], None]) -> Outcome:
    loaded = load_recipe(str(path), *job.changes)

    import torch

    from steer.experiments.one import experiment_hash
    from steer.models.checkpoint import load_checkpoint
    from steer.models.devices import check_device

    if job.dtype not in ("float32", "float64"):
        raise ConfigError(f"--dtype is float32 or float64, not {job.dtype!r}")
    check_device(job.device)
    checkpoint = load_checkpoint(loaded.recipe.checkpoint, job.device, getattr(torch, job.dtype))
    folder = job.out / f"{loaded.name}-{experiment_hash(loaded.recipe, checkpoint)[:8]}"
    return run_loaded(loaded, checkpoint, folder, job.force, tell)


def run_loaded(
    loaded: Loaded, checkpoint: Checkpoint, folder: Path, force: bool, tell: Callable[[float], None],
    engine: Engine | None = None,
) -> Outcome:  # fmt: skip
    """Run a recipe unless the folder holds its result already; draw its figures and write everything."""
    from steer.drawing.figures.draw import are_drawn, draw_each, pictures
    from steer.experiments import one as experiment

    content = experiment.experiment_hash(loaded.recipe, checkpoint)
    result = None if force else known(folder, content)
    unchanged = result is not None
    asked = loaded.recipe.model_dump(mode="json")
    if result is None:
        result = experiment.run_experiment(loaded, checkpoint, tell, engine)
    if not unchanged or result.metadata["recipe"] != asked:
        result.metadata["recipe"] = asked  # the numbers may be known; words and figure may have changed
        write_result(result, folder)
    elif are_drawn(result, folder):
        return Outcome(loaded.name, result, pictures(result, folder), unchanged)
    drawn, undrawn = draw_each(result, folder)
    return Outcome(loaded.name, result, drawn, unchanged, undrawn=undrawn)


def _ablated(told: dict[str, Any]) -> str:
    """What stands in for what is ablated. Positions are the same in every episode, so some values leave them alone."""
    if told["recipe"]["kind"] in ("clean", "steer", "position-swap"):
        return ""
    asked = told["recipe"]["ablation"]
    kept = asked["value"] == "resample" or (asked["value"], asked["over"]) == ("mean", "position")
    return f"\nablated: {told['ablation']}" + ("; position embeddings keep their values" if kept else "")


def _edited(told: dict[str, Any]) -> str:
    """What was edited in each condition, where its name does not say so and a line can."""
    edited = {name: sites for name, sites in told.get("edited", {}).items() if name not in ENDS}
    short = {name: sites for name, sites in edited.items() if 0 < len(sites) <= EDITED and name not in " ".join(sites)}
    named = told["recipe"]["kind"] in ("steer", "position-swap", "compare", "ablate-set")
    return "".join(f"\nedited in {name!r}: {', '.join(sites)}" for name, sites in short.items() if named)


def _table(rows: Sequence[dict[str, Any]], positions: bool = False) -> str:
    """The rows over all positions (and for each, where they are what is looked at), for people."""
    if not rows:
        return ""
    lines = [f"\n{'condition':34}{'measure':20}{'head':17}{'against':18}{'value':>8}   95 % interval"]
    for row in rows:
        if row["position"] == "all" or positions:
            names = f"{row['condition']:34}{row['measure']:20}{row['head']:17}{row['against']:18}"
            null = f", by chance {row['null']:.3f} (at {row['tokens']})" if "null" in row else ""
            how = ".3f" if row["measure"] in NO_SHARES else ".1%"
            place = "" if row["position"] == "all" else f"   position {row['position']}"
            warning = f"   warning: {row['warning']}" if row.get("warning") else ""
            numbers = f"{row['value']:>8{how}}   {row['low']:{how}} to {row['high']:{how}}"
            lines.append(f"{names}{numbers}{null}{place}{warning}")
    return "\n".join(lines)
