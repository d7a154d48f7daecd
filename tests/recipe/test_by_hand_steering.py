"""Steering against its words: the counterpart's values, exchanged positions, control, ceiling and rates."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from by_hand import borrow, exchange_positions, nothing, say
from by_hand_task import answer, exchanged, mirrored
from small import DATA_SEED, ROLES, ask, checkpoint, listen, mass, net_of, of_arity, same, table, talker, trials, values

from steer.measures.answers import EXAMPLES
from steer.models.checkpoint import load_checkpoint
from steer.results.details import Transcript
from steer.tasks.compositional.counterparts import VARIABLES, counterpart
from steer.tasks.compositional.vocabulary import COLOURS

MODEL = talker()
NET = net_of(MODEL)
GREEDY = [{"name": "exact-match", "decoding": "greedy", "against": a} for a in ("answer", "counterfactual", "neither")]
SETS = [{"name": "one", "sites": "enc-self-0.1.v"}, {"name": "two", "sites": ["dec-cross-0.2.z", "enc-self-1.0.out"]}]
SITES = ["enc-self-0.1.v", "dec-cross-0.2.out", "dec-cross-1.0.q", "dec-cross-1.0.pattern", "logits"]


def pairs(variable: str, count: int = 4):
    """Episodes and their counterparts; a counterpart's prompt is as long as the episode's."""
    found = [(e, other) for e in of_arity(2, 60) if (other := counterpart(e, variable))][:count]
    return [e for e, _ in found], [other for _, other in found]


def conditions(result, one, two, freeze=(), places=()):
    """By hand, with the control that the result says was drawn."""
    control = [site for site in result.provenance.edited["control"] if site not in freeze]
    taken = {"one": one, "two": two, "control": control}
    by_hand = {name: borrow(sites, places, freeze) for name, sites in taken.items()}
    return {"before": nothing, **by_hand, "ceiling": borrow(["enc.tok"])}


@pytest.mark.parametrize("variable", VARIABLES)
def test_sites_take_their_values_from_the_counterparts_run(variable: str):
    episodes, others = pairs(variable)
    result, said = listen(
        MODEL, episodes, kind="steer", variable=variable, sets=SETS, control="one", episodes={"arity": 2},
        measures=GREEDY, tensors=SITES, freeze="dec-cross-1.0.q",
    )  # fmt: skip
    made = trials(NET, episodes, others)
    by_hand = conditions(result, ["enc-self-0.1.v"], ["dec-cross-0.2.z", "enc-self-1.0.out"], ["dec-cross-1.0.q"])
    same(result, by_hand, made, SITES)
    for name in ("before", "two", "ceiling"):
        assert [said[name][row] for row in range(len(made))] == [say(trial, by_hand[name]) for trial in made]


def test_steering_at_some_places():
    episodes, others = pairs("index-in-question")
    sets = [{"name": "one", "sites": "enc-self-0.1.v"}, {"name": "two", "sites": ["enc-mlp-0", "enc-resid-1.mid"]}]
    keys = {"kind": "steer", "variable": "index-in-question", "sets": sets, "control": "one", "episodes": {"arity": 2}}
    result = ask(MODEL, episodes, **keys, places=[1, 2], measures=[{"name": "exact-match"}], tensors=SITES)
    by_hand = conditions(result, ["enc-self-0.1.v"], ["enc-mlp-0", "enc-resid-1.mid"], places=[1, 2])
    same(result, by_hand, trials(NET, episodes, others), SITES)


def test_steering_by_positions_leaves_the_ceiling_to_the_counterpart():
    """What is frozen while answers are steered is not frozen in the ceiling: it is the model's own answer."""
    episodes, others = pairs("index-in-question")
    assert [other.prompt for other in others] == [exchanged(e.prompt) for e in episodes]
    ports, freeze = ["enc-self-0.1.v", "enc-self-1.2.k"], ["dec-cross-1.0.q", "enc-self-2.0.pattern"]
    result, said = listen(
        MODEL, episodes, kind="steer", variable="index-in-question", by="positions", episodes={"arity": 2},
        sets=[{"name": "both", "sites": ports}], measures=GREEDY, tensors=[*SITES, *freeze], freeze=freeze,
    )  # fmt: skip
    made = trials(NET, episodes, others)
    by_hand = {"before": nothing, "both": exchange_positions(ports, (), freeze), "ceiling": borrow(["enc.tok"])}
    same(result, by_hand, made, [*SITES, *freeze])
    for name, condition in by_hand.items():
        assert [said[name][row] for row in range(len(made))] == [say(trial, condition) for trial in made]
    own = [say(trial, nothing) for trial in trials(NET, others)]
    assert [said["ceiling"][row] for row in range(len(others))] == own


def test_a_control_plays_no_role_whatever_the_seed():
    episodes, _ = pairs("index-in-question", 2)
    sets = [{"name": "set", "sites": ["enc-self-0.0.v", "dec-cross-1.1.z"]}]
    drawn = set()
    for seed in range(6):
        keys = {"kind": "steer", "variable": "index-in-question", "sets": sets, "control": "set", "seed": seed}
        result = ask(MODEL, episodes, **keys, episodes={"arity": 2}, measures=[{"name": "exact-match"}])
        drawn |= set(result.provenance.edited["control"])
    # Three heads a block: one is in the set, one plays a role, one is left.
    assert {"enc-self-0.1", "dec-cross-1.0"} <= {head for players in ROLES.values() for head in players}
    assert drawn == {"enc-self-0.2.v", "dec-cross-1.2.z"}


SWAP = {"kind": "position-swap", "ports": ["enc-self-0.1.v", "enc-self-1.0.k"]}
HELD = [
    ("index-in-question", {"kind": "steer", "sets": SETS[:1]}, "one", borrow(["enc-self-0.1.v"]), exchanged),
    ("relative-index", {"kind": "steer", "sets": SETS[:1]}, "one", borrow(["enc-self-0.1.v"]), mirrored),
    ("index-in-question", SWAP, "after", exchange_positions(SWAP["ports"]), exchanged),
]


@pytest.mark.parametrize(("variable", "keys", "name", "condition", "changed"), HELD, ids=["index", "relative", "swap"])
def test_attention_is_held_against_the_answer_and_against_the_prediction(variable, keys, name, condition, changed):
    episodes, others = pairs(variable)
    measures = [
        {"name": "attention-mass", "heads": "dec-cross-1.2", "against": a} for a in ("answer", "counterfactual")
    ]
    keys = keys | ({"variable": variable} if keys["kind"] == "steer" else {})
    result = ask(MODEL, episodes, **keys, episodes={"arity": 2}, measures=measures)
    made = trials(NET, episodes, others)
    prompts = {"answer": [e.prompt for e in episodes], "counterfactual": [changed(e.prompt) for e in episodes]}
    for label, edits in (("before", nothing), (name, condition)):
        seen = [trial.run(edits(trial))["dec-cross-1.2.pattern"] for trial in made]
        for against, right in prompts.items():
            lines = [
                mass(pattern, e.prompt, answer(prompt))
                for pattern, e, prompt in zip(seen, episodes, right, strict=True)
            ]
            found = values(result, measure="attention-mass", against=against)[label]
            assert found == pytest.approx(table(lines), rel=0, abs=1e-10)


CARRIED = [
    ("index-in-question", "$question-broadcast.z", exchanged),
    ("relative-index", "$rhs-scanner:all.z", mirrored),
]


@pytest.mark.parametrize(("variable", "sites", "changed"), CARRIED, ids=["index", "relative"])
def test_rates_count_what_was_written(variable, sites, changed):
    """On a trained model, where some answers follow and some do not."""
    trained = load_checkpoint("seed1")
    trained.record.protocol["data_seed"] = DATA_SEED  # where the episodes of these tests are found
    episodes, _ = pairs(variable, 12)
    keys = {"kind": "steer", "variable": variable, "sets": [{"name": "set", "sites": sites}], "measures": GREEDY}
    result, said = listen(trained, episodes, **keys, episodes={"arity": 2})
    right = [[*answer(e.prompt), "EOS"] for e in episodes]
    predicted = [[*answer(changed(e.prompt)), "EOS"] for e in episodes]
    hits = {}
    for name, lines in said.items():
        found = [lines[row] for row in range(len(episodes))]
        hits[name] = {
            "answer": sum(line == told for line, told in zip(found, right, strict=True)),
            "counterfactual": sum(line == told for line, told in zip(found, predicted, strict=True)),
            "neither": sum(line not in told for line, *told in zip(found, right, predicted, strict=True)),
        }
        for against, count in hits[name].items():
            assert values(result, against=against)[name]["all"] == pytest.approx(count / len(episodes))
    assert hits["before"]["answer"] > 6
    assert hits["ceiling"]["counterfactual"] > 6
    shown = list(result.of_kind(Transcript))
    assert Counter(one.condition for one in shown) == dict.fromkeys(said, EXAMPLES)
    for one in shown:
        row = [str(e) for e in episodes].index(one.prompt)
        assert one.written == tuple(token for token in said[one.condition][row] if token in COLOURS)
        assert [*one.answer, "EOS"] == right[row]
        assert [*one.counterfactual, "EOS"] == predicted[row]


def test_the_two_ways_of_asking_for_exchanged_positions_agree():
    model = checkpoint(2)
    episodes, _ = pairs("index-in-question")
    keys = {"episodes": {"arity": 2}, "measures": [{"name": "exact-match", "decoding": "greedy"}], "tensors": "logits"}
    swap = ask(model, episodes, kind="position-swap", ports=["enc-self-0.*.v", "enc-self-1.1.k"], **keys)
    sets = [{"name": "after", "sites": ["enc-self-0.*.v", "enc-self-1.1.k"]}]
    steered = ask(model, episodes, kind="steer", variable="index-in-question", by="positions", sets=sets, **keys)
    for condition in ("before", "after"):
        torch.testing.assert_close(swap.tensors[f"{condition}/logits"], steered.tensors[f"{condition}/logits"])
