"""Known results: another question, other weights or other settings never get an old answer.

Every key that a recipe may have is changed in turn; the keys are taken from the schema itself, so that a new one is
tested without anybody's thinking of it.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from pydantic import BaseModel
from tokens import RECIPE

import steer.experiments.one as experiment
from steer.experiments.one import experiment_hash
from steer.models.checkpoint import Checkpoint, load_checkpoint
from steer.recipe.schema import Recipe
from steer.results.circuit import Circuit, Described
from steer.results.result import content_hash
from steer.tasks.prompts.task import Prompts
from steer.tasks.task import TaskOf

SILENT = {"description", "figure", "checkpoint"}  # words, pictures, and a name that is not the weights
MEASURES = [
    {"name": "exact-match"}, {"name": "attention-mass", "heads": "dec-cross-0.0"}, {"name": "logit-attribution"},
    {"name": "r-squared", "site": "dec-cross-0.0.k", "label": "index-in-question", "tokens": "colours"},
    {"name": "attention-pattern", "heads": ["dec-cross-0.0"]}, {"name": "ov-alignment", "heads": ["dec-cross-0.0"]},
    {"name": "logit-difference"}, {"name": "answer-probability"}, {"name": "logit-lens"},
]  # fmt: skip
FULL = {
    "freeze": ["dec-cross-0.0.q"], "places": [2, 3], "tensors": "enc.tok", "measures": MEASURES,
    "episodes": {"arity": 2, "length": [1, 3]},
}  # fmt: skip
SWEEP = {"target": "dec-cross-0.0.k", "sources": "enc-self-*.*"}
KINDS: list[dict[str, Any]] = [
    {"kind": "keep-only-one"} | SWEEP,
    {"kind": "ablate-only-one"} | SWEEP,
    {"kind": "chained-patch", "sources": "enc-self-0.*", "chain": ["enc-self-1.0.v", "dec-cross-0.0.k"]},
    {"kind": "position-swap", "ports": "enc-self-0.0.v"},
    {"kind": "chained-swap", "ports": "enc-self-0.0.v", "chain": ["dec-cross-0.0.k"], "ablate": "enc-self-0.1"},
    {"kind": "steer", "variable": "index-in-question", "sets": [{"name": "a", "sites": "enc-self-0.0.z"}]},
    {"kind": "activation-patch", "variable": "argument", "sites": "enc-self-0.0.z"},
    {"kind": "intervene", "variable": "index-in-question", "conditions": [{"name": "a", "edits": [
        {"sites": "enc-self-0.0.z", "scale": 2.0, "places": [1]}, {"sites": "enc-mlp-0", "from": "counterpart"},
        {"sites": "enc-self-0.0", "ablate": "zero", "into": ["dec-cross-0.0.k"]},
        {"sites": "enc-mlp-1", "freeze": True}, {"sites": "enc-mlp-1", "from": {"condition": "b"}, "through": "logits"},
        {"sites": "enc.tok", "add": {"direction": "nowhere", "scale": [1.0, 2.0]}},
        {"sites": "enc-self-0.1.v", "from": {"positions": [1, 3]}},
        {"sites": "enc-mlp-2", "project": {"subspace": "nowhere"}}]}]},
    {"kind": "align", "variable": "index-in-question", "sets": [{"name": "a", "sites": "enc-self-0.0.z"}], "k": [1, 2]},
    {"kind": "ablate-set", "nodes": "enc-self-0.0"},
    {"kind": "ablate-each", "nodes": "enc-self-0.0"},
    {"kind": "keep-set", "nodes": "enc-self-0.0"},
    {"kind": "compare", "conditions": [{"name": "a", "ablate": "enc-mlp-0"},
                                       {"name": "b", "keep": "enc-mlp-0", "among": "enc-mlp-*"}]},
    {"kind": "clean"},
]  # fmt: skip
Change = tuple[str, str, Any]  # the schema's class, its key, and the whole thing with this one value changed


def others(value: Any, annotation: Any) -> Iterator[Any]:
    """Other values of the kind that an annotation allows."""
    origin, options = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        yield from others(value, options[0])
    elif origin is typing.Literal:
        yield from (option for option in options if option != value)
    elif origin in (typing.Union, types.UnionType):
        for option in options:
            yield from ([] if value is None else [None]) if option is type(None) else others(value, option)
    elif origin is tuple:
        yield (3, 4) if options[-1] is not Ellipsis else (*(value or ()), *others("", options[0]))
        if value:
            yield value[::-1] if len(value) > 1 else ()
    elif origin is dict:
        yield {"seed": [0]}
    elif annotation is bool:
        yield not value
    elif annotation in (int, float):
        yield (value or 0) + 1
    elif annotation is str:
        yield f"{value or ''}x"
    elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield from ()  # another part of the test has one that is not left out
    elif origin is TaskOf:
        yield Prompts((), "x.jsonl", "a" * 64)
    else:
        raise NotImplementedError(f"the schema has a new kind of value: {annotation}")


def changes(made: BaseModel) -> Iterator[Change]:
    """Everything that can be changed in a recipe, or in a part of it, one value at a time."""
    for key, told in type(made).model_fields.items():
        value = getattr(made, key)
        if isinstance(value, BaseModel):
            parts = [(where, inner, part) for where, inner, part in changes(value)]
            parts += [(type(made).__name__, key, None)] if told.default is None else []
        elif isinstance(value, tuple) and value and isinstance(value[0], BaseModel):
            parts = [
                (where, inner, (*value[:n], part, *value[n + 1 :]))
                for n, entry in enumerate(value)
                for where, inner, part in changes(entry)
            ]
            parts.append((type(made).__name__, key, (*value, value[0])))
        else:
            parts = [(type(made).__name__, key, other) for other in others(value, told.annotation)]
        for where, inner, part in parts:
            yield where, inner, made.model_copy(update={key: part})


def recipe(told: dict[str, Any]) -> Recipe:
    return RECIPE.validate_python(FULL | told)


@pytest.mark.parametrize("told", KINDS, ids=lambda told: told["kind"])
def test_every_key_of_a_recipe_makes_another_question(tiny: Checkpoint, told: dict[str, Any]):
    asked = recipe(told)
    hashes = {experiment_hash(asked, tiny): "as it is"}
    for where, key, other in changes(asked):
        found = experiment_hash(other, tiny)
        if key in SILENT:
            assert found == experiment_hash(asked, tiny), f"{where}.{key}"
        else:
            assert hashes.setdefault(found, f"{where}.{key}: {other}") == f"{where}.{key}: {other}"


def test_all_keys_of_the_schema_were_changed():
    """What the published schema names, the test above has changed: nothing is left out by the way it walks."""
    schema = RECIPE.json_schema()["$defs"]
    named = {
        (kind, key)
        for kind, told in schema.items()
        for key, value in told.get("properties", {}).items()
        if "const" not in value
    }
    changed = {(where, key) for told in KINDS for where, key, _ in changes(recipe(told))}
    assert {pair for pair in named if pair[1] not in ("episodes", "train", "ablation")} <= changed
    assert len(named) > 100


def test_the_weights_the_version_and_the_way_of_counting_belong_to_the_question(
    tiny: Checkpoint, monkeypatch: pytest.MonkeyPatch
):
    asked = recipe(KINDS[0])
    other = tiny.record.model_copy(update={"weights_sha256": "0" * 64})
    hashes = [experiment_hash(asked, tiny), experiment_hash(asked, Checkpoint(tiny.transformer, other, tiny.name))]
    hashes.append(experiment_hash(asked, load_checkpoint("tiny", dtype=torch.float64)))
    monkeypatch.setattr(experiment, "__version__", "0")
    hashes.append(experiment_hash(asked, tiny))
    monkeypatch.setattr(experiment, "RESULT_REVISION", -1)
    hashes.append(experiment_hash(asked, tiny))
    assert len(set(hashes)) == len(hashes)
    assert experiment_hash(asked, Checkpoint(tiny.transformer, tiny.record, "another name")) == hashes[-1]


EDIT = {"sites": "enc-self-0.0.z", "ablate": "resample"}
BY_BATCH = [
    {"ablation": {"value": "resample"}},
    {"ablation": {"over": "padded", "reference": "train"}},
    {"kind": "intervene", "nodes": None, "conditions": [{"name": "lent", "edits": [EDIT]}]},
]


@pytest.mark.parametrize("keys", BY_BATCH)
def test_memory_belongs_to_a_question_whose_numbers_follow_from_who_shares_a_batch(tiny: Checkpoint, keys: dict):
    told = {"kind": "ablate-set", "nodes": "enc-self-0.0", "measures": [{"name": "exact-match"}]}
    asked, plain = (recipe({k: v for k, v in (told | more).items() if v is not None}) for more in (keys, {}))
    assert experiment_hash(asked, tiny, memory=1 << 20) != experiment_hash(asked, tiny)
    assert experiment_hash(plain, tiny, memory=1 << 20) == experiment_hash(plain, tiny)


OTHERWISE = {  # the same weights, read in another way, or asked other episodes
    "the scale of positions": {"config": {"position_scale": 1.0}},
    "how the heads are cut": {"config": {"heads": 8, "d_head": 8}},
    "the activation": {"config": {"activation": "relu"}},
    "which row is which token": {"vocabulary": "exchanged"},
    "whose episodes": {"protocol": {"data_seed": 1}},
}


def read_otherwise(tiny: Checkpoint, change: dict[str, Any]) -> Checkpoint:
    record = tiny.record
    if "config" in change:
        record = record.model_copy(update={"config": replace(record.config, **change["config"])})
    if "vocabulary" in change:
        *most, one, other = record.vocabulary
        record = record.model_copy(update={"vocabulary": (*most, other, one)})
    if "protocol" in change:
        record = record.model_copy(update={"protocol": record.protocol | change["protocol"]})
    return Checkpoint(tiny.transformer, record, tiny.name)


def test_how_the_weights_are_read_belongs_to_the_question(tiny: Checkpoint):
    asked = recipe(KINDS[0])
    hashes = {"as it is": experiment_hash(asked, tiny)}
    hashes |= {what: experiment_hash(asked, read_otherwise(tiny, change)) for what, change in OTHERWISE.items()}
    assert len(set(hashes.values())) == len(OTHERWISE) + 1
    words = tiny.record.model_copy(update={"description": "another", "history": [], "version": "0"})
    assert experiment_hash(asked, Checkpoint(tiny.transformer, words, tiny.name)) == hashes["as it is"]


def played(tiny: Checkpoint, **roles: tuple[str, ...]) -> Checkpoint:
    circuit = Circuit(checkpoint=Described(name="tiny", sha256=tiny.record.weights_sha256), roles=roles)
    return Checkpoint(tiny.transformer, tiny.record, tiny.name, circuit)


def test_who_plays_a_role_and_who_leads_it_belong_to_the_question(tiny: Checkpoint):
    asked = recipe(KINDS[0])
    casts = [{}, {"output": ("dec-cross-0.0",)}, {"output": ("dec-cross-0.0", "dec-cross-0.1")}]
    casts += [{"output": ("dec-cross-0.1", "dec-cross-0.0")}, {"rhs-scanner": ("dec-cross-0.0",)}]
    assert len({experiment_hash(asked, played(tiny, **cast)) for cast in casts}) == len(casts)


def test_a_hash_is_of_all_that_is_told():
    told = ({"a": 1, "b": [1, 2]}, "weights", "1.0", {"dtype": "float32"})
    again = content_hash({"b": [1, 2], "a": 1}, *told[1:])
    assert content_hash(*told) == again  # the order of keys is none
    changed = [({"a": 1, "b": [2, 1]}, *told[1:]), (told[0], "", *told[2:]), (*told[:2], "", told[3]), (*told[:3], {})]
    assert len({content_hash(*one) for one in [told, *changed]}) == 5
