"""Plans told as plain data, and a model's shape without loading the model."""

from __future__ import annotations

from typing import Any

from steer.anatomy.names import Shape, Site
from steer.base.shipped import locate
from steer.models.record import read_record
from steer.plan.plan import Plan, Run, stop_after
from steer.results.circuit import read_circuit, with_roles


def shape_of(checkpoint: str) -> Shape:
    """Read from the checkpoint's record and circuit alone."""
    folder = locate(checkpoint)
    record = read_record(folder)
    return with_roles(record.shape, read_circuit(folder, record.weights_sha256), folder)


def describe_plan(name: str, plan: Plan, shape: Shape) -> dict[str, Any]:
    reads = _reads(plan.reads) + [{"site": "kept for later runs", "hook": path} for path in plan.cached]
    clean = {"name": "clean", "start": "enc.embed", "stop": stop_after(shape, plan.cached), "edits": [], "reads": reads}
    told = {"name": name, "forwards": plan.forwards, "runs": [clean, *map(_run, plan.runs)]}
    left_out = [{"condition": condition, "measure": number} for condition, number in plan.unmoved]
    return told | {"left_out": left_out}


def _run(run: Run) -> dict[str, Any]:
    edits = [{"what": str(edit), "site": str(edit.site), "hook": edit.site.path} for edit in run.edits]
    told = {"name": run.name, "condition": run.condition, "start": run.start, "stop": run.stop}
    return told | {"edits": edits, "reads": _reads(run.reads)}


def _reads(sites: tuple[Site, ...]) -> list[dict[str, str]]:
    return [{"site": str(site), "hook": site.path} for site in sites]
