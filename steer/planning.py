"""Plans told as plain data, and a model's shape without loading the model."""

from __future__ import annotations

import json
from typing import Any

from steer.circuit import read_circuit, with_roles
from steer.errors import CheckpointError
from steer.names import Shape, Site
from steer.plan import Plan, Run, stop_after
from steer.shipped import RECORD, locate


def shape_of(checkpoint: str) -> Shape:
    """Read from the checkpoint's record and circuit alone."""
    folder = locate(checkpoint)
    path = folder / RECORD
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        config, sha256 = told["config"], str(told["weights_sha256"])
        shape = Shape(int(config["encoder_layers"]), int(config["decoder_layers"]), int(config["heads"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{path}: cannot be read ({error})") from error
    return with_roles(shape, read_circuit(folder, sha256), folder)


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
