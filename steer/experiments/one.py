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

from torch import Tensor

from steer.anatomy.nodes import parse_site
from steer.base.memory import MEMORY
from steer.base.version import __version__
from steer.engine.engine import Engine
from steer.engine.session import Inputs, Session
from steer.experiments.activations import axes_of, axis_names, in_order
from steer.experiments.examples import Shown, examples_of
from steer.experiments.places import Spread, cut_warning, place_tokens, place_warnings
from steer.experiments.subspaces import Fitting, as_files, learn, shuffled, training_pairs
from steer.measures.collect import Collectors
from steer.measures.setting import Setting
from steer.models.subject import Subject
from steer.models.untrained import with_random_weights
from steer.plan.plan import Plan, Stored
from steer.recipe.load import Loaded
from steer.recipe.lowering import Lowered
from steer.recipe.schema import Recipe
from steer.results.directions import Floats, direction_hash
from steer.results.provenance import Provenance
from steer.results.result import Result, content_hash
from steer.results.rows import CONTROL, JOINT, Row
from steer.results.samples import sampled

RESULT_REVISION = 4  # increase when a recipe's results may change: saved results are then computed again
Tell = Callable[[float], None]


def run_experiment(
    loaded: Loaded, subject: Subject, tell: Tell = lambda done: None, engine: Engine | None = None, content: str = "",
) -> Result:  # fmt: skip
    """Run a recipe on a checkpoint. Recipes that share an engine share its clean run.

    `content`: the experiment's hash, if it is known already.
    """
    with loaded.placing():  # faults that only show in the data are reported at their place in the file, too
        parts = 1 + len(loaded.recipe.twins)
        result = _run(loaded, subject, _part(tell, 0, parts), engine or Engine(subject.model), content)
        for number, twin in enumerate(loaded.recipe.twins):
            told, other = _part(tell, number + 1, parts), subject
            if twin.random_weights:
                other = with_random_weights(subject, twin.recipe.seed)
            mine = replace(loaded, recipe=twin.recipe)
            found = _run(mine, other, told, Engine(other.model), content, twin.shuffled)
            result.rows += [_of_twin(row, twin.name) for row in found.rows if row.levels]
        return result


def _part(tell: Tell, number: int, count: int) -> Tell:
    """Progress of one part of a whole."""
    return lambda done: tell((number + done) / count)


def _of_twin(row: Row, name: str) -> Row:
    return replace(row, condition=f"{row.condition}, {name}", levels=(*row.levels, (CONTROL, name)))


def _run(loaded: Loaded, subject: Subject, tell: Tell, engine: Engine, content: str, mixed: bool = False) -> Result:
    """`mixed`: each example has the counterpart of another one."""
    started, recipe = time.perf_counter(), loaded.recipe
    subject = subject.about(recipe.task) if recipe.task.source else subject
    drafted = loaded.lower(subject.names)  # faulty names are reported before any example is read
    shown = examples_of(recipe, subject, drafted.plan)
    inputs, spread = shown.inputs, Spread(shown.inputs.examples, engine.layout)
    if mixed:
        inputs = replace(inputs, counterparts=shuffled(inputs.examples, inputs.counterparts, recipe.seed))
    lowered = loaded.lower(subject.names, spread.shortest)
    subject.examine(inputs.examples)
    setting = Setting(
        subject, inputs.examples, recipe.measures, recipe.seed, shown.predicted,
        place_warnings(lowered.plan, spread.longest, engine.layout),
        _warning(recipe, drafted.plan, shown, spread), recipe.own_condition,
    )  # fmt: skip
    collectors = Collectors(setting, lowered.numbers, lowered.clean, lowered.unmoved, lowered.plan.marks)
    sites = list(dict.fromkeys(site for name in recipe.tensors for site in subject.names.sites(name)))
    saved: dict[str, list[tuple[list[int], Tensor]]] = {}
    learnt = _learnt(recipe, lowered, subject, engine, inputs, _part(tell, 0, 2), mixed)
    tell = _part(tell, 1, 2) if lowered.searches else tell
    for found in Session(engine, lowered.plan, replace(inputs, stored={**lowered.stored, **learnt}), tell):
        condition = found.run.condition or ""
        if found.written is not None:
            collectors.add_written(found.batch, condition, found.written)
            continue
        collectors.add(found.batch, condition, found.values)
        for site in sites:
            saved.setdefault(f"{condition}/{site}", []).append((found.batch.rows, found.values[site].cpu()))
    rows = collectors.rows()
    details = [*collectors.details(), *place_tokens(lowered.plan, inputs.examples, engine.layout)]
    along = {
        name: axis_names(engine.layout, parse_site(name.rpartition("/")[2]), saved[name][0][1].ndim) for name in saved
    }
    axes = axes_of(subject, inputs.examples, engine.batches(inputs.examples), along) if saved else None
    tensors = {name: in_order(parts, axes, name) for name, parts in saved.items() if axes}
    provenance = describe(
        loaded, subject, lowered.plan, inputs, content or experiment_hash(recipe, subject, loaded.folder)
    )
    provenance = replace(provenance, seconds=round(time.perf_counter() - started, 2))
    samples = sampled(inputs.examples, collectors.tallies())
    return Result(provenance, rows, tensors, details, None, axes, samples, as_files(recipe, subject, lowered, learnt))


def _learnt(
    recipe: Recipe, lowered: Lowered, subject: Subject, engine: Engine, inputs: Inputs, tell: Tell, mixed: bool
) -> dict[Stored, Floats]:
    """The subspaces that the plan's runs name and no file holds."""
    if recipe.learning is None:
        return {}
    pairs = training_pairs(subject, recipe.learning, inputs)
    if mixed:
        pairs = replace(pairs, counterparts=shuffled(pairs.examples, pairs.counterparts, recipe.seed))
    fitting = Fitting(recipe.learning.epochs, recipe.learning.rate, seed=recipe.seed, places=recipe.places)
    return learn(engine, pairs, lowered.searches, fitting, tell)


def _warning(recipe: Recipe, plan: Plan, shown: Shown, spread: Spread) -> str:
    """What must be said about every number of an experiment."""
    spans = [
        name for name in (*recipe.places, *(measure.looked_at for measure in recipe.measures)) if isinstance(name, str)
    ]
    cut = cut_warning(spans, recipe.task, shown.inputs.examples)
    return JOINT.join(filter(None, (shown.warning, spread.warning(plan), cut, recipe.caution)))


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
        edited={condition: tuple(sites) for condition, sites in edits.items()},
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
    if memory != MEMORY and recipe.ablation.value == "resample":  # who lends a value is drawn among a batch
        settings["memory"] = memory
    if recipe.task.fingerprint:
        settings["task"] = recipe.task.fingerprint
    if recipe.files:
        settings["files"] = {name: direction_hash(folder / name) for name in recipe.files}
    return content_hash(question, subject.weights.identity, __version__, settings)
