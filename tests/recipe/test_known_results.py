"""From the question to the numbers, in one and the same folder: another question never gets the old numbers."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import TINY
from tokens import RECIPE

from steer.experiments.many import run_loaded
from steer.experiments.one import experiment_hash
from steer.models.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from steer.models.plain.transformer import Transformer, initialise
from steer.recipe.load import load_recipe
from steer.results.files import read_result, saved_result
from steer.results.provenance import Weights
from steer.tasks.compositional.selection import Episodes, select

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
    assert told.checkpoint == Weights("tiny", tiny.record.weights_sha256, config=tiny.record.reading)


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
