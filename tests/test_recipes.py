"""Recipes: faults are found and placed, plans are what they should be, results are the same twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

import jsonschema
import pytest
import yaml

from steer.errors import ConfigError
from steer.library import gather, load_recipe
from steer.lower import lower
from steer.names import Node, Shape
from steer.plan import Rebuild
from steer.recipe import RECIPE, Recipe
from steer.results import read_result
from steer.shipped import RECIPES, recipe_files, recipe_names

SHAPE = Shape(2, 2, 8)
CAST = Shape(2, 2, 8, (("output", (Node("dec-cross", 1, 4),)), ("primitive-pairing", (Node("enc-self", 1, 2),))))
GOOD = """\
kind: keep-only-one
target: dec-cross-1.3.k
sources: enc-self-*.*
freeze: dec-cross-1.3.q
episodes: {count: 30}
measures:
  - {name: attention-accuracy, heads: dec-cross-1.3}
"""


@pytest.fixture
def recipe_file(tmp_path: Path):
    def write(text: str, name: str = "mine.yaml") -> Path:
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


def faults(path: Path) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        load_recipe(str(path)).plan(SHAPE)
    return caught.value.faults


@pytest.mark.parametrize("path", recipe_files(), ids=lambda path: path.stem)
def test_every_shipped_recipe_is_short_and_says_what_it_is(path: Path):
    lines = path.read_text().splitlines()
    assert len(lines) <= 20
    assert lines[0].startswith("# yaml-language-server: $schema=")
    assert any(f"steer run recipes/{path.relative_to(RECIPES)}" in line for line in lines)
    assert load_recipe(str(path)).recipe.description


@pytest.mark.parametrize("path", recipe_files(), ids=lambda path: path.stem)
def test_the_json_schema_accepts_every_shipped_recipe(path: Path):
    jsonschema.validate(yaml.safe_load(path.read_text()), RECIPE.json_schema())


def test_the_shipped_schema_is_current():
    shipped = json.loads((RECIPES / "schema.json").read_text())
    assert shipped == RECIPE.json_schema(), "run: steer schema > recipes/schema.json"


def test_n_faults_give_n_messages_with_their_places(recipe_file):
    path = recipe_file(
        GOOD.replace("count: 30", "count: -1, arty: 2")
        .replace("freeze", "freez")
        .replace("name: attention", "name: atention")
    )
    found = faults(path)
    assert len(found) == 4, found
    assert any(f"{path}:4:1: unknown key 'freez'; did you mean 'freeze'" in f for f in found)
    assert any(f"{path}:5:19: episodes.count: " in f and "(found -1)" in f for f in found)
    assert any(f"{path}:5:23: unknown key 'episodes.arty'; did you mean 'arity'" in f for f in found)
    assert any(f"{path}:7:12: measures.0.name: " in f and "did you mean attention-accuracy" in f for f in found)


def test_names_are_checked_against_the_model_all_at_once(recipe_file):
    path = recipe_file(
        GOOD.replace("dec-cross-1.3.k", "dec-cros-1.3.k").replace("enc-self-*.*", "[enc-self-7.1, enc-self-9.*]")
    )
    found = faults(path)
    assert len(found) == 3, found
    assert f"{path}:2:9: " in found[0]
    assert "did you mean dec-cross-1.3" in found[0]
    assert f"{path}:3:11: no head or node named 'enc-self-7.1'; did you mean enc-self-1.1" in found[1]
    assert f"{path}:3:25: " in found[2]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("keep-only-one", "keep-only-on"), "did you mean keep-only-one"),
        (("kind: keep-only-one\n", ""), "kind: is missing"),
        (("dec-cross-1.3.k", "dec-cross-1.3.z"), r"must end in \.q, \.k or \.v"),
        (("dec-cross-1.3.k", "enc-self-1.3.k"), "enc-self-1.0 does not feed enc-self-1.3.k directly"),
        (("enc-self-*.*", "dec-self-0.1"), "dec-self-0.1 does not feed dec-cross-1.3.k directly"),
        (("heads: dec-cross-1.3", "heads: enc-self-1.3"), "measured on dec-cross heads"),
        (("heads: dec-cross-1.3", "heads: []"), "heads"),
        (("sources: enc-self-*.*", "sources: []"), "sources"),
        (("freeze: dec-cross-1.3.q", "freeze: dec-cross-1.3.k"), "frozen and edited"),
        (("attention-accuracy, heads: dec-cross-1.3", "token-accuracy, decoding: greedy"), "use decoding: forced"),
        (("kind: keep-only-one", "kind: keep-only-one\ndescription: 2020-13-45"), "not valid YAML"),
        (("kind: keep-only-one", "kind: keep-only-one\nseed: !!int abc"), "not valid YAML"),
        (("kind: keep-only-one", "kind: keep-only-one\ndescription: \x07"), "not valid YAML"),
        (("freeze: dec-cross-1.3.q", "freeze: dec-cross-1.3.w"), "no site named"),
        (("dec-cross-1.3}", "dec-cross-1.3, against: counterfactual}"), "only a position-swap"),
        (("count: 30", "length: [3, 1]"), r"episodes\.length: must be"),
        (("count: 30", "count: .nan"), "episodes.count"),
        (("count: 30", "seed: many"), "episodes.seed"),
        (("measures:\n  - {name: attention-accuracy, heads: dec-cross-1.3}", "measures: []"), "at least one is needed"),
    ],
)
def test_bad_recipes_are_answered(recipe_file, change: tuple[str, str], says: str):
    text = GOOD.replace(*change)
    assert text != GOOD
    path = recipe_file(text)
    with pytest.raises(ConfigError, match=says) as caught:
        load_recipe(str(path)).plan(SHAPE)
    assert all(str(path) in fault for fault in caught.value.faults)


def test_faults_stand_at_the_entry_that_has_them(recipe_file):
    text = """\
kind: keep-only-one
target: dec-cross-1.3.k
sources:
  - enc-self-0.1
  - dec-self-0.0
  - dec-mlp-0
measures:
  - {name: exact-match}
  - {name: attention-accuracy, heads: [dec-cross-1.1, dec-cross-9.9]}
"""
    found = faults(recipe_file(text))
    assert [fault.split(": ")[0].split(".yaml")[1] for fault in found] == [":9:55", ":5:5", ":6:5"]


def test_a_schema_fault_does_not_hide_the_others(recipe_file):
    text = (
        GOOD.replace("freeze", "freez").replace("dec-cross-1.3.k", "dec-cros-1.3.k").replace("enc-self-*", "enc-slf-*")
    )
    found = faults(recipe_file(text.replace("heads: dec-cross-1.3", "heads: dec-cross-1.33")))
    assert [fault.split(".yaml:")[1].split(": ")[0] for fault in found] == ["4:1", "2:9", "3:10", "7:39"]


def test_a_chain_takes_one_head_a_link_and_keeps_repeats(recipe_file):
    text = "kind: chained-patch\nsources: enc-self-0.*\nchain: [enc-self-1.*.v, dec-cross-1.5.k]\n"
    found = faults(recipe_file(text + "measures: [{name: exact-match}]\n"))
    assert "stands for 8 ports" in found[0]


def test_a_chain_must_connect(recipe_file):
    text = """\
kind: chained-patch
sources: enc-self-0.*
chain: [enc-self-1.1.v, dec-cross-1.5.q]
measures: [{name: exact-match}]
"""
    found = faults(recipe_file(text))
    assert found[0].endswith("its direct sources are dec.tok, dec.pos, dec-self-0, dec-cross-0, dec-mlp-0, dec-self-1")
    assert ":3:25: enc-self-1.1 does not feed dec-cross-1.5.q directly" in found[0]


def test_a_swap_needs_two_arguments(recipe_file):
    text = "kind: position-swap\nports: enc-self-0.5.v\ntokens: [1, 2]\nmeasures: [{name: exact-match}]\n"
    assert len(faults(recipe_file(text))) == 2


def test_a_counterfactual_answer_is_the_models_own(recipe_file):
    text = "kind: position-swap\nports: enc-self-0.5.v\nepisodes: {arity: 2}\n"
    found = faults(recipe_file(text + "measures: [{name: exact-match, against: counterfactual}]\n"))
    assert "use exact-match with decoding: greedy" in found[0]


def test_a_sweep_is_one_run_a_source_between_the_two_ends():
    plan = lower(load_recipe("keep_one_k").recipe, CAST)
    assert plan.clean_condition == "nothing ablated"
    assert [run.condition for run in plan.runs] == ["everything ablated", *map(str, SHAPE.expand_nodes("enc-self-*.*"))]
    assert plan.forwards == 1 + 1 + 16
    assert {(run.start, run.stop) for run in plan.runs} == {("dec.1.cross_attn.attend", "dec.1.cross_attn.mix")}


def test_a_chain_of_n_links_takes_n_plus_one_forwards():
    plan = lower(load_recipe("chain_k").recipe, CAST)
    one = [run for run in plan.runs if run.name.startswith("enc-self-0.3 ")]
    assert 1 + len(one) == 2 + 1
    assert [type(edit) for run in one for edit in run.edits if isinstance(edit, Rebuild)] == [Rebuild, Rebuild]
    assert one[0].condition is None
    assert one[1].condition == "enc-self-0.3"


def test_every_kind_has_a_class_and_the_schema_forbids_the_rest():
    schema = RECIPE.json_schema()
    assert len(schema["discriminator"]["mapping"]) == len(get_args(get_args(Recipe)[0]))
    assert all(not d.get("additionalProperties", False) for d in schema["$defs"].values() if d["type"] == "object")


# The command line


def test_run_writes_a_whole_result_and_knows_it_the_second_time(steer, recipe_file, tmp_path: Path):
    path, out = recipe_file(GOOD), tmp_path / "out"
    first = json.loads(steer("run", path, "--out", out, "--json").stdout)
    folder = Path(first["folder"])
    assert sorted(p.name for p in folder.iterdir()) == [
        "figure.pdf",
        "figure.png",
        "figure.svg",
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
    assert other["episodes"] == 20


def test_rows_carry_intervals_and_both_ends(steer, recipe_file, tmp_path: Path):
    told = json.loads(steer("run", recipe_file(GOOD), "--out", tmp_path, "--json").stdout)
    conditions = {row["condition"] for row in told["rows"]}
    assert {"nothing ablated", "everything ablated", "enc-self-0.0"} <= conditions
    assert all(row["low"] <= row["value"] <= row["high"] for row in told["rows"])
    assert {row["position"] for row in told["rows"]} >= {"all", "1", "2", "3"}


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


RUNS = [
    (name, value)
    for name in recipe_names()
    for value in ("mean", "zero", "resample")
    if value == "mean" or load_recipe(name).recipe.kind != "clean"
]


@pytest.mark.parametrize(("recipe", "value"), RUNS)
def test_every_shipped_recipe_runs_with_every_ablation(steer, cast: Path, tmp_path: Path, recipe: str, value: str):
    changes = ["episodes.count=9", f"ablation.value={value}", f"checkpoint={cast}"]
    done = steer("run", recipe, *changes, "--out", tmp_path, "--json")
    assert done.exit_code == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["rows"] or told["details"]


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
        (["run", "FILE", "episodes.arity=2", "episodes.length=[6, 9]"], "0 of 2,000 episodes match"),
        (["run", "FILE", "checkpoint=nowhere"], "no checkpoint named 'nowhere'"),
        (["run", "FILE", "--dtype", "float16"], "float32 or float64"),
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

    monkeypatch.setattr("steer.files.os.fsync", full_disk)
    done = steer("run", path, "--out", out, "--force")
    assert done.exit_code == 2
    assert "No space left on device" in done.stderr
    assert read_result(Path(first["folder"])).rows == first["rows"]


def test_an_interrupt_leaves_earlier_results(steer, recipe_file, tmp_path: Path, monkeypatch):
    recipe_file(GOOD, "a.yaml")
    recipe_file(GOOD.replace("count: 30", "count: 25"), "b.yaml")
    import steer.experiment as experiment

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
