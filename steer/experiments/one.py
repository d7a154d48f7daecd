"""One recipe, from the file to the result. This file calls the stages in order.

recipe -> plan (`recipe/lower`) -> runs (`engine/session`) -> sums (`measures/collect`) -> rows (`results`)
"""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version as installed
from pathlib import Path

from steer.base.memory import MEMORY
from steer.base.version import __version__
from steer.engine.engine import Engine
from steer.engine.session import Inputs
from steer.experiments.experiment import Experiment, share_of
from steer.experiments.places import place_tokens
from steer.experiments.subspaces import as_files
from steer.models.subject import Subject
from steer.models.untrained import with_random_weights
from steer.plan.plan import Plan
from steer.recipe.load import Loaded
from steer.recipe.schema import Recipe
from steer.results.directions import direction_hash
from steer.results.provenance import Provenance
from steer.results.result import Result, content_hash
from steer.results.rows import CONTROL, Row
from steer.results.samples import sampled

RESULT_REVISION = 6  # increase when a recipe's results may change: saved results are then computed again
Tell = Callable[[float], None]


def run_experiment(
    loaded: Loaded, subject: Subject, tell: Tell = lambda done: None, engine: Engine | None = None, content: str = "",
) -> Result:  # fmt: skip
    """Run a recipe on a checkpoint. Recipes that share an engine share its clean run.

    `content`: the experiment's hash, if it is known already.
    """
    twins = loaded.recipe.twins
    result = _run(Experiment(loaded, subject, engine), share_of(tell, 0, 1 + len(twins)), content)
    for number, twin in enumerate(twins, 1):
        other = with_random_weights(subject, twin.recipe.seed) if twin.random_weights else subject
        experiment = Experiment(replace(loaded, recipe=twin.recipe), other, mixed=twin.shuffled)
        other_result = _run(experiment, share_of(tell, number, 1 + len(twins)), content)
        result.rows += [_of_twin(row, twin.name) for row in other_result.rows if row.levels]
    return result


def _of_twin(row: Row, name: str) -> Row:
    return replace(row, condition=f"{row.condition}, {name}", levels=(*row.levels, (CONTROL, name)))


def _run(experiment: Experiment, tell: Tell, content: str) -> Result:
    started = time.perf_counter()
    experiment.run_whole(tell)
    return finished(experiment, started, content)


def finished(experiment: Experiment, started: float, content: str = "") -> Result:
    """The result of an experiment whose runs are done. `started`: when, by `time.perf_counter`."""
    loaded, subject, inputs = experiment.loaded, experiment.subject, experiment.inputs
    plan, collectors = experiment.lowered.plan, experiment.collectors
    with loaded.placing():
        rows = collectors.rows()
    samples = sampled(inputs.examples, collectors.tallies())
    details = [*collectors.details(), *place_tokens(plan, inputs.examples, experiment.engine.layout)]
    tensors, axes = experiment.whole_tensors()
    provenance = describe(
        loaded, subject, plan, inputs, content or experiment_hash(loaded.recipe, subject, loaded.folder)
    )
    provenance = replace(provenance, seconds=round(time.perf_counter() - started, 2))
    files = as_files(loaded.recipe, subject, experiment.lowered, experiment.learnt)
    return Result(provenance, rows, tensors, details, None, axes, samples, files)


def describe(loaded: Loaded, subject: Subject, plan: Plan, inputs: Inputs, content: str) -> Provenance:
    """Where the numbers come from, so that anybody can get them again."""
    recipe, weight = loaded.recipe, subject.model.like
    edits = {
        run.condition: [str(edit.site) for edit in run.edits if not edit.holds]
        for run in plan.runs
        if run.condition and run.edits
    }
    return Provenance(
        loaded.name, subject.weights, len(inputs.examples), recipe.episodes.count,
        recipe.kind, recipe.description, recipe.figure,
        shown=recipe.shown,
        hash=content, recipe=recipe.model_dump(mode="json"), changes=tuple(loaded.changes),
        edited={condition: tuple(dict.fromkeys(sites)) for condition, sites in edits.items()},
        ablation=describe_ablation(recipe, len(inputs.reference)) if recipe.ablates else "",
        layer_norm="recomputed on edited streams",
        intervals="95 %, bootstrap over examples; Wilson where an example is one hit or miss",
        forwards=plan.forwards, device=str(weight.device), dtype=str(weight.dtype).removeprefix("torch."),
        versions=versions(), task=subject.task.name,
        roles={role: tuple(map(str, heads)) for role, heads in subject.names.roles.items()},
    )  # fmt: skip


def versions() -> dict[str, str]:
    used = ("torch", "nnsight", "numpy", *(["transformers"] if "transformers" in sys.modules else []))
    packages = {name: installed(name) for name in used}
    return {"steer": __version__, "python": platform.python_version(), **packages}


def describe_ablation(recipe: Recipe, count: int) -> str:
    """What replaces an ablated value, in words. Position embeddings are the same in every example, and often stay."""
    ablation = recipe.ablation
    kept = "; position embeddings keep their values"
    if ablation.value == "counterpart":
        return f"as in the run on the counterpart ({ablation.variable})"
    if ablation.value != "mean":
        return ablation.value + kept * (ablation.value == "resample")
    episodes = f"the first {count:,} {ablation.reference}" if count else "the recipe's own"
    return f"mean by {ablation.over} over {episodes} episodes" + kept * (ablation.over == "position")


def experiment_hash(recipe: Recipe, subject: Subject, folder: Path = Path(), memory: int = MEMORY) -> str:
    """`folder`: that the files which the recipe names are relative to."""
    question = recipe.model_dump(mode="json", exclude={"version", "description", "figure", "checkpoint", "task"})
    if not recipe.sweep:
        del question["sweep"]
    roles = {role: [str(node) for node in heads] for role, heads in subject.names.roles.items()}
    settings = {"dtype": str(subject.model.like.dtype), "roles": roles, "numbers": RESULT_REVISION}
    if memory != MEMORY and recipe.depends_on_batches:
        settings["memory"] = memory
    if recipe.task.fingerprint:
        settings["task"] = recipe.task.fingerprint
    if recipe.files:
        settings["files"] = {name: direction_hash(folder / name) for name in recipe.files}
    return content_hash(question, subject.weights.identity, __version__, settings)
