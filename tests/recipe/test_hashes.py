"""Known results: another question, other weights or other settings never get an old answer.

Every key that a recipe may have is changed in turn; the keys are taken from the schema itself, so that a new one is
tested without anybody's thinking of it.
"""

from __future__ import annotations

import json
import shutil
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import TINY
from pydantic import BaseModel
from tokens import RECIPE

import steer.experiments.one as experiment
from steer.experiments.many import run_loaded
from steer.experiments.one import experiment_hash
from steer.models.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from steer.models.plain.transformer import Transformer, initialise
from steer.recipe.load import load_recipe
from steer.recipe.schema import Recipe
from steer.results.circuit import Circuit, Described
from steer.results.files import read_result, saved_result
from steer.results.provenance import Weights
from steer.results.result import content_hash
from steer.tasks.compositional.selection import Episodes, select
from steer.tasks.prompts.task import Prompts
from steer.tasks.task import TaskOf

SILENT = {"description", "figure", "checkpoint"}  # words, pictures, and a name that is not the weights
MEASURES = [
    {"name": "exact-match"}, {"name": "attention-mass", "heads": "dec-cross-0.0"}, {"name": "logit-attribution"},
    {"name": "r-squared", "site": "dec-cross-0.0.k", "label": "index-in-question", "tokens": "colours"},
    {"name": "attention-pattern", "heads": ["dec-cross-0.0"]}, {"name": "ov-alignment", "heads": ["dec-cross-0.0"]},
    {"name": "logit-difference"}, {"name": "answer-probability"},
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
        {"sites": "enc-mlp-1", "freeze": True},
        {"sites": "enc.tok", "add": {"direction": "nowhere", "scale": [1.0, 2.0]}},
        {"sites": "enc-mlp-2", "project": {"subspace": "nowhere"}}]}]},
    {"kind": "ablate-set", "nodes": "enc-self-0.0"},
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
        yield (3, 4) if options[0] is int else (*(value or ()), *others("", options[0]))
        if value:
            yield value[::-1] if len(value) > 1 else ()
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


@pytest.fixture(scope="module")
def tiny() -> Checkpoint:
    return load_checkpoint("tiny")


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
    assert {pair for pair in named if pair[1] not in ("episodes", "ablation")} <= changed
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


# From the question to the numbers, in one and the same folder


TEXT = """\
kind: ablate-set
nodes: enc-self-0.0
checkpoint: tiny
episodes: {count: 12}
measures: [{name: token-accuracy}, {name: attention-mass, heads: dec-cross-0.0}, {name: logit-attribution}]
figure: none
"""


def run(path: Path, folder: Path, *changes: str, checkpoint: Checkpoint | None = None):
    loaded = load_recipe(str(path), *changes)
    return run_loaded(loaded, checkpoint or load_checkpoint("tiny"), folder, False, lambda done: None)


def save_other(folder: Path, seed: int) -> None:
    """A checkpoint of other weights."""
    model = Transformer(TINY)
    initialise(model, torch.Generator().manual_seed(seed))
    save_checkpoint(folder, model, load_checkpoint("tiny").record.model_copy(update={"config": TINY}))


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the answer to the question as it is written."""
    home = tmp_path_factory.mktemp("answered")
    (home / "mine.yaml").write_text(TEXT)
    run(home / "mine.yaml", home / "out")
    return home / "out"


def numbers(outcome) -> list[float]:
    return [row.value for row in outcome.result.rows]


@pytest.mark.parametrize(
    "change",
    ["episodes.count=11", "episodes.seed=3", "episodes.split=validation", "episodes.arity=1", "episodes.length=[2, 4]",
     "ablation.value=zero", "ablation.over=token", "ablation.reference=validation", "places=[2, 3]",
     "nodes=enc-self-0.1", "kind=keep-set"],
)  # fmt: skip
def test_another_question_in_the_same_folder_gets_other_numbers(answered: Path, tmp_path: Path, change: str):
    path, folder = answered.parent / "mine.yaml", tmp_path / "out"
    shutil.copytree(answered, folder)
    assert run(path, folder).unchanged
    second = run(path, folder, change)
    assert not second.unchanged
    assert numbers(second) != [row.value for row in read_result(answered).rows]
    assert numbers(second) == numbers(run(path, tmp_path / "fresh", change))
    assert read_result(folder).rows == second.result.rows
    assert run(path, folder, change).unchanged


def test_other_weights_or_precision_in_the_same_folder_get_other_numbers(recipe_file, tmp_path: Path):
    path, folder = recipe_file(TEXT), tmp_path / "out"
    found = []
    for seed in (1, 2):
        save_other(tmp_path / str(seed) / "same name", seed)
        for kind in (torch.float32, torch.float64):
            checkpoint = load_checkpoint(str(tmp_path / str(seed) / "same name"), dtype=kind)
            outcome = run(path, folder, checkpoint=checkpoint)
            assert not outcome.unchanged
            assert outcome.result.provenance.dtype == str(kind).removeprefix("torch.")
            found.append(numbers(outcome))
    assert len({tuple(values) for values in found}) == 4


def test_a_folder_knows_its_own_content_alone(recipe_file, tmp_path: Path):
    folder = tmp_path / "out"
    outcome = run(recipe_file(TEXT), folder)
    content = outcome.result.provenance.hash
    assert saved_result(folder, content).rows == outcome.result.rows
    assert saved_result(folder, content[:-1] + "?") is None
    assert saved_result(tmp_path / "nowhere", content) is None
    told = json.loads((folder / "result.json").read_text())
    del told["hash"]
    (folder / "result.json").write_text(json.dumps(told))
    assert saved_result(folder, content) is None
    (folder / "result.json").write_text("{")
    assert not run(tmp_path / "mine.yaml", folder).unchanged


def test_other_words_keep_the_numbers_and_are_written(recipe_file, tmp_path: Path):
    path, folder = recipe_file(TEXT), tmp_path / "out"
    first = run(path, folder)
    again = run(path, folder, "description=in other words")
    assert again.unchanged
    assert again.result.rows == first.result.rows
    assert read_result(folder).provenance.description == "in other words"


def test_what_a_result_says_of_its_question_gives_its_hash_again(recipe_file, tmp_path: Path, tiny: Checkpoint):
    outcome = run(recipe_file(TEXT), tmp_path / "out", "ablation.value=zero")
    told = outcome.result.provenance
    assert told.hash == experiment_hash(RECIPE.validate_python(told.recipe), tiny)
    assert told.ablation == "zero"
    assert told.checkpoint == Weights("tiny", tiny.record.weights_sha256)


def test_a_recipe_asks_the_episodes_of_the_checkpoints_own_seed(recipe_file, tmp_path: Path, tiny: Checkpoint):
    record = tiny.record.model_copy(update={"protocol": tiny.record.protocol | {"data_seed": 1}})
    shown = "measures=[{name: attention-pattern, heads: dec-cross-0.0, episode: 4}]"
    asked = Checkpoint(tiny.transformer, record, "tiny")
    found = run(recipe_file(TEXT), tmp_path / "out", shown, checkpoint=asked).result.details
    assert found[0].prompt == str(select(Episodes(count=12), 1)[4])


@pytest.mark.usefixtures("png_only")
def test_reproduce_again_with_more_episodes_or_other_weights_is_made_again(steer, tmp_path: Path):
    out = tmp_path / "out"

    def figures(*more: object) -> dict[str, Any]:
        done = steer("reproduce", "--out", out, "--json", *more)
        assert done.exit_code == 0, done.output
        shown = [name for name, pictures in json.loads(done.stdout)["pictures"].items() if pictures]
        return {name: read_result(out / name) for name in shown}

    few, more = figures("-c", "tiny", "--episodes", 10), figures("-c", "tiny", "--episodes", 14)
    assert {found.provenance.examples for found in few.values()} == {10}
    assert {found.provenance.examples for found in more.values()} == {14}
    assert all(few[name].rows != more[name].rows for name in few)
    save_other(tmp_path / "tiny", 1)
    other = figures("-c", tmp_path / "tiny", "--episodes", 14)
    assert all(other[name].rows != more[name].rows for name in other)
