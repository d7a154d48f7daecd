"""Written and forced answers under every kind of intervention, and what the measures of answers count."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from by_hand import (
    Condition,
    ablate,
    ablate_only_one,
    chained,
    exchange_positions,
    keep_only_one,
    nothing,
    say,
    unchanged,
)  # fmt: skip
from small import MIXED, TWO, listen, net_of, talker, trials, values
from tokens import answers, score_all

from steer.experiments.accuracy import accuracy, strict
from steer.models.decoding import write_greedily
from steer.results.evaluation import GroupScore
from steer.tasks.compositional.slices import SLICES, make_slices
from steer.tasks.compositional.splits import make_splits
from steer.tasks.compositional.vocabulary import COLOURS, TOKENS
from steer.tasks.task import Slice

MODEL = talker()
NET = net_of(MODEL)
FEW = MIXED[1:5]
BOTH = [{"name": "exact-match", "decoding": how} for how in ("greedy", "forced")] + [{"name": "token-accuracy"}]
CHAIN = ["enc-self-2.1.v", "dec-cross-0.2.k", "dec-mlp-0", "dec-cross-1.1.q"]
Q, Z, SET = "dec-cross-1.2.q", "dec-cross-1.0.z", ["enc-self-1.1", "dec-cross-0.0", "dec-mlp-1"]
KEPT = {f"dec-self-1.{n}": keep_only_one(["dec-cross-1.0.q"], f"dec-self-1.{n}", (), [Q]) for n in range(3)}
WITHOUT = {f"dec-cross-0.{n}": ablate_only_one(["dec-mlp-0"], f"dec-cross-0.{n}", [1, 3]) for n in range(3)}
FIRSTS = {
    "nothing ablated before the chain": unchanged(CHAIN[0]),
    "everything ablated": keep_only_one(CHAIN[:1], None),
    "enc-self-0.1": ablate_only_one(CHAIN[:1], "enc-self-0.1"),
}
KINDS: list[tuple[dict, dict[str, Condition]]] = [
    (
        {"kind": "keep-only-one", "target": "dec-cross-1.0.q", "sources": "dec-self-1.*", "freeze": Q},
        {**KEPT, "everything ablated": keep_only_one(["dec-cross-1.0.q"], None, (), [Q])},
    ),
    (
        {"kind": "ablate-only-one", "target": "dec-mlp-0", "sources": "dec-cross-0.*", "places": [1, 3]},
        {**WITHOUT, "everything ablated": keep_only_one(["dec-mlp-0"], None, [1, 3])},
    ),
    (
        {"kind": "chained-patch", "sources": "enc-self-0.1", "chain": CHAIN, "others": "clean"}
        | {"mode": "ablate-only-one"},
        {name: chained(CHAIN, first, "clean") for name, first in FIRSTS.items()},
    ),
    ({"kind": "ablate-set", "nodes": SET, "freeze": Z}, {"set ablated": ablate(SET, (), [Z])}),
]


@pytest.mark.parametrize(("keys", "conditions"), KINDS, ids=lambda x: x.get("kind", ""))
def test_interventions_are_on_at_every_step(keys: dict, conditions: dict[str, Condition]):
    """What is clean is so on the tokens written so far; means are those of the episodes with the right tokens."""
    _, said = listen(MODEL, FEW, **keys, measures=BOTH[:1])
    made = trials(NET, FEW)
    assert said.keys() == {"nothing ablated", *conditions}
    for name, condition in (conditions | {"nothing ablated": nothing}).items():
        assert [said[name][row] for row in range(len(FEW))] == [say(trial, condition) for trial in made]


def test_exchanged_positions_stay_exchanged():
    ports = ["enc-self-0.1.k", "enc-self-1.0.v", "dec-cross-1.0.k"]
    keys = {"kind": "position-swap", "ports": ports, "episodes": {"arity": 2}}
    _, said = listen(MODEL, TWO, **keys, measures=BOTH[:1])
    made = trials(NET, TWO)
    assert [said["after"][row] for row in range(len(TWO))] == [say(t, exchange_positions(ports)) for t in made]
    assert said["after"] != said["before"]


# Right and wrong answers: some are the model's own, some are its own but for the end or one token


def graded() -> list:
    """Episodes of all lengths with the answers that make the model right, short, long, or wrong in one token."""
    found = []
    by_length: dict[int, int] = {}
    some = make_splits(0).test[:200]
    for episode, said in zip(some, answers(MODEL.transformer, some), strict=True):
        if 1 <= len(said) <= 5 and by_length.get(len(said), 0) < 5:
            number = by_length[len(said)] = by_length.get(len(said), 0) + 1
            other = next(colour for colour in COLOURS if colour != said[-1])
            wrong = {2: (*said[:-1], other), 3: said[:-1] if len(said) > 1 else said, 4: (*said, other)[:5]}
            found.append(replace(episode, answer=wrong.get(number, said)))
    return found


GRADED = graded()


def steps(values_seen, episode) -> list[bool]:
    """Is each step's likeliest token the right one? The step after the last colour has to say EOS."""
    return [
        TOKENS[int(line.argmax())] == token
        for line, token in zip(values_seen["logits"], [*episode.answer, "EOS"], strict=True)
    ]


def test_right_answers_are_right_to_their_end():
    """Greedy and forced exact match agree, over answers of one to five colours, with and without an intervention."""
    assert {len(e.answer) for e in GRADED} == {1, 2, 3, 4, 5}
    nodes = ["enc-self-1.1", "dec-self-0.2"]
    result, said = listen(MODEL, GRADED, kind="ablate-set", nodes=nodes, measures=BOTH)
    made = trials(NET, GRADED)
    for name, condition in {"nothing ablated": nothing, "set ablated": ablate(nodes)}.items():
        told = [steps(trial.run(condition(trial)), e) for trial, e in zip(made, GRADED, strict=True)]
        exact = [all(line) for line in told]
        assert [said[name][row] == [*e.answer, "EOS"] for row, e in enumerate(GRADED)] == exact
        assert 0.1 < sum(exact) / len(exact) < 0.9
        for how in ("greedy", "forced"):
            rows = values(result, measure="exact-match", decoding=how)[name]
            assert rows == {"all": pytest.approx(sum(exact) / len(exact))}
        flat = [hit for line in told for hit in line]
        by_step = [[line[n] for line in told if len(line) > n] for n in range(6)]
        wanted = {"all": sum(flat) / len(flat)} | {str(n + 1): sum(s) / len(s) for n, s in enumerate(by_step)}
        assert values(result, measure="token-accuracy")[name] == pytest.approx(wanted)
    right = [said["nothing ablated"][row] == [*e.answer, "EOS"] for row, e in enumerate(GRADED)]
    assert any(hit and len(e.answer) == 5 for hit, e in zip(right, GRADED, strict=True))
    assert any(not hit and len(e.answer) == 5 for hit, e in zip(right, GRADED, strict=True))


def test_evaluation_counts_the_same():
    """`steer eval`, its teacher-forced scores and the plain loop."""
    made = trials(NET, GRADED)
    told = [steps(trial.clean, e) for trial, e in zip(made, GRADED, strict=True)]
    exact = [all(line) for line in told]
    assert [say(trial, nothing) == [*e.answer, "EOS"] for trial, e in zip(made, GRADED, strict=True)] == exact
    scores = score_all(MODEL.transformer, GRADED, batch=4)
    assert scores.exact.tolist() == exact
    assert scores.token_hits.tolist() == [sum(line) for line in told]
    assert scores.tokens.tolist() == [len(line) for line in told]
    likelihood = []
    for trial, e in zip(made, GRADED, strict=True):
        lines = zip(trial.clean["logits"].log_softmax(-1), [*e.answer, "EOS"], strict=True)
        likelihood.append(float(sum(line[TOKENS.index(token)] for line, token in lines)))
    assert scores.log_likelihood.tolist() == pytest.approx(likelihood, abs=1e-10)
    slices = {"repeated": GRADED[::2], "disjoint-4": GRADED[1::2], "long": make_slices(0)["long"][:2]}
    parts = {name: Slice(SLICES[name].words, part) for name, part in slices.items()}
    rows = {score.slice: score for score in strict(MODEL, parts)}
    assert rows["repeated"].exact_match == pytest.approx(sum(exact[::2]) / len(exact[::2]))
    assert rows["disjoint-4"].exact_match == pytest.approx(sum(exact[1::2]) / len(exact[1::2]))
    assert rows["long"] == GroupScore(SLICES["long"].words, 0, slice="long")  # it takes 64 tokens
    found = accuracy(MODEL, GRADED)
    assert found.exact_match == pytest.approx(sum(exact) / len(exact))
    tokens = [hit for line in told for hit in line]  # each counts as much as any other, whatever its answer's length
    assert found.token_accuracy == pytest.approx(sum(tokens) / len(tokens))
    assert found.perplexity == pytest.approx(math.exp(-sum(likelihood) / len(tokens)))
    for score in found.groups:
        if "token" in score.group:
            hits = [hit for hit, e in zip(exact, GRADED, strict=True) if len(e.answer) == int(score.group[0])]
            assert (score.episodes, score.exact_match) == (len(hits), pytest.approx(sum(hits) / len(hits)))


def test_answers_of_a_model_are_cut_at_their_end():
    some = make_splits(0).test[:12]
    made = trials(NET, some)
    for said, trial in zip(answers(MODEL.transformer, some, batch=5), made, strict=True):
        written = say(trial, nothing)
        assert list(said) == (written[:-1] if "EOS" in written else written)


def test_what_comes_after_the_end_is_padding():
    """Three rows that close their answers at the first, second and no step: nothing is said after that."""
    vocabulary = MODEL.vocabulary
    red, blue = vocabulary.encode(("red", "blue"))
    lines = [[vocabulary.end, red, red, blue], [blue, vocabulary.end, blue, red], [red, blue, red, blue]]

    def next_logits(output: torch.Tensor) -> torch.Tensor:
        told = torch.tensor([line[output.shape[1] - 1] for line in lines])
        return torch.nn.functional.one_hot(told, len(vocabulary.tokens)).double()

    said = write_greedily(torch.zeros(3, 1, dtype=torch.long), next_logits, vocabulary, longest=3)
    pad = vocabulary.pad
    assert said.tolist() == [[lines[0][0], pad, pad, pad], [*lines[1][:2], pad, pad], lines[2]]
