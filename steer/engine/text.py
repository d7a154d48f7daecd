"""A schedule as plain data and as text, for `steer plan`: what each run edits and reads, where it starts and stops."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from steer.base.shown import Card, Shown
from steer.engine.schedule import Pass, Schedule
from steer.plan.plan import Greedy, Run


@dataclass(frozen=True, repr=False)
class Planned(Shown):
    """What a recipe comes down to. `unmoved`: pairs of condition and measure (number, name) that give no row."""

    described: dict[str, Any]
    unmoved: tuple[tuple[str, int, str], ...] = ()

    def to_json(self) -> dict[str, Any]:
        left_out = [{"condition": condition, "measure": number} for condition, number, _ in self.unmoved]
        return self.described | {"left_out": left_out}

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def card(self) -> Card:
        title = f"plan of {self.described['name']}: {self.described['forwards']} forward passes for each batch"
        runs = [
            (run["name"], f"{len(run['edits'])} edits", f"{len(run['reads'])} reads") for run in self.described["runs"]
        ]
        return Card(title, (), ("run", "edits", "reads"), runs)

    def _lines(self) -> Iterator[str]:
        yield f"{self.described['name']}: {self.described['forwards']} forward passes for each batch of episodes"
        for run in self.described["runs"]:
            fed_back = ", the model's own tokens fed back" if run["decoding"] == "greedy" else ""
            yield f"\n{run['name']}\n  from {run['start']} to {run['stop'] or 'the end'}{fed_back}"
            yield from (f"  edit {edit['what']}  [{edit['hook']}]" for edit in run["edits"])
            yield from (f"  read {read['site']}  [{read['hook']}]" for read in run["reads"])
        for condition, number, measure in self.unmoved:
            yield f"\nno row: {condition!r} cannot change measure {number} ({measure})"


def describe_plan(name: str, schedule: Schedule) -> dict[str, Any]:
    passes = {one.run: one for one in schedule.passes}
    runs = [_run(run, passes.get(run), schedule) for run in schedule.plan.runs]
    return {"name": name, "forwards": schedule.plan.forwards, "runs": runs}


def _run(run: Run, one: Pass | None, schedule: Schedule) -> dict[str, Any]:
    hook = schedule.steps.hook
    reads = [{"site": str(site), "hook": hook(site)} for site in run.reads]
    described = {"name": run.name, "condition": run.condition, "decoding": type(run.decoding).__name__.lower()}
    if one is None:
        kept = [] if isinstance(run.decoding, Greedy) else schedule.of(run.name)
        reads += [{"site": "kept for later runs", "hook": name} for name in kept]
        return described | {
            "start": schedule.steps.names[0],
            "stop": schedule.stop_after(kept) if kept else None,
            "edits": [],
            "reads": reads,
        }
    edits = [{"what": str(edit), "site": str(edit.site), "hook": hook(edit.site)} for edit in one.edits]
    return described | {"start": one.start, "stop": one.stop, "edits": edits, "reads": reads}
