"""One prompt, one variable changed: the clean answer, the predicted one, the steered one, and the attention of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from steer.anatomy.names import Site
from steer.base.errors import SteerError
from steer.engine.engine import Engine, Session
from steer.engine.values import site_value
from steer.experiments.api import build_recipe
from steer.experiments.attend import axis_tokens, plain_numbers
from steer.models.checkpoint import Checkpoint
from steer.recipe.lower import lower
from steer.recipe.schema import Ablation
from steer.results.details import Pattern
from steer.tasks.compositional.counterparts import Variable, counterpart
from steer.tasks.compositional.episode import Episode
from steer.tasks.compositional.vocabulary import decode_answer

STEERED = "steered"
# Where each variable is changed: what the circuit's roles say carries it.
SITES: dict[Variable, tuple[str, tuple[str, ...]]] = {
    "index-in-question": ("positions", ("$question-broadcast:all.v",)),
    "argument": ("counterpart", ("$question-broadcast:all.z",)),
    "relative-index": ("counterpart", ("$rhs-scanner:all.z", "$rhs-scanner:block.z")),
    "function": ("counterpart", ("$rhs-scanner:all.z", "$rhs-scanner:block.z")),
}


@dataclass(frozen=True)
class SteeredAnswer:
    """What the model says, what it should say with one variable changed, and what it says when steered."""

    prompt: str
    checkpoint: str
    variable: str
    sites: tuple[str, ...]
    right: tuple[str, ...]  # Algorithm 1
    answer: tuple[str, ...]  # the model's
    predicted: tuple[str, ...]  # Algorithm 1 with the variable changed
    steered: tuple[str, ...]  # the model's, with the intervention on
    before: Pattern
    after: Pattern


@torch.no_grad()
def ask(checkpoint: Checkpoint, episode: Episode, variable: Variable, sites: Sequence[str] = ()) -> SteeredAnswer:
    other = counterpart(episode, variable)
    if other is None:
        raise SteerError(f"the {variable} of this prompt cannot be changed: {_why(variable, episode)}")
    by, usual = SITES[variable]
    recipe = build_recipe(
        kind="steer", variable=variable, by=by, sets=[{"name": STEERED, "sites": list(sites or usual)}],
        episodes={"arity": 2}, measures=[{"name": "attention-pattern", "heads": "$output"}, {"name": "exact-match"}],
    ).recipe  # fmt: skip
    engine = Engine(checkpoint)
    plan = lower(recipe, engine.shape)
    head = engine.shape.one_head("$output")

    def session(shown: Episode) -> Session:
        return Session(engine, plan, engine.parts([shown]), Ablation(), counterparts=[other])

    def write(condition: str) -> tuple[str, ...]:
        one = session(episode)
        return decode_answer(one.generate(condition, one.parts[0])[0].tolist())

    def look(condition: str, written: tuple[str, ...]) -> Pattern:
        shown = replace(episode, answer=written)
        values = next(v for _, name, v in session(shown).results() if name == condition)
        queries, keys = axis_tokens(head, episode, written)
        weights = plain_numbers(site_value(engine.model, values, Site(head, "pattern"))[0])
        return Pattern(str(head), str(episode), written, queries, keys, weights, condition, expected=episode.answer)

    clean, steered = write("before"), write(STEERED)
    changed = tuple(str(edit.site) for run in plan.runs if run.name == STEERED for edit in run.edits)
    return SteeredAnswer(
        str(episode), checkpoint.name, variable, changed, episode.answer, clean, other.answer, steered,
        look("before", clean), look(STEERED, steered),
    )  # fmt: skip


def _why(variable: Variable, episode: Episode) -> str:
    if len(episode.question.arguments) != 2:
        return "a question of two arguments is needed (`steer attend` shows the answer to any other)"
    return {
        "function": "the support shows no other function of two arguments with another answer",
        "argument": "there is no primitive besides the two arguments",
    }.get(variable, "the answer would be the same")
