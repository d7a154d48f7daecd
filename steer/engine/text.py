"""A schedule as plain data and as text, for `steer plan`: what each run edits and reads, where it starts and stops."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass

from steer.base.json import Json
from steer.base.shown import Card, Shown
from steer.engine.schedule import Pass, Schedule
from steer.plan.plan import Greedy, Run


@dataclass(frozen=True)
class PlannedRead:
    site: str
    hook: str


@dataclass(frozen=True)
class PlannedEdit:
    what: str
    site: str
    hook: str


@dataclass(frozen=True)
class PlannedRun:
    name: str
    condition: str | None
    decoding: str
    start: str
    stop: str | None  # None: to the end
    edits: tuple[PlannedEdit, ...]
    reads: tuple[PlannedRead, ...]


@dataclass(frozen=True, repr=False)
class Planned(Shown):
    """What a recipe comes down to. `unmoved`: pairs of condition and measure (number, name) that give no row."""

    name: str
    forwards: int
    runs: tuple[PlannedRun, ...]
    unmoved: tuple[tuple[str, int, str], ...] = ()

    def to_json(self) -> Json:
        left_out = [{"condition": condition, "measure": number} for condition, number, _ in self.unmoved]
        runs = [asdict(run) for run in self.runs]
        return {"name": self.name, "forwards": self.forwards, "runs": runs, "left_out": left_out}

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def card(self) -> Card:
        title = f"plan of {self.name}: {self.forwards} forward passes for each batch"
        runs = [(run.name, f"{len(run.edits)} edits", f"{len(run.reads)} reads") for run in self.runs]
        return Card(title, (), ("run", "edits", "reads"), runs)

    def _lines(self) -> Iterator[str]:
        yield f"{self.name}: {self.forwards} forward passes for each batch of episodes"
        for run in self.runs:
            fed_back = ", the model's own tokens fed back" if run.decoding == "greedy" else ""
            yield f"\n{run.name}\n  from {run.start} to {run.stop or 'the end'}{fed_back}"
            yield from (f"  edit {edit.what}  [{edit.hook}]" for edit in run.edits)
            yield from (f"  read {read.site}  [{read.hook}]" for read in run.reads)
        for condition, number, measure in self.unmoved:
            yield f"\nno row: {condition!r} cannot change measure {number} ({measure})"


def planned(name: str, schedule: Schedule, unmoved: tuple[tuple[str, int, str], ...] = ()) -> Planned:
    passes = {one.run: one for one in schedule.passes}
    runs = tuple(_run(run, passes.get(run), schedule) for run in schedule.plan.runs)
    return Planned(name, schedule.plan.forwards, runs, unmoved)


def _run(run: Run, one: Pass | None, schedule: Schedule) -> PlannedRun:
    """`one`: the run's pass; None if nothing is edited, and so no pass of its own is needed."""
    hook, decoding = schedule.steps.hook, type(run.decoding).__name__.lower()
    reads = tuple(PlannedRead(str(site), hook(site)) for site in run.reads)
    if one is not None:
        edits = tuple(PlannedEdit(str(edit), str(edit.site), hook(edit.site)) for edit in one.edits)
        return PlannedRun(run.name, run.condition, decoding, one.start, one.stop, edits, reads)
    kept = [] if isinstance(run.decoding, Greedy) else schedule.of(run.name)
    reads += tuple(PlannedRead("kept for later runs", name) for name in kept)
    stop = schedule.stop_after(kept) if kept else None
    return PlannedRun(run.name, run.condition, decoding, schedule.steps.names[0], stop, (), reads)
