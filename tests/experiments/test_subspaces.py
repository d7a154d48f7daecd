"""Distributed alignment search: rotations that are learnt, and the controls beside them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from small import net_of, of_arity, talker
from torch.nn import functional as F

from steer.anatomy.nodes import parse_site
from steer.engine.engine import Engine
from steer.engine.session import Inputs, Session
from steer.experiments.subspaces import Fitting, Pairs, angles, drawn, fit, pairs_of, shuffled
from steer.models.checkpoint import load_checkpoint
from steer.plan.plan import CLEAN, COUNTERPART, Current, Edit, Of, Run, Stored, Within, make_plan

GIVEN = Stored("given", "")
MODEL = talker()


@pytest.fixture(scope="module")
def pairs() -> Pairs:
    return pairs_of(MODEL, of_arity(2, 40), "index-in-question")


def likelihood(engine: Engine, pairs: Pairs, site: str, rows: np.ndarray) -> float:
    """Of the counterparts' answers, the rows' subspace taken from the counterparts: by the engine's own session."""
    edit = Edit(parse_site(site), Within(GIVEN, Of(COUNTERPART), Current()))
    plan = make_plan(Run(CLEAN), [Run("within", (edit,), (engine.layout.logits,), "within")])
    total = 0.0
    for found in Session(engine, plan, Inputs(pairs.examples, pairs.counterparts, stored={GIVEN: rows})):
        logits, target = found.values[engine.layout.logits], found.batch.target
        total -= float(F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=0, reduction="sum"))
    return total


def test_pairs_have_the_counterparts_answer_and_its_length(pairs: Pairs):
    assert len(pairs.examples) == len(pairs.counterparts) > 10
    for one, other in zip(pairs.examples, pairs.counterparts, strict=True):
        assert one.answer == other.answer
        assert len(one.prompt) == len(other.prompt)
        assert one.prompt != other.prompt


def test_a_learnt_subspace_is_orthonormal_and_better_than_a_random_one(pairs: Pairs):
    engine, site = Engine(MODEL.model), "enc-self-0.1.z"
    rows = fit(engine, pairs, {parse_site(site): 2}, Fitting(epochs=6, batch=20))[parse_site(site)]
    np.testing.assert_allclose(rows @ rows.T, np.eye(2), atol=1e-10)
    others = [np.linalg.qr(np.random.default_rng(seed).standard_normal((5, 2)))[0].T for seed in range(6)]
    assert likelihood(engine, pairs, site, rows) > max(likelihood(engine, pairs, site, one) for one in others)


def test_the_same_seed_gives_the_same_subspace(pairs: Pairs):
    engine, site = Engine(MODEL.model), parse_site("enc-self-0.1.z")
    found = [fit(engine, pairs, {site: 1}, Fitting(epochs=1, batch=20, seed=seed)) for seed in (0, 0, 1)]
    one, two, other = (each[site] for each in found)
    assert np.array_equal(one, two)
    assert not np.array_equal(one, other)


def test_random_subspaces_of_several_sites_have_nothing_to_do_with_one_another():
    sizes = {parse_site(f"enc-self-{layer}.{head}.z"): 1 for layer in (0, 1) for head in range(3)}
    found = {seed: [rows[0] for rows in drawn(Engine(MODEL.model), sizes, seed).values()] for seed in (0, 1)}
    directions = np.array([*found[0], *found[1]])
    np.testing.assert_allclose(np.linalg.norm(directions, axis=1), 1.0, atol=1e-6)
    assert np.triu(np.abs(directions @ directions.T), 1).max() < 0.999


def test_weights_stay_as_they_are(pairs: Pairs):
    before = {name: value.clone() for name, value in net_of(MODEL).weights.items()}
    fit(Engine(MODEL.model), pairs, {parse_site("enc-self-0.1.z"): 1}, Fitting(epochs=1, batch=20))
    assert all(torch.equal(before[name], value) for name, value in net_of(MODEL).weights.items())


def test_shuffled_counterparts_belong_to_others_of_the_same_length(pairs: Pairs):
    mixed = shuffled(pairs.examples, pairs.counterparts, 0)
    assert sorted(map(str, mixed)) == sorted(map(str, pairs.counterparts))
    lengths = [len(other.prompt) for other in mixed]
    assert lengths == [len(one.prompt) for one in pairs.examples]
    alone = [len(one.prompt) for one in pairs.examples]
    own = [a is b for a, b in zip(mixed, pairs.counterparts, strict=True)]
    assert all(alone.count(length) == 1 for length, same in zip(alone, own, strict=True) if same)


def test_angles_between_known_planes():
    plane, tilted = np.array([[1.0, 0, 0], [0, 1, 0]]), np.array([[3.0, 0, 0], [0, np.cos(0.3), np.sin(0.3)]])
    np.testing.assert_allclose(angles(plane, plane[::-1] * 2), [0, 0], atol=1e-6)
    np.testing.assert_allclose(angles(plane, tilted), [0, 0.3], atol=1e-6)


@pytest.mark.long
def test_the_index_in_the_question_lives_in_one_dimension_of_question_broadcast():
    """On seed1, fitted on training episodes, judged on others. With others' counterparts in both, nothing follows."""
    checkpoint = load_checkpoint("seed1")
    task, engine = checkpoint.task, Engine(checkpoint.model)

    def shown(split: str, count: int) -> Pairs:
        wanted = task.selection(split=split, count=count, arity=2)
        return pairs_of(checkpoint, task.examples(wanted, 0, "index-in-question"), "index-in-question")

    site, train, test = parse_site("enc-self-0.5.z"), shown("train", 300), shown("validation", 150)
    edit = Edit(site, Within(GIVEN, Of(COUNTERPART), Current()))
    plan = make_plan(Run(CLEAN), [Run("within", (edit,), (engine.layout.logits,), "within")])

    def follows(rows: np.ndarray, judged: Pairs) -> float:
        hits = []
        for found in Session(engine, plan, Inputs(judged.examples, judged.counterparts, stored={GIVEN: rows})):
            said, target = found.values[engine.layout.logits].argmax(-1), found.batch.target
            hits += ((said == target) | (target == checkpoint.model.pad)).all(-1).tolist()
        return float(np.mean(hits))

    mixed, mixed_test = (Pairs(one.examples, shuffled(one.examples, one.counterparts, 0)) for one in (train, test))
    assert follows(fit(engine, train, {site: 1}, Fitting(epochs=8))[site], test) > 0.9
    assert follows(fit(engine, mixed, {site: 1}, Fitting(epochs=8))[site], mixed_test) < 0.5
