"""The definitions of the authors' code, done by hand on a random model some of whose answers are right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from by_hand import Trial, ablate, nothing, written_at
from by_hand_task import labelled
from small import ask, mass, net_of, of_arity, table, talker, trials, values
from torch import Tensor

from steer.measures.attention import accuracy_by_copies
from steer.measures.explained import r_squared
from steer.measures.variance import moments, share
from steer.tasks.compositional.episode import Episode
from steer.tasks.compositional.vocabulary import COLOURS, TOKENS

MODEL = talker()
NET = net_of(MODEL)
HEAD, OFF = "dec-cross-1.1", ["enc-self-1.1", "enc-mlp-0"]
OTHERS = of_arity(1, 5, 40) + of_arity(2, 4, 60)  # that give means: in no order of length


def answered(asked: Sequence[Episode], as_long: bool = False) -> list[Episode]:
    """The same questions; two of three have the answer that the model gives, if it is made of colours."""
    said = list(MODEL.answers(asked))
    fits = [0 < len(one) <= 5 and set(one) <= set(COLOURS) for one in said]
    if as_long:  # indices are of the right answer's steps
        fits = [fit and len(one) == len(e.answer) for fit, one, e in zip(fits, said, asked, strict=True)]
    return [replace(e, answer=said[n]) if fits[n] and n % 3 else e for n, e in enumerate(asked)]


EPISODES = answered(of_arity(2, 24))
MADE = trials(NET, EPISODES)


def right_steps(trial: Trial, episode: Episode) -> list[bool]:
    said = [TOKENS[int(n)] for n in trial.clean["logits"].argmax(-1)]
    return [one == two for one, two in zip(said, (*episode.answer, "EOS"), strict=True)]


RIGHT = [right_steps(trial, episode) for trial, episode in zip(MADE, EPISODES, strict=True)]


def test_some_questions_are_answered_and_some_are_not():
    assert 5 < sum(all(steps) for steps in RIGHT) < 20
    assert any(all(steps[:-1]) and not steps[-1] for steps in RIGHT) or any(steps[0] != all(steps) for steps in RIGHT)


def by_copies(pattern: Tensor, prompt: Sequence[str], answer: Sequence[str]) -> list[float]:
    hits = []
    for step, colour in enumerate(answer):
        together: dict[str, float] = {}
        for place, token in enumerate(prompt):
            together[token] = together.get(token, 0.0) + float(pattern[step][place])
        del together["EOS"]
        hits.append(float(max(together, key=together.__getitem__) == colour))
    return hits


def test_attention_by_copies_on_questions_that_are_answered():
    measures = [{"name": f"attention-{what}", "heads": HEAD, "definition": "authors"} for what in ("accuracy", "mass")]
    measures.append({"name": "attention-mass", "heads": HEAD})
    result = ask(MODEL, EPISODES, kind="ablate-set", nodes=OFF, measures=measures)
    clean: list[list[float]] = []
    for name, condition in {"nothing ablated": nothing, "set ablated": ablate(OFF)}.items():
        hits, looked = [], []
        for e, trial, right in zip(EPISODES, MADE, RIGHT, strict=True):
            pattern = trial.run(condition(trial))[f"{HEAD}.pattern"]
            hits += [by_copies(pattern, e.prompt, e.answer)] if all(right) else []
            looked += [mass(pattern, e.prompt, e.answer)] if all(right[:-1]) else []
        clean = clean or looked
        for measure, lines in (("attention-accuracy", hits), ("attention-mass", looked)):
            found = values(result, measure=f"{measure} (authors)")[name]
            assert found == pytest.approx(table(lines), abs=1e-10)
        ratio = sum(map(sum, looked)) / sum(map(sum, clean))
        (row,) = [r for r in result.rows if (r.condition, r.measure) == (name, "contribution (authors)")]
        assert (row.value, row.unit) == (pytest.approx(ratio, abs=1e-10), "ratio")
        assert row.low <= row.value <= row.high
        assert row.counted == sum(map(len, looked))
        assert (
            values(result, measure="attention-mass")[name] != values(result, measure="attention-mass (authors)")[name]
        )


def test_copies_count_together_and_marks_do_not():
    """One copy gets most, two of another token get more; EOS (2) and PAD (0) get more than any."""
    pattern = torch.tensor([[[0.2, 0.15, 0.15, 0.3, 0.2]]])
    prompt = torch.tensor([[5, 6, 6, 2, 0]])
    for target, hit in ((6, 1.0), (5, 0.0), (2, 0.0), (0, 0.0)):
        assert accuracy_by_copies(pattern, prompt, torch.tensor([[target]]), [2, 0]).item() == hit


def test_shares_of_variance():
    """As the authors' code has them: all numbers pooled, nothing centred, LayerNorm's gain over its own scale."""
    heads = ["dec-self-0.2", "dec-cross-1.1"]
    measure = {"name": "logit-attribution", "components": [*heads, "dec-mlp-1"], "definition": "authors"}
    result = ask(MODEL, EPISODES, kind="ablate-set", nodes="dec-cross-0.1", measures=[measure])
    end = f"dec-resid-{NET.decoder_layers - 1}.post"
    for name, condition in {"nothing ablated": nothing, "set ablated": ablate(["dec-cross-0.1"])}.items():
        runs = [trial.run(condition(trial)) for trial in MADE]
        whole = np.concatenate([run["dec.final"][:2].flatten() for run in runs])
        for node in (*heads, "dec-mlp-1"):
            parts = []
            for run in runs:
                scale = NET.weights["ln_dec.weight"] / run[end][:2].std(-1, unbiased=False, keepdim=True)
                parts.append((run[written_at(node)][:2] * scale).flatten())
            x = np.concatenate(parts)
            wanted = (x.var() + 2 * np.cov(x, whole - x, bias=True)[0, 1]) / whole.var()
            (row,) = [r for r in result.rows if (r.condition, r.of) == (name, node)]
            assert (row.measure, row.unit, row.counted) == ("variance-share (authors)", "ratio", 2 * len(EPISODES))
            assert row.value == pytest.approx(wanted, abs=1e-9)
            assert row.low <= row.value <= row.high


def test_a_share_of_variance_is_of_counted_steps_and_may_be_of_nothing():
    rng = np.random.default_rng(0)
    x, y = (torch.from_numpy(rng.normal(size=(3, 2, 4))) for _ in range(2))
    counted = torch.tensor([[True, True], [True, False], [True, True]])
    one, two = (v[counted].flatten().numpy() for v in (x, y))
    wanted = (one.var() + 2 * np.cov(one, two - one, bias=True)[0, 1]) / two.var()
    assert share(moments(x, y, counted).sum(0)[None])[0] == pytest.approx(wanted)
    assert share(moments(x, torch.zeros_like(y), counted).sum(0)[None])[0] == 0.0


def test_r_squared_of_each_feature_counts_alike():
    from sklearn.linear_model import LinearRegression
    from sklearn.metrics import r2_score

    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 200)
    points = rng.normal(size=(200, 4)) * [1, 5, 0.1, 2] + np.outer(labels, [1, 0.5, 0, 3])
    onehot = np.eye(3)[labels]
    fitted = LinearRegression().fit(onehot, points).predict(onehot)
    evenly = r2_score(points, fitted, multioutput="uniform_average")
    assert r_squared(points, labels, evenly=True) == pytest.approx(evenly)
    assert r_squared(points, labels) == pytest.approx(r2_score(points, fitted, multioutput="variance_weighted"))
    assert r_squared(np.column_stack([points, np.ones(200)]), labels, evenly=True) == pytest.approx(evenly * 4 / 5)


@pytest.mark.parametrize(
    ("site", "label", "tokens"),
    [
        ("enc-self-2.1.z", "index-in-question", "question"),
        ("dec-cross-1.2.k", "index-in-question", "copies"),
        ("dec-cross-1.2.q", "relative-index", "steps"),
    ],
)
def test_r_squared_of_the_points_that_the_authors_take(site: str, label: str, tokens: str):
    episodes = answered(of_arity(2, 60))
    if tokens == "steps":
        asked = of_arity(2, 400)
        several = [e for e, old in zip(answered(asked, True), asked, strict=True) if e != old and len(e.answer) > 2]
        episodes = [*several, *(e for e in asked[:40] if len(e.answer) > 2)]
    measure = {"name": "r-squared", "site": site, "label": label, "tokens": tokens, "definition": "authors"}
    result = ask(MODEL, episodes, kind="clean", measures=[measure])
    points, labels = [], []
    for e, trial in zip(episodes, trials(NET, episodes), strict=True):
        right = right_steps(trial, e)
        if tokens == "steps":
            asked = all(right[2 : len(e.answer)])
        else:
            asked = all(right[:2]) and (*e.answer, "EOS")[0] != (*e.answer, "EOS")[1]
        for place, one in labelled(e.prompt, label, tokens) if asked else []:
            if tokens != "steps" or place >= 2:
                points.append(trial.clean[site][place].numpy())
                labels.append(one)
    whole, kinds = np.array(points), np.array(labels)
    assert 1 < len(set(labels)) < len(labels)
    assert len(labels) < sum(len(labelled(e.prompt, label, tokens)) for e in episodes)
    rest = sum(((whole[kinds == k] - whole[kinds == k].mean(0)) ** 2).sum(0) for k in set(labels))
    wanted = (1 - rest / ((whole - whole.mean(0)) ** 2).sum(0)).mean()
    (row,) = result.rows
    assert (row.measure, row.counted) == ("r-squared (authors)", len(labels))
    assert row.value == pytest.approx(wanted, abs=1e-10)
