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

from steer.base.errors import SteerError
from steer.base.version import __version__
from steer.engine.engine import Engine, Part, Session
from steer.engine.values import site_value
from steer.measures.collect import Collectors
from steer.measures.measured import of_prompt
from steer.measures.setting import Setting
from steer.models.checkpoint import Checkpoint
from steer.plan.plan import Plan, is_held
from steer.recipe.load import Loaded
from steer.recipe.predicted import changed_variable, counterparts
from steer.recipe.schema import OWN, Recipe, Steer
from steer.results.provenance import Provenance, Weights
from steer.results.result import Result, content_hash
from steer.tasks.task import Example

RESULT_REVISION = 3  # increase when a recipe's results may change: saved results are then computed again
UNABLATED = ("clean", "steer", "position-swap")  # kinds of recipes that ablate nothing
REFERENCE = 2_000  # episodes of another set that means are taken over, at most
Tell = Callable[[float], None]


def run_experiment(
    loaded: Loaded, checkpoint: Checkpoint, tell: Tell = lambda done: None, engine: Engine | None = None
) -> Result:
    """Run a recipe on a checkpoint. Recipes that share an engine share its clean run."""
    started, recipe = time.perf_counter(), loaded.recipe
    engine = engine or Engine(checkpoint)
    plan = loaded.plan(engine.shape)
    check_task(recipe, checkpoint)
    episodes = checkpoint.task.examples(recipe.episodes, checkpoint.record.data_seed, changed_variable(recipe))
    check_lengths(episodes, checkpoint)
    others = counterparts(episodes, recipe)
    parts = engine.parts(episodes)
    collectors = Collectors(Setting(recipe, engine, episodes, place_warnings(plan, parts)), plan)
    reference = reference_parts(recipe, checkpoint, engine)
    session = Session(engine, plan, parts, recipe.ablation, recipe.seed, reference, tell, others)
    saved: dict[str, list[tuple[list[int], Tensor]]] = {}
    for part, condition, values in session.results():
        collectors.add(part, condition, values)
        for site in dict.fromkeys(site for name in recipe.tensors for site in engine.shape.expand_sites(name)):
            value = site_value(engine.model, values, site)
            saved.setdefault(f"{condition}/{site}", []).append((part.rows, value.cpu()))
    collectors.generate(session)
    rows, details = collectors.rows(), collectors.details()
    tensors = {name: _in_order(parts, len(episodes)) for name, parts in saved.items()}
    provenance = describe(loaded, checkpoint, plan, len(episodes), reference)
    provenance = replace(provenance, seconds=round(time.perf_counter() - started, 2))
    return Result(provenance, rows, tensors, details)


def check_task(recipe: Recipe, checkpoint: Checkpoint) -> None:
    if recipe.task is not checkpoint.task:
        raise SteerError(
            f"the recipe is about the task {recipe.task.name!r}, {checkpoint.name} of {checkpoint.task.name!r}"
        )


def check_lengths(episodes: Sequence[Example], checkpoint: Checkpoint) -> None:
    longest, most = max(len(episode.prompt) for episode in episodes), checkpoint.model.config.max_length
    if longest > most:
        raise SteerError(f"episodes: prompts of up to {longest} tokens; {checkpoint.name} takes {most}")


def place_warnings(plan: Plan, parts: Sequence[Part]) -> dict[str, str]:
    """Conditions whose edits name places that no sequence has. Where none of them is there, nothing was edited."""
    longest = {True: max(p.prompt.shape[1] for p in parts), False: max(p.output.shape[1] for p in parts)}
    found, earlier = {}, ""  # the first link of a chain has the places, the last one the condition
    for run in plan.runs:
        edits = [edit for edit in run.edits if edit.places]
        beyond = {place for edit in edits for place in edit.places if place > longest[of_prompt(edit.site)]}
        if edits and all(place in beyond for edit in edits for place in edit.places):
            raise SteerError(f"places: no sequence has a place {min(beyond)}: {run.name!r} would edit nothing")
        text = f"no sequence has a place {', '.join(map(str, sorted(beyond)))}" if beyond else earlier
        if text and run.condition:
            found[run.condition] = text
        earlier = "" if run.condition else text
    return found


def reference_parts(recipe: Recipe, checkpoint: Checkpoint, engine: Engine) -> list[Part] | None:
    """The episodes that ablation means are taken over, when they are not the recipe's own."""
    if recipe.ablation.reference == OWN:
        return None
    return engine.parts(checkpoint.task.split(recipe.ablation.reference, checkpoint.record.data_seed)[:REFERENCE])


def describe(
    loaded: Loaded, checkpoint: Checkpoint, plan: Plan, episodes: int, reference: list[Part] | None
) -> Provenance:
    """Where the numbers come from, so that anybody can get them again."""
    recipe, weight = loaded.recipe, checkpoint.model.unembed.weight
    edits = {
        run.condition: [str(edit.site) for edit in run.edits if not is_held(edit)] for run in plan.runs if run.condition
    }
    return Provenance(
        loaded.name, Weights(checkpoint.name, checkpoint.record.weights_sha256), episodes, recipe.episodes.count,
        recipe.kind, recipe.description, recipe.figure,
        shown=recipe.sets[-1].name if isinstance(recipe, Steer) else "",
        hash=experiment_hash(recipe, checkpoint), recipe=recipe.model_dump(mode="json"), changes=tuple(loaded.changes),
        edited={condition: tuple(sites) for condition, sites in edits.items()},
        ablation="" if recipe.kind in UNABLATED else describe_ablation(recipe, reference),
        layer_norm="recomputed on edited streams",
        intervals="95 %, bootstrap over examples; Wilson where an example is one hit or miss",
        forwards=plan.forwards, device=str(weight.device), dtype=str(weight.dtype).removeprefix("torch."),
        versions=versions(), task=checkpoint.task.name,
    )  # fmt: skip


def versions() -> dict[str, str]:
    found = {name: installed(name) for name in ("torch", "nnsight", "numpy")}
    return {"steer": __version__, "python": platform.python_version(), **found}


def describe_ablation(recipe: Recipe, reference: list[Part] | None) -> str:
    """What stands in for an ablated value. Positions are the same in every example: some values leave them alone."""
    ablation = recipe.ablation
    kept = "; position embeddings keep their values"
    if ablation.value != "mean":
        return ablation.value + kept * (ablation.value == "resample")
    count = sum(len(part.rows) for part in reference or [])
    episodes = f"the first {count:,} {ablation.reference}" if count else "the recipe's own"
    return f"mean by {ablation.over} over {episodes} episodes" + kept * (ablation.over == "position")


def experiment_hash(recipe: Recipe, checkpoint: Checkpoint) -> str:
    question = recipe.model_dump(mode="json", exclude={"version", "description", "figure", "checkpoint"})
    roles = {role: [str(node) for node in heads] for role, heads in checkpoint.shape.roles}
    settings = {"dtype": str(checkpoint.model.unembed.weight.dtype), "roles": roles, "numbers": RESULT_REVISION}
    return content_hash(question, checkpoint.record.weights_sha256, __version__, settings)


def _in_order(parts: list[tuple[list[int], Tensor]], count: int) -> Tensor:
    """Batches put back into the order of the episodes, padded with zeros to one size."""
    size = [max(value.shape[axis] for _, value in parts) for axis in range(1, parts[0][1].ndim)]
    whole = parts[0][1].new_zeros(count, *size)
    for rows, value in parts:
        for row, one in zip(rows, value, strict=True):
            whole[row][tuple(slice(n) for n in one.shape)] = one
    return whole
