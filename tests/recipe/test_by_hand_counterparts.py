"""Values of a counterpart against the recipe's words, on an encoder-decoder: as ablation value, patched one by one."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from by_hand import (
    Condition,
    Lent,
    Trial,
    ablate,
    ablate_only_one,
    borrow,
    chained,
    keep_only_one,
    nothing,
    say,
    unchanged,
)  # fmt: skip
from by_hand_net import ids
from by_hand_task import answer, exchanged
from small import ask, listen, net_of, of_arity, same, table, talker, values

from steer.base.errors import SteerError
from steer.results.result import Result
from steer.tasks.compositional.counterparts import counterpart
from steer.tasks.compositional.episode import Episode
from steer.tasks.compositional.vocabulary import TOKENS

MODEL = talker()
NET = net_of(MODEL)
INDEX = "index-in-question"
EPISODES = [episode for episode in of_arity(2, 60) if counterpart(episode, INDEX)][:4]
BORROWED = {"ablation": {"value": "counterpart", "variable": INDEX}, "episodes": {"arity": 2}}
PATCH = {"kind": "activation-patch", "variable": INDEX, "episodes": {"arity": 2}}
GREEDY = {"name": "exact-match", "decoding": "greedy"}
SITES = ["dec-cross-1.2.k", "dec-cross-1.2.pattern", "enc.memory", "logits"]
NOTHING, EVERYTHING, WHOLE = "nothing ablated", "everything ablated", "nothing ablated before the chain"
TARGET, HEADS = "dec-cross-1.2.k", [f"enc-self-{layer}.{head}" for layer in range(3) for head in range(3)]
CHAIN = ["enc-self-2.1.v", "dec-cross-0.1.k", "dec-cross-1.2.q"]


def made(turned: bool = False) -> list[Trial]:
    """Each episode with its answer fed in, and the prompt whose arguments have changed places beside it."""
    pairs = [(ids(e.prompt), ids(exchanged(e.prompt)), ids(("SOS", *e.answer))) for e in EPISODES]
    return [Lent(NET, two if turned else one, said, other=one if turned else two) for one, two, said in pairs]


def chains(others: str) -> dict[str, Condition]:
    firsts = {WHOLE: unchanged(CHAIN[0]), EVERYTHING: keep_only_one(CHAIN[:1], None)}
    firsts |= {source: keep_only_one(CHAIN[:1], source) for source in ("enc.tok", "enc-self-1.0")}
    return {NOTHING: nothing} | {name: chained(CHAIN, first, others) for name, first in firsts.items()}


DECODER = [f"dec-{kind}-{n}.{head}" for kind in ("self", "cross") for n in range(2) for head in range(3)]
ENDS = {NOTHING: nothing, EVERYTHING: keep_only_one([TARGET], None)}
CASES: dict[str, tuple[dict, dict[str, Condition]]] = {
    "keep": (
        {"kind": "keep-only-one", "target": TARGET, "sources": ["enc-self-*.*", "enc-mlp-1"]},
        ENDS | {source: keep_only_one([TARGET], source) for source in (*HEADS, "enc-mlp-1")},
    ),
    "ablate": (
        {"kind": "ablate-only-one", "target": TARGET, "sources": "enc*"},  # positions are the same in both runs
        ENDS | {s: ablate_only_one([TARGET], s) for s in ("enc.tok", *HEADS, *(f"enc-mlp-{n}" for n in range(3)))},
    ),
    "chain": ({"kind": "chained-patch", "sources": ["enc.tok", "enc-self-1.0"], "chain": CHAIN}, chains("ablated")),
    "clean chain": (
        {"kind": "chained-patch", "sources": ["enc.tok", "enc-self-1.0"], "chain": CHAIN, "others": "clean"},
        chains("clean"),
    ),
    "set": (
        {"kind": "ablate-set", "nodes": ["enc-self-0.1", "dec-cross-0.*"]},
        {NOTHING: nothing, "set ablated": ablate(["enc-self-0.1", *(f"dec-cross-0.{n}" for n in range(3))])},
    ),
    "compare": (
        {"kind": "compare", "conditions": [{"name": "few", "keep": "enc-self-0.1", "among": "enc-self-*.*"}]},
        {"clean": nothing, "few": ablate([head for head in HEADS if head != "enc-self-0.1"])},
    ),
    "keep set": (
        {"kind": "keep-set", "nodes": ["enc-self-*.*", "dec-self-*.*", "dec-cross-1.*"]},
        {NOTHING: nothing, "only the set kept": ablate([f"dec-cross-0.{n}" for n in range(3)]),
         EVERYTHING: ablate([*HEADS, *DECODER])},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_is_ablated_is_as_in_the_counterpart(case: str):
    recipe, conditions = CASES[case]
    result, said = listen(MODEL, EPISODES, **recipe, **BORROWED, measures=[GREEDY], tensors=SITES)
    same(result, conditions, made(), SITES)
    for name, condition in list(conditions.items())[-2:]:
        assert [said[name][row] for row in range(len(EPISODES))] == [say(trial, condition) for trial in made()]


def test_nothing_is_ablated_by_a_value_that_is_the_same():
    def fault(**keys: object) -> str:
        with pytest.raises(SteerError) as error:
            ask(MODEL, EPISODES, **(BORROWED | {"measures": [GREEDY]} | keys))
        return str(error.value)

    text = "does not depend on the prompt: it is the same in the counterpart's run"
    assert f"dec-self-0.1 {text}" in fault(kind="ablate-set", nodes="dec-self-0.1")
    assert f"dec.tok {text}" in fault(kind="ablate-only-one", target="dec-cross-0.1.q", sources="dec.tok")
    kept = {"kind": "keep-set", "nodes": ["enc-self-*.*", "dec-self-1.*", "dec-cross-*.*"]}
    assert "everything that could change what is measured is kept" in fault(**kept)
    assert "a counterpart needs questions of two arguments" in fault(kind="ablate-set", nodes="enc-mlp-0", episodes={})
    needs = fault(kind="ablate-set", nodes="enc-mlp-0", ablation={"value": "counterpart"})
    assert "needs a variable: which counterpart?" in needs
    unasked = fault(kind="ablate-set", nodes="enc-mlp-0", ablation={"variable": INDEX})
    assert "variable is of value: counterpart" in unasked


PATCHED = ["enc-self-0.1.v", "dec-cross-1.0.pattern", "enc-resid-1.mid", "dec-cross-0.2.k", "dec-mlp-0"]
MEASURES = [
    {"name": "logit-difference"}, {"name": "logit-difference", "against": "counterfactual", "steps": "all"},
    {"name": "answer-probability"}, {"name": "attention-mass", "heads": "dec-cross-1.*", "span": "second"},
    {"name": "attention-accuracy", "heads": "dec-cross-1.*", "span": "second"}, GREEDY,
]  # fmt: skip


@pytest.mark.parametrize("into", ["clean", "counterpart"])
def test_one_site_at_a_time(into: str):
    """All sites and their ends, the runs in either direction, with a site frozen in all but the other end."""
    freeze = ["dec-cross-1.1.q"]
    result, said = listen(
        MODEL, EPISODES, **PATCH, sites=PATCHED, into=into, measures=MEASURES, tensors=SITES, freeze=freeze
    )
    other = {"clean": "counterpart", "counterpart": "clean"}[into]
    conditions = {into: nothing, other: borrow(["enc.tok"]), **{site: borrow([site], (), freeze) for site in PATCHED}}
    trials = made(turned=into == "counterpart")
    same(result, conditions, trials, SITES)
    same_numbers(result, conditions, trials)
    for name, condition in conditions.items():
        assert [said[name][row] for row in range(len(trials))] == [say(trial, condition) for trial in trials]
    ends = {row.condition: row.end for row in result.rows if row.end}
    assert ends == {into: "nothing", other: "everything"}


def same_numbers(result: Result, conditions: dict[str, Condition], trials: Sequence[Trial]) -> None:
    """Each number from the logits and patterns by hand: right is always the episode's own answer."""
    differences, others = values(result, measure="logit-difference", against="wrong"), values(
        result, measure="logit-difference", against="counterfactual"
    )  # fmt: skip
    chances = values(result, measure="answer-probability")
    mass, best = (
        values(result, measure=f"attention-{name}", of="dec-cross-1.1", against="span second")
        for name in ("mass", "accuracy")
    )
    for name, condition in conditions.items():
        seen = [trial.run(condition(trial)) for trial in trials]
        first, every, whole, looked, top = [], [], [], [], []
        for one, episode in zip(seen, EPISODES, strict=True):
            right, rival = ids(episode.answer).tolist(), ids(answer(exchanged(episode.prompt))).tolist()
            steps = enumerate(zip(right, rival, strict=True))
            gaps = [float(one["logits"][n, a] - one["logits"][n, b]) for n, (a, b) in steps]
            first.append(gaps[:1])
            every.append(gaps)
            likely = one["logits"].softmax(-1)
            whole.append([math.prod(float(likely[n, t]) for n, t in enumerate([*right, TOKENS.index("EOS")]))])
            pattern = one["dec-cross-1.1.pattern"][: len(right)]
            looked.append(pattern[:, 2].tolist())  # the second argument stands third
            top.append([float(line.argmax() == 2) for line in pattern])
        assert differences[name] == pytest.approx({"all": table(first)["all"]}, abs=1e-10)
        assert others[name] == pytest.approx(table(every), abs=1e-10)
        assert chances[name] == pytest.approx({"all": table(whole)["all"]}, abs=1e-10)
        if name in mass:  # an edit that comes after that head has no row there
            assert mass[name] == pytest.approx(table(looked), abs=1e-10)
            assert best[name] == pytest.approx(table(top), abs=1e-10)


def places_of(episode: Episode, word: str) -> list[int]:
    """From 1, as by hand: the question is `A S B`."""
    named = {"first": 1, "function": 2, "second": 3, "last": len(episode.prompt)}
    return [named.get(word) or int(word)]


@pytest.mark.parametrize("into", ["clean", "counterpart"])
def test_one_place_at_a_time(into: str):
    sites, words = ["enc-resid-0.pre", "enc-self-1.2.v"], ["first", "function", "second", "last", "5"]
    measures = [{"name": "exact-match"}]
    places = [*words[:4], 5]
    result = ask(MODEL, EPISODES, **PATCH, sites=sites, places=places, into=into, measures=measures, tensors=SITES)
    trials = made(turned=into == "counterpart")
    for site in sites:
        for word in words:
            for row, (trial, episode) in enumerate(zip(trials, EPISODES, strict=True)):
                wanted = trial.run(borrow([site], places_of(episode, word))(trial))
                for name in SITES:
                    found = result.tensors[f"{site} at {word}/{name}"][row]
                    found = found[tuple(slice(n) for n in wanted[name].shape)]
                    assert float((found - wanted[name]).abs().max()) < 1e-10
    unarrived = {row.condition for row in result.rows if "nothing that was edited arrives" in row.warning}
    assert "enc-resid-0.pre at last" in unarrived  # the same token in both prompts


def test_each_place_and_a_decoders_own_places():
    """`each` goes as far as every episode does: of the prompt, or of what the decoder has read."""
    sites, measures = ["enc-resid-0.post", "dec-resid-0.post"], [{"name": "exact-match"}]
    result = ask(MODEL, EPISODES, **PATCH, sites=sites, places="each", measures=measures, tensors="logits")
    shortest = min(len(e.prompt) for e in EPISODES), min(len(e.answer) for e in EPISODES) + 1
    count = dict(zip(sites, shortest, strict=True))
    found = {(row.site, row.place) for row in result.rows if row.site}
    assert found == {(site, str(n)) for site, most in count.items() for n in range(1, most + 1)}
    for site, place in found:
        for row, trial in enumerate(made()):
            wanted = trial.run(borrow([site], [int(place)])(trial))["logits"]
            assert float((result.tensors[f"{site} at {place}/logits"][row][: len(wanted)] - wanted).abs().max()) < 1e-10


def test_places_by_name_in_other_kinds():
    """A span restricts any edit to where it stands."""
    keys = {"kind": "ablate-set", "nodes": "enc-self-0.1", "places": ["second", "last"]} | BORROWED
    result = ask(MODEL, EPISODES, **keys, measures=[{"name": "exact-match"}], tensors="logits")
    for row, (trial, episode) in enumerate(zip(made(), EPISODES, strict=True)):
        wanted = trial.run(ablate(["enc-self-0.1"], [3, len(episode.prompt)])(trial))["logits"]
        assert float((result.tensors["set ablated/logits"][row][: len(wanted)] - wanted).abs().max()) < 1e-10


def test_names_of_places_are_of_the_prompt():
    with pytest.raises(SteerError, match="has a value for each token of the answer; last is of the prompt"):
        ask(MODEL, EPISODES, **PATCH, sites="dec-mlp-0", places="last", measures=[GREEDY])
    with pytest.raises(SteerError, match=r"no place named 'frist'; did you mean first"):
        ask(MODEL, EPISODES, **PATCH, sites="enc-mlp-0", places="frist", measures=[GREEDY])
    with pytest.raises(SteerError, match=r"a heatmap is of kinds that go from site to site, or of .*; clean does not"):
        ask(MODEL, EPISODES, kind="clean", figure="heatmap", measures=[GREEDY])


def test_passes_start_at_the_patched_site():
    """Nothing before a patch is computed again."""
    from steer.engine.schedule import make_schedule
    from steer.experiments.api import build_recipe

    recipe = build_recipe(**PATCH, sites=["dec-cross-1.0.z", "enc-mlp-2"], measures=[{"name": "exact-match"}])
    plan = recipe.lower(MODEL.names).plan
    passes = make_schedule(plan, MODEL.model.layout, MODEL.model.steps).passes
    starts = {one.run.name: one.start for one in passes}
    own = {"dec-cross-1.0.z": "dec.1.cross_attn.write", "enc-mlp-2": "enc.2.mlp.write"}
    assert starts == {"the counterpart run itself": "enc.embed"} | own


def test_a_number_that_some_prompts_do_not_reach():
    """In a patch of one place they would be counted as unchanged, and are left out; elsewhere they stay."""
    lengths = sorted(len(episode.prompt) for episode in EPISODES)
    assert lengths[0] < lengths[-1]
    measures = [{"name": "exact-match"}]
    swept = {"kind": "keep-only-one", "target": TARGET, "sources": "enc-mlp-1"} | BORROWED
    rows = ask(MODEL, EPISODES, **swept, places=[lengths[-1]], measures=measures).rows
    assert {row.examples for row in rows} == {len(EPISODES)}
    rows = ask(MODEL, EPISODES, **PATCH, sites="enc-mlp-1", places=[lengths[-1]], measures=measures).rows
    reached = sum(length == lengths[-1] for length in lengths)
    assert {row.examples for row in rows} == {reached}
    assert all(f"left out: {len(EPISODES) - reached} without place {lengths[-1]}" in row.warning for row in rows)
