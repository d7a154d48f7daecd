"""A recipe's walk, from the file to the result. This file only calls the stages in order.

recipe -> plan (`lower`) -> runs (`engine`) -> values for each episode (`measure`) -> rows with intervals (`results`)
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version as installed
from typing import Any

import torch
from torch import Tensor

from steer.engine.engine import Engine, Part, Session, Values
from steer.engine.values import site_value
from steer.library import Loaded
from steer.measure.answers import exact_match, exact_tokens, token_accuracy
from steer.measure.attention import attention_accuracy, attention_mass, is_colour
from steer.measure.attribution import CONSTANT, logit_attribution
from steer.measure.tally import Tally, bootstrap_weights
from steer.measured import attribution_sites
from steer.model.batch import collate
from steer.model.checkpoint import Checkpoint
from steer.names import Site
from steer.plan import Plan
from steer.recipe import AnswerMeasure, AttentionMeasure, AttributionMeasure, Recipe
from steer.results import Result, content_hash
from steer.selection import counterfactual, select
from steer.task.episode import Episode
from steer.version import __version__

POSITIONS = 5  # colours of an answer, at most
ATTENTION = {"attention-accuracy": attention_accuracy, "attention-mass": attention_mass}
ANSWERS = {"exact-match": exact_match, "token-accuracy": token_accuracy}
Tell = Callable[[float], None]


def run_experiment(loaded: Loaded, checkpoint: Checkpoint, tell: Tell = lambda done: None) -> Result:
    """Run a recipe on a checkpoint."""
    started, recipe = time.perf_counter(), loaded.recipe
    engine = Engine(checkpoint)
    plan = loaded.plan(engine.shape)
    episodes = select(recipe.episodes, checkpoint.record.data_seed)
    reference = reference_parts(recipe, checkpoint, engine)
    session = Session(engine, plan, engine.parts(episodes), recipe.ablation, recipe.seed, reference, tell)
    tallies = Tallies(recipe, engine, episodes)
    saved: dict[str, list[tuple[list[int], Tensor]]] = {}
    for part, condition, values in session.results():
        tallies.measure(part, condition, values)
        for site in dict.fromkeys(site for name in recipe.tensors for site in engine.shape.expand_sites(name)):
            saved.setdefault(f"{condition}/{site}", []).append(
                (part.rows, site_value(engine.model, values, site).cpu())
            )
    tallies.generate(session)
    weights = bootstrap_weights(len(episodes), recipe.seed)
    rows = [row for tally in tallies.done for row in tally.table(weights)]
    told = describe(loaded, checkpoint, plan, len(episodes), reference)
    told["seconds"] = round(time.perf_counter() - started, 2)
    return Result(told, rows, {name: _in_order(parts, len(episodes)) for name, parts in saved.items()})


class Tallies:
    """Every measure in every condition."""

    def __init__(self, recipe: Recipe, engine: Engine, episodes: Sequence[Episode]) -> None:
        self.recipe, self.engine, self.episodes = recipe, engine, episodes
        self.answers = {"answer": list(episodes)}
        if any(measure.against == "counterfactual" for measure in recipe.measures):
            self.answers["counterfactual"] = counterfactual(episodes, recipe)
        self._found: dict[tuple[str, ...], Tally] = {}
        self._targets: dict[tuple[int, str], Tensor] = {}

    @property
    def done(self) -> list[Tally]:
        return list(self._found.values())

    def tally(self, positions: int, **labels: str) -> Tally:
        key = tuple(labels.values())
        return self._found.setdefault(key, Tally(len(self.episodes), positions, **labels))

    def target(self, part: Part, against: str) -> Tensor:
        """The tokens that each step should say: B T."""
        key = (part.number, against)
        if key not in self._targets:
            episodes = [self.answers[against][row] for row in part.rows]
            self._targets[key] = torch.from_numpy(collate(episodes).target).to(self.engine.device)
        return self._targets[key]

    def measure(self, part: Part, condition: str, values: Values) -> None:
        for measure in self.recipe.measures:
            target = self.target(part, measure.against)
            if isinstance(measure, AttentionMeasure):
                self._measure_heads(measure, part, condition, values, target)
            elif isinstance(measure, AttributionMeasure):
                self._measure_components(measure, part, condition, values, target)
            elif measure.decoding == "forced":
                found = ANSWERS[measure.name](values["logits"], target)
                self._put(self._answer_tally(measure, condition), part, *found)

    def _measure_heads(
        self, measure: AttentionMeasure, part: Part, condition: str, values: Values, target: Tensor
    ) -> None:
        for head in dict.fromkeys(node for text in measure.heads for node in self.engine.shape.expand_heads(text)):
            pattern = site_value(self.engine.model, values, Site(head, "pattern"))  # B T S
            found = ATTENTION[measure.name](pattern, part.prompt, target)
            labels = {"condition": condition, "measure": measure.name, "head": str(head), "against": measure.against}
            labels |= {"decoding": "forced"}
            self._put(self.tally(POSITIONS, **labels), part, *found)

    def _measure_components(
        self, measure: AttributionMeasure, part: Part, condition: str, values: Values, target: Tensor
    ) -> None:
        shape, model = self.engine.shape, self.engine.model
        named = dict.fromkeys(node for text in measure.components for node in shape.expand_nodes(text))
        *writers, final = attribution_sites(shape)
        writes = {
            str(s.node): site_value(model, values, Site(s.node, "out" if s.node.is_head else None)) for s in writers
        }
        shares = logit_attribution(model, writes, values[final.path], target)
        for component in (*map(str, named), CONSTANT):
            labels = {"condition": condition, "measure": measure.name, "head": component, "against": "answer"}
            labels |= {"decoding": "forced"}
            self._put(self.tally(POSITIONS, **labels), part, shares[component].double(), is_colour(target))

    def generate(self, session: Session) -> None:
        """Answers that the model writes itself, with each condition's interventions on."""
        greedy = [m for m in self.recipe.measures if isinstance(m, AnswerMeasure) and m.decoding == "greedy"]
        conditions = [session.plan.clean_condition, *(run.condition for run in session.plan.runs)]
        for condition in dict.fromkeys(c for c in conditions if c is not None and greedy):
            for part in session.parts:
                written = session.generate(condition, part)
                for measure in greedy:
                    found = exact_tokens(written, self.target(part, measure.against))
                    self._put(self._answer_tally(measure, condition), part, *found)

    def _answer_tally(self, measure: AnswerMeasure, condition: str) -> Tally:
        positions = 1 if measure.name == "exact-match" else POSITIONS + 1  # EOS is a step too
        labels = {"condition": condition, "measure": measure.name, "head": "", "against": measure.against}
        labels |= {"decoding": measure.decoding}
        return self.tally(positions, **labels)

    @staticmethod
    def _put(tally: Tally, part: Part, values: Tensor, counted: Tensor) -> None:
        width = tally.values.shape[1]
        tally.put(part.rows, values[:, :width].cpu().numpy(), counted[:, :width].double().cpu().numpy())


def reference_parts(recipe: Recipe, checkpoint: Checkpoint, engine: Engine) -> list[Part] | None:
    """The episodes that ablation means are taken over, when they are not the recipe's own."""
    if recipe.ablation.reference == "episodes":
        return None
    from steer.task.splits import make_splits

    return engine.parts(make_splits(checkpoint.record.data_seed)[recipe.ablation.reference][:2_000])


def describe(
    loaded: Loaded, checkpoint: Checkpoint, plan: Plan, episodes: int, reference: list[Part] | None
) -> dict[str, Any]:
    """Where the numbers come from, so that anybody can get them again."""
    recipe = loaded.recipe
    return {
        "name": loaded.name,
        "hash": experiment_hash(recipe, checkpoint),
        "recipe": recipe.model_dump(mode="json"),
        "checkpoint": {"name": checkpoint.name, "sha256": checkpoint.record.weights_sha256},
        "episodes": episodes,
        "ablation": describe_ablation(recipe, reference),
        "layer_norm": "recomputed on edited streams",
        "intervals": "95 %, bootstrap over episodes",
        "forwards": plan.forwards,
        "device": str(checkpoint.model.unembed.weight.device),
        "dtype": str(checkpoint.model.unembed.weight.dtype).removeprefix("torch."),
        "versions": {"steer": __version__, "python": platform.python_version()}
        | {name: installed(name) for name in ("torch", "nnsight", "numpy")},
    }


def describe_ablation(recipe: Recipe, reference: list[Part] | None) -> str:
    told = recipe.ablation
    if told.value != "mean":
        return told.value
    count = sum(len(part.rows) for part in reference or [])
    return (
        f"mean by {told.over} over "
        + (f"the first {count:,} {told.reference}" if count else "the recipe's own")
        + " episodes"
    )


def experiment_hash(recipe: Recipe, checkpoint: Checkpoint) -> str:
    asked = recipe.model_dump(mode="json", exclude={"description", "figure", "checkpoint"})
    roles = {role: [str(node) for node in players] for role, players in checkpoint.shape.roles}
    settings = {"dtype": str(checkpoint.model.unembed.weight.dtype), "roles": roles}
    return content_hash(asked, checkpoint.record.weights_sha256, __version__, settings)


def _in_order(parts: list[tuple[list[int], Tensor]], count: int) -> Tensor:
    """Batches put back into the order of the episodes, padded with zeros to one size."""
    size = [max(value.shape[axis] for _, value in parts) for axis in range(1, parts[0][1].ndim)]
    whole = parts[0][1].new_zeros(count, *size)
    for rows, value in parts:
        for row, one in zip(rows, value, strict=True):
            whole[row][tuple(slice(n) for n in one.shape)] = one
    return whole
