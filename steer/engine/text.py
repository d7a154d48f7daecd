"""A schedule as plain data, for `steer plan`: what each run edits and reads, where it starts and where it stops."""

from __future__ import annotations

from typing import Any

from steer.engine.schedule import Pass, Schedule
from steer.plan.plan import Greedy, Run


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
