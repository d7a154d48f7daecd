"""Values of a counterpart on a model of one sequence: every kind that ablates, patches by site and place, by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
import toy_by_hand as by_hand
from test_toy import CASES, LINES, ask, bare, installed, mean, numbers, right, same_answers, same_tensors, steps, value
from torch import Tensor
from toy import END
from toy_by_hand import Lent

from steer.base.errors import SteerError
from steer.results.result import Result

__all__ = ["installed"]  # a fixture
OTHERS = ["c to a a", "a b c d e f g", "a h", "h g to a", "to a from b to h"]
ANSWERS = ["e", "c f", "a", "a b", "d b"]
PAIRED = [
    line | {"counterparts": {"swap": {"prompt": other, "answer": answer}}}
    for line, other, answer in zip(LINES, OTHERS, ANSWERS, strict=True)
]
GOAL = {0: (2,), 1: (4, 5), 3: (3,)}  # line -> places of its span, from 0
BORROWED = {"ablation": {"value": "counterpart", "variable": "swap"}}
MEASURES = [
    {"name": "exact-match"}, {"name": "token-accuracy"}, {"name": "logit-difference"},
    {"name": "logit-difference", "against": "counterfactual", "steps": "all"}, {"name": "answer-probability"},
    {"name": "answer-probability", "against": "counterfactual", "steps": "first"},
]  # fmt: skip
SITES = ["logits", "dec-self-1.1.pattern", "dec-resid-1.post"]


def lent(variant: str, lines: Sequence[dict]) -> list[Lent]:
    from steer.models.families import load_subject

    module, cut = load_subject(f"toy:{variant}", dtype="float64").model.module, None if variant == "one" else -1
    others = [line["counterparts"]["swap"]["prompt"] for line in lines]
    return [
        Lent(module, numbers(line["prompt"]), numbers(line["answer"])[:cut], other=numbers(other))
        for line, other in zip(lines, others, strict=True)
    ]


@pytest.mark.parametrize("variant", ["one", "beside"])
@pytest.mark.parametrize("case", CASES)
def test_what_is_ablated_is_as_in_the_counterpart(installed, tmp_path: Path, variant: str, case: str):
    recipe, conditions = CASES[case]
    measures = [*MEASURES[:4], {"name": "exact-match", "decoding": "greedy"}]
    result = ask(tmp_path, variant, PAIRED, **recipe, **BORROWED, measures=measures, tensors=SITES)
    trials = lent(variant, PAIRED)
    assert {row.condition for row in result.rows} == set(conditions)
    for name, condition in conditions.items():
        seen = [by_hand.forward(trial.module, trial.ids, condition(trial)) for trial in trials]
        same_tensors(result, name, seen)
        same_answers(result, name, seen, trials, right(variant, PAIRED))
        same_differences(result, name, seen, trials, PAIRED)
        for row, trial in enumerate(trials):
            assert installed[name, row] == by_hand.say(trial, condition, 4, variant == "one")


def same_differences(result: Result, name: str, seen: Sequence[by_hand.Seen], trials, lines: Sequence[dict]) -> None:
    """The right token's logit less the others' mean: at the first step, and over the steps at which they differ."""
    first, all_steps = [], []
    for one, trial, line in zip(seen, trials, lines, strict=True):
        logits, answer = one["logits"][list(steps(trial))], numbers(line["answer"])
        wrong = [numbers(text)[0] for text in line["wrong"]]
        first.append([logits[0, answer[0]] - logits[0, wrong].mean()])
        other = numbers(line["counterparts"]["swap"]["answer"])
        pairs = [(n, a, b) for n, (a, b) in enumerate(zip(answer, other, strict=False)) if a != b]
        all_steps.append([logits[n, a] - logits[n, b] for n, a, b in pairs])
    labels = {"against": "wrong", "unit": "logit"}
    assert value(result, name, "logit-difference", **labels) == pytest.approx(mean(first), abs=1e-10)
    found = value(result, name, "logit-difference", against="counterfactual")
    assert found == pytest.approx(mean(all_steps), abs=1e-10)


# Patches

PATCHED = ["dec-self-0.1.z", "dec-self-1.2.k", "dec-mlp-0", "dec-resid-1.pre", "dec.tok"]
HOOKS = {
    "dec-self-0.1.z": ("layers.0.z", 1), "dec-self-1.2.k": ("layers.1.k", 2), "dec-mlp-0": ("layers.0.mlp", None),
    "dec-resid-1.pre": ("layers.1.pre", None), "dec.tok": ("tok", None),
}  # fmt: skip


def patched(site: str, theirs: by_hand.Seen, places: Sequence[int] | None) -> by_hand.Edits:
    """One site takes the other run's value at some places of the prompt (from 0; the start token stands before it)."""
    hook, head = HOOKS[site]

    def change(old: Tensor) -> Tensor:
        new = old.clone()
        for row in range(len(old)) if places is None else [place + 1 for place in places]:
            if head is None:
                new[row] = theirs[hook][row]
            else:
                new[row, head] = theirs[hook][row, head]
        return new

    return {hook: change}


@pytest.mark.parametrize("variant", ["one", "beside"])
def test_one_site_and_one_place_at_a_time(installed, tmp_path: Path, variant: str):
    """Rows, tensors and written answers of each patch; `each` goes as far as the shortest prompt."""
    recipe = {"kind": "activation-patch", "variable": "swap", "sites": PATCHED, "places": ["all", "last", "each"]}
    measures = [*MEASURES, {"name": "exact-match", "decoding": "greedy", "against": "counterfactual"}]
    result = ask(tmp_path, variant, PAIRED, **recipe, measures=measures, tensors=SITES)
    trials, pads = lent(variant, PAIRED), right(variant, PAIRED)
    wanted: dict[str, object] = {"clean": lambda trial: {}}
    for site in PATCHED:
        wanted[f"{site} at all"] = lambda t, site=site: patched(site, t.theirs, None)
        wanted[f"{site} at last"] = lambda t, site=site: patched(site, t.theirs, [len(t.prompt) - 1])
        for place in (0, 1):  # the shortest prompt has two tokens
            wanted[f"{site} at {place + 1}"] = lambda t, site=site, place=place: patched(site, t.theirs, [place])
    assert {row.condition for row in result.rows} == {*wanted, "counterpart"}
    assert all("2 to 7 places (text): each of the first 2" in row.warning for row in result.rows)
    for name, condition in wanted.items():
        seen = [by_hand.forward(trial.module, trial.ids, condition(trial)) for trial in trials]
        same_tensors(result, name, seen)
        same_differences(result, name, seen, trials, PAIRED)
        same_chances(result, name, seen, trials, pads)
        for row, trial in enumerate(trials):
            assert installed[name, row] == by_hand.say(trial, condition, 4, variant == "one")
    same_tensors(result, "counterpart", [trial.theirs for trial in trials])
    assert {row.end for row in result.rows if row.condition == "clean"} == {"nothing"}
    assert {row.end for row in result.rows if row.condition == "counterpart"} == {"everything"}
    places = {(row.site, row.place) for row in result.rows if row.site}
    assert places == {(site, place) for site in PATCHED for place in ("all", "last", "1", "2")}


def same_chances(result: Result, name: str, seen: Sequence[by_hand.Seen], trials, targets) -> None:
    """The product of the answer's own chances; of the other answer, its first token's."""
    whole, other = [], []
    for one, trial, target, line in zip(seen, trials, targets, PAIRED, strict=True):
        chances = one["logits"].softmax(-1)
        each = [chances[column, token] for column, token in zip(steps(trial), target, strict=True)]
        whole.append([math.prod(map(float, each))])
        first = numbers(line["counterparts"]["swap"]["answer"])[0]
        other.append([chances[len(trial.prompt), first]])
    assert value(result, name, "answer-probability", against="answer") == pytest.approx(mean(whole), abs=1e-10)
    found = value(result, name, "answer-probability", against="counterfactual")
    assert found == pytest.approx(mean(other), abs=1e-10)


def test_into_the_counterpart(installed, tmp_path: Path):
    """The runs change places: the counterpart's prompt takes values of the clean run, and the same answer is right."""
    recipe = {"kind": "activation-patch", "variable": "swap", "sites": PATCHED, "into": "counterpart"}
    result = ask(tmp_path, "one", PAIRED, **recipe, measures=MEASURES[:4], tensors=SITES)
    turned = [Lent(trial.module, trial.other, trial.said, other=trial.prompt) for trial in lent("one", PAIRED)]
    for site in PATCHED:
        seen = [by_hand.forward(t.module, t.ids, patched(site, t.theirs, None)) for t in turned]
        same_tensors(result, site, seen)
        same_differences(result, site, seen, turned, PAIRED)
        same_answers(result, site, seen, turned, right("one", PAIRED))
    same_tensors(result, "counterpart", [trial.clean for trial in turned])
    same_tensors(result, "clean", [trial.theirs for trial in turned])
    ends = {row.condition: row.end for row in result.rows if row.end}
    assert ends == {"counterpart": "nothing", "clean": "everything"}


def test_a_span_of_the_prompt(installed, tmp_path: Path):
    """Patched together where it stands in each line; lines without it are left out of every row, and counted."""
    recipe = {"kind": "activation-patch", "variable": "swap", "sites": PATCHED, "places": "goal"}
    span = {"name": "attention-mass", "heads": "dec-self-1.*", "span": "goal"}
    look = {"name": "attention-accuracy", "heads": "dec-self-1.*", "span": "goal"}
    result = ask(tmp_path, "one", PAIRED, **recipe, measures=[MEASURES[2], MEASURES[3], span, look])
    kept = {row: trial for row, trial in enumerate(lent("one", PAIRED)) if row in GOAL}
    assert all("2 of 5 examples left out: 2 without place 'goal'" in row.warning for row in result.rows)
    assert {row.examples for row in result.rows} == {3}
    for site in PATCHED:
        seen = {n: by_hand.forward(t.module, t.ids, patched(site, t.theirs, GOAL[n])) for n, t in kept.items()}
        lines = [PAIRED[n] for n in kept]
        same_differences(result, f"{site} at goal", [*seen.values()], [*kept.values()], lines)
        for head in range(by_hand.HEADS):
            mass, best = [], []
            for n, trial in kept.items():
                pattern = seen[n]["layers.1.pattern"][head]
                target, columns = right("one", PAIRED)[n], [place + 1 for place in GOAL[n]]
                rows = [pattern[c] for c, token in zip(steps(trial), target, strict=True) if token != END]
                mass.append([row[columns].sum() for row in rows])
                best.append([int(row.argmax()) in columns for row in rows])
            of = f"dec-self-1.{head}"
            labels = {"against": "span goal"}
            assert value(result, f"{site} at goal", "attention-mass", of, **labels) == pytest.approx(
                mean(mass), abs=1e-10
            )
            assert value(result, f"{site} at goal", "attention-accuracy", of, **labels) == pytest.approx(mean(best))


@pytest.mark.parametrize("against", ["wrong", "counterfactual"])
def test_shares_of_a_logit_difference_sum_to_it(installed, tmp_path: Path, against: str):
    step = "first" if against == "wrong" else "all"
    measures = [{"name": "logit-attribution", "against": against, "steps": step}]
    measures.append({"name": "logit-difference", "against": against, "steps": step})
    kept = {"kind": "activation-patch", "variable": "swap", "sites": "dec.tok"}
    result = ask(tmp_path, "one", PAIRED, **kept, measures=measures)
    shares = [row for row in result.rows if row.measure == "logit-attribution" and row.position is None]
    total = sum(row.value for row in shares if row.condition == "clean")
    assert total == pytest.approx(value(result, "clean", "logit-difference"), abs=1e-10)
    assert {row.of for row in shares} == {*by_hand.ALL_NODES, "constant"}


def test_counterparts_that_cannot_be_used_are_left_out_and_counted(installed, tmp_path: Path):
    lines = [
        *PAIRED[:2],
        PAIRED[2] | {"counterparts": {}},
        PAIRED[3] | {"counterparts": {"swap": {"prompt": "h g to a a", "answer": "g"}}},
        PAIRED[4] | {"counterparts": {"swap": {"prompt": OTHERS[4]}}},
    ]
    recipe = {"kind": "ablate-set", "nodes": "dec-self-0.1"} | BORROWED
    out = "1 without a counterpart 'swap', 1 with a counterpart 'swap' of another length"
    result = ask(tmp_path, "one", lines, **recipe, measures=[{"name": "exact-match"}], tensors="logits")
    assert {row.warning for row in result.rows} == {f"2 of 5 examples left out: {out}"}
    kept = [trial for n, trial in enumerate(lent("one", PAIRED)) if n in (0, 1, 4)]
    condition = by_hand.silenced(["dec-self-0.1"])
    for row, trial in enumerate(kept):
        seen = by_hand.forward(trial.module, trial.ids, condition(trial))["logits"]
        torch.testing.assert_close(result.tensors["set ablated/logits"][row][: len(seen)], seen, rtol=0, atol=1e-10)
    result = ask(tmp_path, "one", lines, **recipe, measures=[MEASURES[3]])
    assert "1 with a counterpart 'swap' whose answer is not known" in result.rows[0].warning
    with pytest.raises(SteerError, match=r"none of 1 examples can be used: 1 with a counterpart 'swap' of another"):
        ask(tmp_path, "one", lines[3:4], **recipe, measures=[{"name": "exact-match"}])


FAULTS = [
    ({"sites": "dec.pos"}, "dec.pos does not depend on the prompt: it is the same in the counterpart's run"),
    ({"places": "gaol"}, r"no place named 'gaol'; did you mean goal"),
    ({"places": [0]}, "must be a number from 1 to 100000, `last`, or the name of a span"),
    ({"places": [9]}, "none of 5 examples can be used: 5 without place 9"),
    ({"variable": "swop"}, "variable"),
    ({"measures": [{"name": "logit-difference", "against": "counterfactual"}]}, "lines.jsonl:1: both answers start"),
    ({"measures": [{"name": "answer-probability", "against": "counterfactual"}]}, r"only the first token is known"),
    ({"measures": [{"name": "attention-mass", "heads": "dec-self-1.0", "span": "gaol"}]}, "span"),
]  # fmt: skip


@pytest.mark.parametrize(("keys", "text"), FAULTS, ids=range(len(FAULTS)))
def test_faults_have_their_place(installed, tmp_path: Path, keys: dict, text: str):
    lines = [PAIRED[0] | {"counterparts": {"swap": {"prompt": "c to a a", "answer": "b c"}}}, *PAIRED[1:]]
    good = {"kind": "activation-patch", "variable": "swap", "sites": "dec.tok", "measures": [{"name": "exact-match"}]}
    with pytest.raises(SteerError, match=rf"asked.yaml:\d+:\d+: .*{text}"):
        ask(tmp_path, "one", lines, **(good | keys))


def test_a_difference_that_the_clean_run_does_not_have_is_warned_of(installed, tmp_path: Path):
    """The answer is what the model says last of all."""
    trial = lent("one", PAIRED)[0]
    first = trial.clean["logits"][len(trial.prompt)]
    words = [by_hand.WORDS[int(first[3:].argmin()) + 3], by_hand.WORDS[int(first[3:].argmax()) + 3]]
    lines = [PAIRED[0] | {"answer": words[0], "wrong": [words[1]]}] * 2
    recipe = {"kind": "activation-patch", "variable": "swap", "sites": "dec.tok"}
    for into in ("clean", "counterpart"):
        rows = ask(tmp_path, "one", lines, **recipe, into=into, measures=[MEASURES[2]]).rows
        assert all("the clean run does not prefer the right answer" in row.warning for row in rows)
    other = [PAIRED[0] | {"answer": words[1], "wrong": [words[0]]}]
    rows = ask(tmp_path, "one", other * 2, **recipe, into="counterpart", measures=[MEASURES[2]]).rows
    assert not any("prefer" in row.warning for row in rows)
    rows = ask(tmp_path, "one", [*other * 3, *lines], **recipe, measures=[MEASURES[2]]).rows  # on average it does
    assert rows[0].low < 0 < rows[0].value
    assert all("prefer" in row.warning for row in rows)
    assert bare(trial) == {}
