"""Steering: the prediction made beforehand, the intervention, its control and its ceiling."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from rig import named
from tokens import answers, counterparts

from steer.anatomy.nodes import Node, Site
from steer.base.dice import Dice
from steer.base.errors import KeyedError, SteerError
from steer.experiments.api import build_recipe
from steer.experiments.one import run_experiment
from steer.models.checkpoint import load_checkpoint
from steer.plan.plan import COUNTERPART, Of
from steer.recipe.lower import lower
from steer.recipe.sets import others
from steer.tasks.compositional.counterparts import VARIABLES, counterpart
from steer.tasks.compositional.program import solve
from steer.tasks.compositional.selection import select
from steer.tasks.compositional.splits import make_splits

EPISODES = make_splits(0).test[:300]
CHOOSING = [episode for episode in EPISODES if len(episode.question.arguments) == 2]
CAST = named(2, 2, 8, {"question-broadcast": (Node("enc-self", 0, 3),), "output": (Node("dec-cross", 1, 4),)})
RATES = [{"name": "exact-match", "decoding": "greedy", "against": a} for a in ("answer", "counterfactual", "neither")]
STEER = {"kind": "steer", "variable": "index-in-question", "episodes": {"arity": 2, "count": 24}, "measures": RATES}


def steer_recipe(**keys):
    return build_recipe(**(STEER | keys))


@pytest.mark.parametrize("variable", VARIABLES)
def test_a_counterpart_is_another_episode_of_the_same_length(variable):
    found = [(e, other) for e in CHOOSING if (other := counterpart(e, variable))]
    assert len(found) > 20
    for episode, other in found:
        assert len(other.prompt) == len(episode.prompt)
        assert other.answer == solve(replace(other, answer=())).answer != episode.answer


def test_counterparts_are_what_algorithm_1_gives_for_changed_indices():
    exchange = {1: 3, 3: 1, 2: 2}
    for episode in CHOOSING:
        solved = solve(episode)
        symbol_at = {exchange[place]: symbol for place, symbol in solved.symbol_at.items()}
        relative = [exchange[place] for place in solved.relative_index]
        swapped, mirrored = counterpart(episode, "index-in-question"), counterpart(episode, "relative-index")
        assert swapped.answer == solved.answer_with(symbol_at, solved.relative_index)
        assert mirrored.answer == solved.answer_with(solved.symbol_at, relative)


def test_a_question_of_one_argument_has_no_counterpart():
    one = next(episode for episode in EPISODES if len(episode.question.arguments) == 1)
    assert all(counterpart(one, variable) is None for variable in VARIABLES)


def test_the_ceiling_is_the_models_own_answer_to_the_counterpart():
    """Whatever is frozen while the answers are steered."""
    checkpoint = load_checkpoint("shortcut")
    keys = {"sets": [{"name": "one", "sites": "enc-self-0.0.z"}], "freeze": ["enc-self-1.0.z", "dec-cross-1.0.q"]}
    loaded = steer_recipe(**keys)
    result = run_experiment(loaded, checkpoint)
    value = {(row.condition, row.against): row.value for row in result.rows}
    others = counterparts(select(loaded.recipe.episodes, 0, "index-in-question"), "index-in-question")
    right = [said == other.answer for said, other in zip(answers(checkpoint.transformer, others), others, strict=True)]
    assert value["ceiling", "counterfactual"] == pytest.approx(sum(right) / len(right))
    assert sum(right) > len(right) / 2


def test_exchanged_positions_are_the_position_swaps():
    checkpoint = load_checkpoint("seed1")
    swap = {"kind": "position-swap", "ports": "enc-self-0.5.v", "episodes": {"arity": 2, "count": 24}}
    one = run_experiment(build_recipe(**swap, measures=RATES), checkpoint)
    two = run_experiment(steer_recipe(by="positions", sets=[{"name": "after", "sites": "enc-self-0.5.v"}]), checkpoint)
    rates = [{(r.condition, r.against): r.value for r in found.rows if r.condition == "after"} for found in (one, two)]
    assert rates[0] == rates[1]
    assert rates[0]["after", "counterfactual"] > 0.8  # and it steers


def test_a_control_is_as_many_other_heads_of_the_same_blocks():
    sets = [{"name": "all", "sites": ["enc-self-0.3.z", "enc-self-1.1.z", "enc-self-1.2.z"]}]
    plan = lower(steer_recipe(sets=sets, control="all").recipe, CAST).plan
    runs = [run for run in plan.runs if run.edits and "greedy" not in run.name]
    assert [run.edits for run in plan.runs if "greedy" in run.name and run.edits] == [run.edits for run in runs]
    own, control, ceiling = ({edit.site for edit in run.edits} for run in runs)
    assert sorted((site.node.kind, site.node.layer, site.port) for site in control) == sorted(
        (site.node.kind, site.node.layer, site.port) for site in own
    )
    assert not {site.node for site in control} & {site.node for site in own}
    assert [str(site) for site in ceiling] == ["enc.tok"]
    assert all(edit.value == Of(COUNTERPART) for run in plan.runs for edit in run.edits)


def test_another_seed_draws_another_control():
    def control(seed: int) -> tuple[str, ...]:
        recipe = steer_recipe(sets=[{"name": "one", "sites": "enc-self-0.3.z"}], control="one", seed=seed).recipe
        (run,) = (run for run in lower(recipe, CAST).plan.runs if run.name == "control")
        return tuple(str(edit.site) for edit in run.edits)

    drawn = [control(seed) for seed in range(40)]
    assert drawn == [control(seed) for seed in range(40)]
    assert set(drawn) == {
        (f"enc-self-0.{head}.z",) for head in range(8) if head != 3
    }  # each other head, sooner or later


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"episodes": {"count": 5}}, "set episodes.arity to 2"),
        ({"by": "positions", "variable": "function"}, "not the function"),
        (
            {"by": "positions", "sets": [{"name": "a", "sites": "dec-self-0.1.v"}]},
            "does not read the prompt's positions",
        ),
        ({"control": "everything"}, "no set is called 'everything'; there are: one"),
        ({"sets": [{"name": "ceiling", "sites": "enc-self-0.1.z"}]}, "'ceiling' is taken"),
        ({"sets": [{"name": "a", "sites": "enc-self-0.9.z"}]}, "no site named 'enc-self-0.9.z'"),
        ({"sets": [{"name": "a", "sites": "$rhs-scanner.z"}]}, "it has $question-broadcast, $output"),
        ({"sets": [{"name": "a", "sites": "$rhs-scanner:any.z"}]}, "no head of this checkpoint plays these roles"),
        ({"sets": [{"name": "a", "sites": "enc-self-0.*.z"}], "control": "a"}, "only 0 of 8 sites"),
    ],
)
def test_bad_steering_is_answered(keys, says: str):
    loaded = steer_recipe(**({"sets": [{"name": "one", "sites": "enc-self-0.1.v"}]} | keys))
    with pytest.raises(KeyedError) as caught:
        lower(loaded.recipe, CAST)
    assert says in str(caught.value)


def test_ask_tells_answer_prediction_and_steered_answer(steer, tmp_path: Path):
    number = next(n for n, e in enumerate(make_splits(0).test) if len(e.question.arguments) == 2)
    done = steer("ask", "--episode", number, "--json", "--out", tmp_path)
    assert done.exit_code == 0, done.output
    told = json.loads(done.output)
    episode = make_splits(0).test[number]
    assert told["right"] == list(episode.answer)
    assert told["predicted"] == list(counterpart(episode, "index-in-question").answer)
    assert told["steered"] == told["predicted"]
    assert Path(told["picture"]).is_file()


PROMPT = "B S A | A = red | B = blue | C = green | C S B = blue green green"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--prompt", PROMPT, "--swap", "B", "C"], "the question has B and A"),
        (["--prompt", "B S | B = blue | B S = blue blue", "--swap", "B", "S"], "only one argument"),
        (["--prompt", PROMPT, "--change", "function"], "no other function"),
        (["--prompt", "A S A | A = red | B = blue | A S B = red blue"], "the answer would be the same"),
        (["--prompt", PROMPT, "--swap", "B", "A", "--change", "argument"], "without it"),
        (["--prompt", PROMPT, "--at", "enc-self-0.9.v"], "enc-self-0.9"),
    ],
)
def test_bad_questions_are_answered(steer, tmp_path: Path, arguments: list[str], says: str):
    done = steer("ask", *arguments, "--out", tmp_path / "out")
    assert done.exit_code == 2
    assert says in done.output
    assert not (tmp_path / "out").exists()


def test_no_episode_to_steer_is_said():
    loaded = steer_recipe(sets=[{"name": "a", "sites": "enc-self-0.1.z"}], episodes={"arity": 1})
    with pytest.raises(SteerError, match="the function of none of them can be changed"):
        select(loaded.recipe.episodes, 0, "function")


def test_ask_finds_an_episode_that_fits(steer, tmp_path: Path):
    told = json.loads(steer("ask", "--change", "function", "--json", "--out", tmp_path).output)
    assert told["predicted"] != told["right"]


def test_the_faults_of_sets_are_reported_with_the_others(steer, tmp_path: Path):
    path = tmp_path / "bad.yaml"
    path.write_text(
        "kind: steer\nvariable: argument\nwrong: 1\nepisodes: {arity: 2}\n"
        "sets: [{name: a, sites: enc-self-0.9.z}]\nmeasures: [{name: exact-match}]\n"
    )
    done = steer("validate", path)
    assert done.exit_code == 2
    assert "unknown key 'wrong'" in done.output
    assert "enc-self-0.9.z" in done.output


def test_a_control_has_as_many_different_heads_as_its_set():
    names = named(2, 2, 8, {"rhs-scanner": (Node("dec-cross", 0, 0), Node("dec-cross", 0, 4))})
    wanted = [Site(Node("dec-cross", 0, head), "z") for head in (0, 4)]
    for seed in range(60):
        drawn = others(names, wanted, Dice(seed, "control"))
        assert len(set(drawn)) == 2
        assert not set(drawn) & set(wanted)
