"""Recipes: faults are found and placed, plans are what they should be, results are the same twice."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from conftest import GOOD
from rig import NAMES, named
from tokens import RECIPE

from steer.anatomy.nodes import Node
from steer.base.errors import ConfigError, KeyedError, SteerError
from steer.engine.schedule import make_schedule
from steer.models.plain.layout import PlainSteps
from steer.plan.plan import Rebuilt
from steer.recipe.load import load_recipe
from steer.recipe.lower import lower
from steer.tasks.compositional.selection import Episodes, select

CAST = named(2, 2, 8, {"output": (Node("dec-cross", 1, 4),), "primitive-pairing": (Node("enc-self", 1, 2),)})


def faults(path: Path) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        load_recipe(str(path)).lower(NAMES)
    return caught.value.faults


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
        (
            ("dec-cross-1.3.k", "enc-self-0.3.k"),
            r"nothing that 'enc-self-\*\.\*' matches feeds enc-self-0.3.k directly",
        ),
        (("enc-self-*.*", "dec-self-0.1"), "dec-self-0.1 does not feed dec-cross-1.3.k directly"),
        (("heads: dec-cross-1.3", "heads: enc-self-1.3"), "measured on heads that look from the answer"),
        (("heads: dec-cross-1.3", "heads: []"), "heads"),
        (("sources: enc-self-*.*", "sources: []"), "sources"),
        (("freeze: dec-cross-1.3.q", "freeze: dec-cross-1.3.k"), "frozen and edited"),
        (("attention-accuracy, heads: dec-cross-1.3", "token-accuracy, decoding: greedy"), "use decoding: forced"),
        (("kind: keep-only-one", "kind: keep-only-one\ndescription: 2020-13-45"), "not valid YAML"),
        (("kind: keep-only-one", "kind: keep-only-one\nseed: !!int abc"), "not valid YAML"),
        (("kind: keep-only-one", "kind: keep-only-one\ndescription: \x07"), "not valid YAML"),
        (("freeze: dec-cross-1.3.q", "freeze: dec-cross-1.3.w"), "no site named"),
        (("dec-cross-1.3}", "dec-cross-1.3, against: counterfactual}"), "only a swap, a steer"),
        (("count: 30", "length: [3, 1]"), r"mine.yaml:5:20: episodes\.length: must be"),
        (("count: 30", "count: .nan"), "episodes.count"),
        (("count: 30", "seed: many"), "episodes.seed"),
        (
            ("measures:\n  - {name: attention-accuracy, heads: dec-cross-1.3}", "measures: []"),
            "at least one is needed",
        ),
        (("measures:", "figure: [bars, scatter]\nmeasures:"), r"mine.yaml:6:16: scatter draws r-squared"),
        (("measures:", "figure: pie\nmeasures:"), "figure"),
        (("count: 30", "count: yes"), r"mine.yaml:5:19: episodes.count: should be a number"),
    ],
)
def test_bad_recipes_are_answered(recipe_file, change: tuple[str, str], says: str):
    text = GOOD.replace(*change)
    assert text != GOOD
    path = recipe_file(text)
    with pytest.raises(ConfigError, match=says) as caught:
        load_recipe(str(path)).lower(NAMES)
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


def test_a_glob_means_those_that_feed_the_target():
    text = "kind: ablate-only-one\ntarget: dec-cross-1.3.q\nsources: [dec-*]\nmeasures: [{name: exact-match}]\n"
    plan = lower(RECIPE.validate_python(yaml.safe_load(text)), named(3, 3, 4)).plan
    swept = {run.condition for run in plan.runs} - {"nothing ablated", "everything ablated"}
    fed = {f"dec-{what}.{head}" for what in ("self-0", "cross-0", "self-1") for head in range(4)}
    assert swept == fed | {"dec-mlp-0"}


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("kind: ablate-set\nnodes: $function-retrieval:any", "nodes"),
        ("kind: keep-set\nnodes: $function-retrieval:any", "nodes"),
        ("kind: ablate-only-one\ntarget: $function-retrieval:any.k\nsources: enc-self-*.*", "target"),
        ("kind: keep-only-one\ntarget: $output.k\nsources: $function-retrieval:any", "sources"),
        ("kind: chained-patch\nchain: [$rhs-scanner:any.q, $output.q]\nsources: dec-self-*.*", "chain.0"),
        ("kind: position-swap\nports: $function-retrieval:any.v\nepisodes: {arity: 2}", "ports"),
    ],
)
def test_a_role_that_nobody_plays_is_no_intervention(text: str, key: str):
    """It would give clean numbers under another name."""
    recipe = RECIPE.validate_python(yaml.safe_load(text + "\nmeasures: [{name: exact-match}]"))
    with pytest.raises(KeyedError, match=f"{key}: no head of this checkpoint plays these roles"):
        lower(recipe, CAST)


def test_measures_of_roles_that_nobody_plays_are_no_measures():
    recipe = {"kind": "ablate-set", "nodes": "enc-self-0.0"}
    measures = [{"name": "attention-pattern", "heads": "$function-retrieval:any"}]
    with pytest.raises(KeyedError, match="measures: no head"):
        lower(RECIPE.validate_python(recipe | {"measures": measures}), CAST)
    beside = [{"name": "exact-match"}, *measures]  # of those there are, perhaps none
    assert [
        str(site) for site in lower(RECIPE.validate_python(recipe | {"measures": beside}), CAST).plan.runs[0].reads
    ] == ["logits"]


@pytest.mark.parametrize("port", ["z", "out"])
def test_a_frozen_write_cannot_be_edited_as_well(port: str):
    recipe = {"kind": "ablate-set", "nodes": "enc-self-0.0", "freeze": f"enc-self-0.0.{port}"}
    with pytest.raises(KeyedError, match="frozen and edited"):
        lower(RECIPE.validate_python(recipe | {"measures": [{"name": "exact-match"}]}), NAMES)


def test_attention_is_not_held_to_an_answer_of_another_length():
    recipe = {
        "kind": "steer", "variable": "function", "episodes": {"arity": 2},
        "sets": [{"name": "one", "sites": "$output.z"}],
        "measures": [{"name": "attention-mass", "heads": "$output", "against": "counterfactual"}],
    }  # fmt: skip
    with pytest.raises(KeyedError, match="another length"):
        lower(RECIPE.validate_python(recipe), CAST)


def test_a_swap_needs_two_arguments(recipe_file):
    text = "kind: position-swap\nports: enc-self-0.5.v\ntokens: [1, 2]\nmeasures: [{name: exact-match}]\n"
    assert len(faults(recipe_file(text))) == 2


def test_a_counterfactual_answer_is_the_models_own(recipe_file):
    text = "kind: position-swap\nports: enc-self-0.5.v\nepisodes: {arity: 2}\n"
    found = faults(recipe_file(text + "measures: [{name: exact-match, against: counterfactual}]\n"))
    assert "use exact-match with decoding: greedy" in found[0]


def test_a_sweep_is_one_run_a_source_between_the_two_ends():
    found = lower(load_recipe("keep_one_k").recipe, CAST)
    plan = found.plan
    assert found.clean == plan.runs[0].condition
    assert [run for run in plan.runs if not run.edits] == [plan.runs[0]]
    swept = [f"enc-self-{layer}.{head}" for layer in (0, 1) for head in range(8)]
    assert [run.condition for run in plan.runs] == ["nothing ablated", "everything ablated", *swept]
    assert plan.forwards == 1 + 1 + 16
    passes = make_schedule(plan, CAST.layout, PlainSteps(2, 2)).passes
    assert {(one.start, one.stop) for one in passes} == {("dec.1.cross_attn.attend", "dec.1.cross_attn.mix")}


def test_a_chain_of_n_links_takes_n_plus_one_forwards():
    plan = lower(load_recipe("chain_k").recipe, CAST).plan
    one = [run for run in plan.runs if run.name.startswith("enc-self-0.3 ")]
    assert 1 + len(one) == 2 + 1
    assert [sum(isinstance(edit.value, Rebuilt) for edit in run.edits) for run in one] == [1, 1]
    assert one[0].condition is None
    assert one[1].condition == "enc-self-0.3"


@pytest.mark.parametrize(
    ("keys", "places"),
    [
        ("kind: chained-patch\nsources: [no-1]\nchain: [no-2]\n", ["2:11", "3:9"]),
        ("kind: steer\nsets: [{name: one, sites: [no-1, $output.z]}]\n", ["2:28"]),
        ("kind: compare\nconditions: [{ablate: no-1}, {keep: [no-2], among: no-3}]\n", ["2:23", "2:38", "2:52"]),
        ("kind: keep-st\nnodes: no-1\ntensors: no-2\n", ["2:8", "3:10"]),
        ("kind: clean\nmeasures: [{name: r-squared, site: no-1}, {components: no-2}]\n", ["2:36", "2:56"]),
    ],
)
def test_names_are_checked_wherever_the_schema_says_that_they_are(recipe_file, keys: str, places: list[str]):
    """In files that are at fault for other reasons too."""
    found = [fault for fault in faults(recipe_file(keys + "wrong: 1\n")) if "no-" in fault]
    assert [fault.split(".yaml:")[1].split(": ")[0] for fault in found] == places


def test_episodes_are_chosen_by_what_makes_them_hard():
    def chosen(**keys):
        return select(Episodes(**keys), 0)

    for episode in chosen(split="strict", overlap=False, functions=(3, 4), repeated=False):
        asked, shown = episode.question, episode.demonstrations
        same = {a for s in shown if s.call.function == asked.function for a in s.call.arguments}
        assert not same & set(asked.arguments)
        assert len({s.call.function for s in shown}) in (3, 4)
        assert len(set(asked.arguments)) == 2
    assert {len(set(e.question.arguments)) for e in chosen(split="strict", repeated=True)} == {1}
    assert {len(e.demonstrations) for e in chosen(split="long")} == {10}
    test = chosen(arity=2)
    assert len(chosen(arity=2, overlap=True)) + len(chosen(arity=2, overlap=False)) == len(test)
    with pytest.raises(SteerError, match=r"0 of 2,000 test episodes match: functions \(4, 4\)"):
        chosen(functions=(4, 4))
