"""A recipe's walk, from the file to the result. This file only calls the stages in order.

recipe -> plan (`lower`) -> runs (`engine`) -> values for each episode (`collect`, `measure`) -> rows (`results`)
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.metadata import version as installed

from torch import Tensor

from steer.anatomy.layout import Layout
from steer.anatomy.nodes import parse_site
from steer.base.errors import KeyedError, SteerError, keyed
from steer.base.version import __version__
from steer.engine.engine import Engine
from steer.engine.session import Inputs, Session
from steer.experiments.activations import axes_of, axis_names, in_order
from steer.measures.collect import Collectors
from steer.measures.setting import Setting
from steer.models.protocol import Batch
from steer.models.subject import Subject
from steer.plan.plan import Plan
from steer.recipe.load import Loaded
from steer.recipe.schema import OWN, Recipe
from steer.results.provenance import Provenance
from steer.results.result import Result, content_hash
from steer.results.samples import sampled
from steer.tasks.task import Example

RESULT_REVISION = 3  # increase when a recipe's results may change: saved results are then computed again
REFERENCE = 2_000  # episodes of another set that means are taken over, at most
Tell = Callable[[float], None]


def run_experiment(
    loaded: Loaded, subject: Subject, tell: Tell = lambda done: None, engine: Engine | None = None
) -> Result:
    """Run a recipe on a checkpoint. Recipes that share an engine share its clean run."""
    with loaded.placing():  # what only the data can tell is at fault somewhere in the file as well
        return _run(loaded, subject, tell, engine or Engine(subject.model))


def _run(loaded: Loaded, subject: Subject, tell: Tell, engine: Engine) -> Result:
    started, recipe = time.perf_counter(), loaded.recipe
    subject = subject.about(recipe.task) if recipe.task.source else subject
    lowered = loaded.lower(subject.names)
    inputs = examples_of(recipe, subject)
    warnings = place_warnings(lowered.plan, engine.batches(inputs.examples), engine.layout)
    asked = any(measure.against != "answer" for measure in recipe.measures)
    predicted = recipe.counterfactual(inputs.examples) if asked else ()
    setting = Setting(subject, inputs.examples, recipe.measures, recipe.seed, predicted, warnings)
    collectors = Collectors(setting, lowered.numbers, lowered.clean, lowered.unmoved, lowered.plan.ends)
    sites = list(dict.fromkeys(site for name in recipe.tensors for site in subject.names.sites(name)))
    saved: dict[str, list[tuple[list[int], Tensor]]] = {}
    for found in Session(engine, lowered.plan, inputs, tell):
        condition = found.run.condition or ""
        if found.written is not None:
            collectors.add_written(found.batch, condition, found.written)
            continue
        collectors.add(found.batch, condition, found.values)
        for site in sites:
            saved.setdefault(f"{condition}/{site}", []).append((found.batch.rows, found.values[site].cpu()))
    rows, details = collectors.rows(), collectors.details()
    along = {
        name: axis_names(engine.layout, parse_site(name.rpartition("/")[2]), saved[name][0][1].ndim) for name in saved
    }
    axes = axes_of(subject, inputs.examples, engine.batches(inputs.examples), along) if saved else None
    tensors = {name: in_order(parts, axes, name) for name, parts in saved.items() if axes}
    provenance = describe(loaded, subject, lowered.plan, inputs)
    provenance = replace(provenance, seconds=round(time.perf_counter() - started, 2))
    return Result(provenance, rows, tensors, details, axes=axes, samples=sampled(inputs.examples, collectors.tallies()))


def examples_of(recipe: Recipe, subject: Subject) -> Inputs:
    """The episodes that a recipe means, their counterparts, and those that ablation means are taken over."""
    check_task(recipe, subject)
    with keyed("episodes"):
        episodes = subject.task.examples(recipe.episodes, subject.data_seed, recipe.changed_variable)
        check_lengths(episodes, subject)
    others = recipe.counterparts(episodes)
    check_counterparts(episodes, others)
    return Inputs(episodes, others, reference_episodes(recipe, subject))


def check_task(recipe: Recipe, subject: Subject) -> None:
    if recipe.task is not subject.task:
        raise SteerError(f"the recipe is about the task {recipe.task.name!r}, {subject.name} of {subject.task.name!r}")


def check_lengths(episodes: Sequence[Example], subject: Subject) -> None:
    longest, most = max(len(episode.prompt) for episode in episodes), subject.model.max_length
    if longest > most:
        raise KeyedError([(("split",), f"prompts of up to {longest} tokens; {subject.name} takes {most}")])
    layout, answer = subject.model.layout, subject.task.longest_answer
    if layout.prompt == layout.answer and longest + answer > most:
        text = f"prompts of up to {longest} tokens and answers of up to {answer}; {subject.name} takes {most} in all"
        raise KeyedError([(("split",), text)])


def check_counterparts(episodes: Sequence[Example], others: Sequence[Example]) -> None:
    """A site takes its counterpart's value place by place, so both prompts must have as many."""
    for episode, other in zip(episodes, others, strict=False):
        if len(episode.prompt) != len(other.prompt):
            text = f"{len(other.prompt)} tokens in {str(other)!r:.60}, {len(episode.prompt)} in {str(episode)!r:.60}"
            raise KeyedError([(("variable",), f"a counterpart must have as many tokens: {text}")])


def place_warnings(plan: Plan, batches: Sequence[Batch], layout: Layout) -> dict[str, str]:
    """Conditions whose edits name places that no sequence has. Where none of them is there, nothing was edited."""
    longest = {name: max(batch.tokens[name].shape[1] for batch in batches) for name in batches[0].tokens}
    warnings, earlier = {}, ""  # the first link of a chain has the places, the last one the condition
    for run in plan.runs:
        edits = [edit for edit in run.edits if edit.places]
        beyond = {place for edit in edits for place in edit.places if place > longest[layout.sequence(edit.site)]}
        if edits and all(place in beyond for edit in edits for place in edit.places):
            key = ("places", edits[0].places.index(min(beyond)))
            raise KeyedError([(key, f"no sequence has a place {min(beyond)}: {run.name!r} would edit nothing")])
        text = f"no sequence has a place {', '.join(map(str, sorted(beyond)))}" if beyond else earlier
        if text and run.condition:
            warnings[run.condition] = text
        earlier = "" if run.condition else text
    return warnings


def reference_episodes(recipe: Recipe, subject: Subject) -> Sequence[Example]:
    """The episodes that ablation means are taken over, when they are not the recipe's own."""
    if recipe.ablation.reference == OWN:
        return ()
    return subject.task.split(recipe.ablation.reference, subject.data_seed)[:REFERENCE]


def describe(loaded: Loaded, subject: Subject, plan: Plan, inputs: Inputs) -> Provenance:
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
        hash=experiment_hash(recipe, subject), recipe=recipe.model_dump(mode="json"), changes=tuple(loaded.changes),
        edited={condition: tuple(sites) for condition, sites in edits.items()},
        ablation=describe_ablation(recipe, len(inputs.reference)) if recipe.ablates else "",
        layer_norm="recomputed on edited streams",
        intervals="95 %, bootstrap over examples; Wilson where an example is one hit or miss",
        forwards=plan.forwards, device=str(weight.device), dtype=str(weight.dtype).removeprefix("torch."),
        versions=versions(), task=subject.task.name,
        roles={role: tuple(map(str, heads)) for role, heads in subject.names.roles.items()},
    )  # fmt: skip


def versions() -> dict[str, str]:
    packages = {name: installed(name) for name in ("torch", "nnsight", "numpy")}
    return {"steer": __version__, "python": platform.python_version(), **packages}


def describe_ablation(recipe: Recipe, count: int) -> str:
    """What stands in for an ablated value. Positions are the same in every example: some values leave them alone."""
    ablation = recipe.ablation
    kept = "; position embeddings keep their values"
    if ablation.value != "mean":
        return ablation.value + kept * (ablation.value == "resample")
    episodes = f"the first {count:,} {ablation.reference}" if count else "the recipe's own"
    return f"mean by {ablation.over} over {episodes} episodes" + kept * (ablation.over == "position")


def experiment_hash(recipe: Recipe, subject: Subject) -> str:
    question = recipe.model_dump(mode="json", exclude={"version", "description", "figure", "checkpoint", "task"})
    roles = {role: [str(node) for node in heads] for role, heads in subject.names.roles.items()}
    settings = {"dtype": str(subject.model.like.dtype), "roles": roles, "numbers": RESULT_REVISION}
    if recipe.task.fingerprint:
        settings["task"] = recipe.task.fingerprint
    return content_hash(question, subject.weights.sha256, __version__, settings)
