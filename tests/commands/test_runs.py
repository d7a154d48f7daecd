"""`steer run` and its kin: whole results, the same twice; batches, interrupts, bad calls."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from conftest import GOOD

from steer.base.shipped import RECIPES, recipe_files, recipe_names
from steer.models.families import names_of
from steer.recipe.load import gather, load_recipe
from steer.results.files import read_result, to_json


def test_run_writes_a_whole_result_and_knows_it_the_second_time(steer, recipe_file, tmp_path: Path):
    path, out = recipe_file(GOOD), tmp_path / "out"
    first = json.loads(steer("run", path, "--out", out, "--json").stdout)
    folder = Path(first["folder"])
    assert sorted(p.name for p in folder.iterdir()) == [
        "examples.safetensors",
        "figure.png",
        "result.json",
        "rows.csv",
    ]
    assert first["recipe"]["episodes"]["count"] == 30
    assert first["checkpoint"]["name"]
    assert {"torch", "nnsight", "steer"} <= set(first["versions"])
    again = json.loads(steer("run", path, "--out", out, "--json").stdout)
    assert again["unchanged"]
    assert again["rows"] == first["rows"]
    forced = json.loads(steer("run", path, "--out", out, "--json", "--force").stdout)
    assert not forced["unchanged"]
    assert forced["rows"] == first["rows"]  # same recipe, same checkpoint, same seed: same numbers
    other = json.loads(steer("run", path, "--out", out, "--json", "episodes.count=20").stdout)
    assert other["folder"] != first["folder"]
    assert other["examples"] == 20


def test_rows_carry_intervals_and_both_ends(steer, recipe_file, tmp_path: Path):
    told = json.loads(steer("run", recipe_file(GOOD), "--out", tmp_path, "--json").stdout)
    conditions = {row["condition"] for row in told["rows"]}
    assert {"nothing ablated", "everything ablated", "enc-self-0.0"} <= conditions
    assert all(row["low"] <= row["value"] <= row["high"] for row in told["rows"])
    assert {row["position"] for row in told["rows"]} >= {None, 1, 2, 3}


def test_a_batch_goes_on_past_a_bad_recipe(steer, recipe_file, tmp_path: Path):
    recipe_file(GOOD, "a.yaml")
    recipe_file(GOOD.replace("sources", "sorces"), "b.yaml")
    recipe_file(GOOD.replace("count: 30", "count: 25"), "c.yaml")
    done = steer("run", tmp_path, "nowhere", "--out", tmp_path / "out")
    assert done.exit_code == 1
    assert "b.yaml:3" in done.stderr
    assert "no recipe named 'nowhere'" in done.stderr
    assert {p.name.split("-")[0] for p in (tmp_path / "out").iterdir()} == {"a", "c"}
    assert [line.split()[:2] for line in done.stdout.splitlines()[1:]] == [
        ["nowhere", "failed"], ["a", "done"], ["b", "failed"], ["c", "done"],
    ]  # fmt: skip


def test_processes_give_the_same_rows(steer, recipe_file, tmp_path: Path):
    recipe_file(GOOD, "a.yaml")
    recipe_file(GOOD.replace("count: 30", "count: 25"), "c.yaml")
    steer("run", tmp_path, "--out", tmp_path / "one")
    done = steer("run", tmp_path, "--out", tmp_path / "two", "--jobs", 2)
    assert done.exit_code == 0, done.output
    for folder in (tmp_path / "one").iterdir():
        assert read_result(folder).rows == read_result(tmp_path / "two" / folder.name).rows


def test_saved_tensors_are_the_sites(steer, recipe_file, tmp_path: Path):
    from safetensors.torch import load_file

    text = "kind: ablate-set\nnodes: enc-self-0.1\nepisodes: {count: 30}\ntensors: [enc-self-0.1.z, enc-self-0.1.out]\n"
    path = recipe_file(text + "measures: [{name: exact-match}]\n")
    told = json.loads(steer("run", path, "--out", tmp_path, "--json", "ablation.value=zero").stdout)
    tensors = load_file(Path(told["folder"]) / "tensors.safetensors")
    assert set(tensors) == {f"{c}/enc-self-0.1.{p}" for c in ("nothing ablated", "set ablated") for p in ("z", "out")}
    assert (tensors["set ablated/enc-self-0.1.z"] == 0).all()
    assert tensors["nothing ablated/enc-self-0.1.out"].abs().sum() > 0


OWN = ("authors/", "induction/", "swapping/")
RUNS = [
    (name, value)
    for name in recipe_names()
    for value in ("mean", "zero", "resample")
    if value == "mean" or (load_recipe(name).recipe.ablates and not name.startswith(OWN))
]  # the authors' recipes and those with prompts have ablations of their own


@pytest.mark.parametrize(("recipe", "value"), RUNS)
def test_every_shipped_recipe_runs_with_every_ablation(
    steer, cast: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recipe: str, value: str
):
    monkeypatch.setattr("steer.experiments.examples.REFERENCE", 60)  # means over 2,000 episodes are tested elsewhere
    loaded = load_recipe(recipe)
    own = bool(loaded.recipe.task.source or loaded.recipe.files)  # prompts or directions, and the model they belong to
    changes = ["episodes.count=9", *([] if own else [f"checkpoint={cast}"])]
    if loaded.recipe.learning:
        changes += ["k=[1]", "epochs=1", "train={count: 40}"]
    if value != "mean":  # the same picture with other numbers
        changes += [f"ablation={{value: {value}}}", "figure=none"]
    done = steer("run", recipe, *changes, "--out", tmp_path, "--json")
    assert done.exit_code == 0, done.stderr
    told = json.loads(done.stdout)
    lowered = loaded.lower(loaded.names() if own else names_of(str(cast)))
    conditions = {lowered.clean, *lowered.plan.conditions}
    details = told["details"]
    for found in (told["rows"], details):
        assert not found or loaded.points or {one["condition"] for one in found} == conditions
    assert told["rows"] or details
    assert all(math.isfinite(row[number]) for row in told["rows"] for number in ("value", "low", "high"))


def test_a_description_may_hold_any_sign(steer, recipe_file, tmp_path: Path):
    done = steer("run", recipe_file(GOOD), r"description='x $\frac{ y$ z'", "--out", tmp_path)
    assert done.exit_code == 0, done.output


def test_greedy_and_forced_exact_match_agree(steer, recipe_file, tmp_path: Path):
    text = "kind: ablate-set\nnodes: enc-self-0.1\nepisodes: {count: 60, length: [1, 1]}\n"
    both = "measures: [{name: exact-match, decoding: greedy}, {name: exact-match, decoding: forced}]\n"
    told = json.loads(steer("run", recipe_file(text + both), "--out", tmp_path, "--json").stdout)
    found = {how: [r["value"] for r in told["rows"] if r["decoding"] == how] for how in ("forced", "greedy")}
    assert len(found["forced"]) == 2
    assert found["forced"] == found["greedy"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["run", "keep_on_k"], "did you mean keep_one_k"),
        (["run"], "RECIPE"),
        (["run", "seed=3"], "name at least one recipe"),
        (["run", "FILE", "episodes.arity=2", "episodes.length=[6, 9]"], "0 of 2,000 test episodes match"),
        (["run", "FILE", "checkpoint=nowhere"], "no checkpoint named 'nowhere'"),
        (["run", "FILE", "--dtype", "float16"], "float32, float64 or bfloat16"),
        (["run", "FILE", "--device", "cuda:77"], "no device named"),
        (["run", "FILE", "target=dec-cross-1.77.k"], "target"),
        (["plan", "FILE", "sources=enc-self-5.*"], "sources"),
        (["validate", "EMPTY"], "holds no recipes"),
        (["cp", "keep_one"], "did you mean keep_one_k"),
        (["cp", "keep_one_k", "FILE"], "is there already"),
    ],
)
def test_bad_calls_are_answered(steer, recipe_file, tmp_path: Path, arguments: list[str], says: str):
    path = recipe_file(GOOD)
    (tmp_path / "empty").mkdir()
    filled = [str(path) if a == "FILE" else str(tmp_path / "empty") if a == "EMPTY" else a for a in arguments]
    extra = ["--out", str(tmp_path / "out")] if arguments[0] == "run" else []
    done = steer(*filled, *extra)
    assert done.exit_code == 2, done.output
    assert says in done.stderr
    assert not (tmp_path / "out").exists()
    assert path.read_text() == GOOD


def test_validate_reports_the_faults_of_all_files(steer, recipe_file, tmp_path: Path):
    recipe_file(GOOD.replace("sources", "sorces"), "a.yaml")
    recipe_file("kind: [", "b.yaml")
    recipe_file(GOOD, "c.yaml")
    done = steer("validate", tmp_path)
    assert done.exit_code == 2
    assert "a.yaml" in done.stderr
    assert "b.yaml:1:8" in done.stderr
    assert "c.yaml" not in done.stderr
    assert steer("validate", tmp_path / "c.yaml").stdout == "1 recipe: no faults\n"


def test_a_read_only_or_full_folder_is_named_and_old_results_stay(steer, recipe_file, tmp_path: Path, monkeypatch):
    path, out = recipe_file(GOOD), tmp_path / "out"
    first = json.loads(steer("run", path, "--out", out, "--json").stdout)

    def full_disk(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("steer.base.files.os.fsync", full_disk)
    done = steer("run", path, "--out", out, "--force")
    assert done.exit_code == 2
    assert "No space left on device" in done.stderr
    assert to_json(read_result(first["folder"]))["rows"] == first["rows"]


def test_an_interrupt_leaves_earlier_results(steer, recipe_file, tmp_path: Path, monkeypatch):
    recipe_file(GOOD, "a.yaml")
    recipe_file(GOOD.replace("count: 30", "count: 25"), "b.yaml")
    import steer.experiments.one as experiment

    real, calls = experiment.run_experiment, []

    def second_is_interrupted(*arguments):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(experiment, "run_experiment", second_is_interrupted)
    done = steer("run", tmp_path, "--out", tmp_path / "out")
    assert done.exit_code == 130
    assert [p.name.split("-")[0] for p in (tmp_path / "out").iterdir()] == ["a"]


def test_plan_for_people_and_for_scripts(steer):
    told = json.loads(steer("plan", "chain_k", "--json").stdout)
    text = steer("plan", "chain_k").stdout
    assert len(told["runs"]) == told["forwards"]
    assert all(run["name"] in text for run in told["runs"])
    assert "dec.1.cross_attn.attend" in text


def test_cp_copies_what_is_shipped(steer, tmp_path: Path):
    assert steer("cp", "keep_one_k", tmp_path).exit_code == 0
    copied, original = tmp_path / "keep_one_k.yaml", RECIPES / "keep_one_k.yaml"
    assert copied.read_text().splitlines()[1:] == original.read_text().splitlines()[1:]
    schema = copied.read_text().splitlines()[0].partition("$schema=")[2]
    assert Path(schema).is_file()
    assert steer("cp", "tiny", tmp_path / "mine").exit_code == 0
    assert {p.name for p in (tmp_path / "mine").iterdir()} == {"checkpoint.json", "model.safetensors"}
    shipped = recipe_files()[0].parent
    assert steer("cp", "keep_one_k", shipped, "--force").exit_code == 2  # never over itself
    assert steer("cp", "presets/tiny", tmp_path / "preset.yaml").exit_code == 0
    assert "stages" in (tmp_path / "preset.yaml").read_text()


def test_gather_takes_each_recipe_once(tmp_path: Path):
    name = recipe_names()[0]
    assert len(gather([name, name, str(recipe_files()[0])])[0]) == 1
