"""Measures checked by hand or by another way of computing them."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracle import hook_name, hooked_forward, relative_logit, written
from scipy.stats import beta, binomtest
from sklearn.linear_model import LinearRegression
from tokens import COLOUR_IDS, ID, PAD_ID, SCORING, VOCABULARY, collate

from steer.anatomy.nodes import Node, Site
from steer.base.errors import SteerError
from steer.measures.alignment import Alignment, ov_alignment
from steer.measures.answers import AnswerMeasure, exact_match, exact_tokens, token_accuracy
from steer.measures.attention import attention_accuracy, attention_mass, next_tokens
from steer.measures.attribution import logit_attribution
from steer.measures.collect import check_unit
from steer.measures.explained import explained, principal_components, r_squared
from steer.models.plain.config import ModelConfig
from steer.models.plain.model import PlainModel
from steer.models.plain.transformer import Transformer
from steer.results.intervals import wilson
from steer.results.rows import Labels, Row
from steer.results.tally import Tally, bootstrap_weights
from steer.tasks.compositional.episode import Episode
from steer.tasks.compositional.labels import labelled_tokens
from steer.tasks.compositional.splits import make_splits


@given(st.integers(0, 300), st.integers(1, 300))
def test_wilson_is_that_of_scipy(hits: int, total: int):
    hits = min(hits, total)
    assert wilson(hits, total) == pytest.approx(binomtest(hits, total).proportion_ci(0.95, "wilson"), abs=1e-7)


def test_wilson_of_nothing_knows_nothing():
    assert wilson(0, 0) == (0.0, 1.0)


# Attention


def test_attention_measures_by_hand():
    """Two steps on a prompt of four tokens: red blue red EOS."""
    red, blue = ID["red"], ID["blue"]
    prompt = torch.tensor([[red, blue, red, ID["EOS"]]])
    target = torch.tensor([[red, blue, ID["EOS"]]])
    pattern = torch.tensor([[[0.4, 0.5, 0.1, 0.0], [0.1, 0.6, 0.3, 0.0], [0.0, 0.0, 0.0, 1.0]]])
    hits, counted = attention_accuracy(pattern, prompt, target), SCORING.counts(target)
    assert hits.tolist() == [[0.0, 1.0, 1.0]]  # blue is looked at most at the first step, though red has as much mass
    assert counted.tolist() == [[True, True, False]]  # the step that says EOS does not count
    mass = attention_mass(pattern, next_tokens(prompt, target))
    torch.testing.assert_close(mass[0, :2], torch.tensor([0.5, 0.6], dtype=torch.float64), rtol=0, atol=1e-7)


@pytest.mark.parametrize(("other", "neither"), [("red", [1.0, 0.0]), ("blue", [0.0, 0.0])])
def test_an_answer_that_is_the_counterparts_as_well_is_one_of_both_once(other: str, neither: list[float]):
    """Written: blue, then red. Right is red; the counterpart's answer is the same, or blue."""
    red, blue, end, pad = (ID[token] for token in ("red", "blue", "EOS", "PAD"))
    answers = {"answer": red, "counterfactual": ID[other]}
    setting = SimpleNamespace(
        episodes=[None, None], task=SimpleNamespace(longest_answer=1), model=SimpleNamespace(pad=pad, end=end),
        target=lambda batch, name: torch.tensor([[answers[name], end]] * 2),
    )  # fmt: skip
    measure = AnswerMeasure(name="exact-match", decoding="greedy", against="neither")
    sums = measure.sums(setting)
    sums.add_written(SimpleNamespace(rows=[0, 1], number=0), "some", torch.tensor([[blue, end], [red, end]]))
    (tally,) = sums.tallies()
    assert tally.values[:, 0].tolist() == neither


def test_a_number_that_is_no_share_is_not_printed_in_percent():
    row = Row("some", "rank", 12.7, 12.0, 13.0, 1, 1)
    with pytest.raises(SteerError, match=r"rank: 12\.7 is not a share"):
        check_unit(row)
    check_unit(replace(row, unit="number"))
    check_unit(replace(row, value=1.0))


def test_answer_measures_by_hand():
    red, eos, pad = ID["red"], ID["EOS"], ID["PAD"]
    target = torch.tensor([[red, eos, pad], [red, red, eos]])
    logits = torch.nn.functional.one_hot(torch.tensor([[red, eos, red], [red, eos, eos]]), 20).double()
    assert exact_match(logits, target, PAD_ID)[0].tolist() == [[1.0], [0.0]]
    hits, counted = token_accuracy(logits, target, PAD_ID)
    assert (hits * counted).tolist() == [[1.0, 1.0, 0.0], [1.0, 0.0, 1.0]]
    assert exact_tokens(torch.tensor([[red, eos], [red, red]]), target, PAD_ID, eos)[0].tolist() == [[1.0], [0.0]]


# Tallies


@given(st.integers(0, 1_000))
def test_a_tallys_mean_is_the_plain_mean_of_what_counts(seed: int):
    rng = np.random.default_rng(seed)
    values, counted = rng.random((30, 5)), rng.integers(0, 2, (30, 5)).astype(float)
    tally = Tally(30, 5, labels=Labels(measure="m"))
    tally.put(list(range(20)), values[:20], counted[:20])
    tally.put(list(range(20, 30)), values[20:], counted[20:])
    rows = {row.position: row for row in tally.table(bootstrap_weights(30, 0, draws=50))}
    assert rows[None].value == pytest.approx(values[counted == 1].mean())
    for place in range(5):
        if counted[:, place].any():
            here = values[:, place][counted[:, place] == 1]
            assert rows[place + 1].value == pytest.approx(here.mean())
            assert rows[place + 1].counted == len(here)


def test_the_bootstrap_covers_what_it_should():
    """Means of 200 coin tosses, many times: about 95 % of the intervals hold the truth."""
    rng, weights = np.random.default_rng(0), bootstrap_weights(200, 1, draws=400)
    held = 0
    for _ in range(200):
        tally = Tally(200, 1)
        tally.put(list(range(200)), rng.integers(0, 2, (200, 1)).astype(float), np.ones((200, 1)))
        (row,) = tally.table(weights)
        held += row.low <= 0.5 <= row.high
    assert 0.9 <= held / 200 <= 0.99


@pytest.mark.parametrize(("hits", "ends"), [(0, (0, 0.0188)), (200, (0.9812, 1))])
def test_an_interval_of_hits_has_width_at_both_ends(hits: int, ends: tuple[float, float]):
    weights = bootstrap_weights(200, 1, draws=50)
    for positions in (1, 3):
        tally = Tally(200, positions, hits=True)
        tally.put(list(range(200)), np.full((200, positions), hits / 200), np.ones((200, positions)))
        rows = tally.table(weights)
        assert [row.position for row in rows] == ([None] if positions == 1 else [None, 1, 2, 3])
        for row in rows:
            assert (row.low, row.high) == pytest.approx(ends, abs=1e-4)


# Logit attribution and alignment


@torch.no_grad()
def test_components_sum_to_the_relative_logit(paper_model: Transformer):
    model = paper_model.double()
    batch = collate(make_splits(0).test[:12])
    prompt, output, target = map(torch.from_numpy, (batch.prompt, batch.output, batch.target))
    seen = hooked_forward(model, prompt, output, {})
    plain = PlainModel(model, VOCABULARY)
    writers = [node for node in plain.layout.nodes if node.kind.startswith("dec")]
    writes = {node: written(model, node, seen[hook_name(node)]) for node in writers}
    clean = {Site(Node("dec-resid", 1), "post"): seen["dec.1.mlp.post"]}
    shares = logit_attribution(plain, writes, clean, target, [COLOUR_IDS] * len(target))
    total = sum(shares.values())
    torch.testing.assert_close(total, relative_logit(seen["logits"], target), rtol=0, atol=1e-10)


@torch.no_grad()
def test_a_copying_head_aligns_with_the_unembedding():
    """W_V and W_O pass the first features on, memory holds the token's own unembedding row: alignment is its norm."""
    config = ModelConfig(heads=1, d_model=32, d_head=32)
    model = Transformer(config).double()
    block = model.dec[1]["cross_attn"]
    for linear in (block.W_V, block.W_O):
        linear.weight.copy_(torch.eye(32))
        linear.bias.zero_()
    model.unembed.weight.copy_(torch.nn.functional.one_hot(torch.arange(20), 32))
    tokens = torch.tensor([5, 7, 9])
    own, null = ov_alignment(
        PlainModel(model, VOCABULARY), Node("dec-cross", 1, 0), model.unembed.weight[tokens], tokens
    )
    assert own.tolist() == [1.0, 1.0, 1.0]
    assert null.shape == (3, 19)
    assert (null == 0).all()


# Representation


@given(st.integers(0, 500))
def test_r2_is_that_of_a_linear_regression_on_the_onehot_label(seed: int):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 4, 60)
    activations = rng.normal(size=(60, 5)) + rng.normal(size=(4, 5))[labels]
    onehot = np.eye(4)[labels]
    fitted = LinearRegression().fit(onehot, activations).predict(onehot)
    residual = ((activations - fitted) ** 2).sum() / ((activations - activations.mean(0)) ** 2).sum()
    assert r_squared(activations, labels) == pytest.approx(1 - residual)


def test_r2_of_a_function_of_the_label_is_one():
    rng = np.random.default_rng(0)
    labels, episodes = rng.integers(0, 3, 300), np.repeat(np.arange(100), 3)
    exact = explained(np.eye(3)[labels] @ rng.normal(size=(3, 8)), labels, episodes)
    assert exact.r2 == pytest.approx(1.0)


def test_the_null_is_the_95th_percentile_of_chance():
    """R² of normal noise in one dimension has a Beta distribution; one set in twenty lies above its null."""
    rng = np.random.default_rng(0)
    labels, episodes = np.arange(60) % 3, np.arange(60)
    found = explained(rng.normal(size=(60, 1)), labels, episodes, draws=4_000)
    assert found.null == pytest.approx(beta.ppf(0.95, (3 - 1) / 2, (60 - 3) / 2), rel=0.08)
    above = [one.r2 > one.null for one in (explained(rng.normal(size=(60, 1)), labels, episodes) for _ in range(100))]
    assert 1 <= sum(above) <= 12


def test_r2_weights_count_points_several_times():
    rng = np.random.default_rng(1)
    activations, labels = rng.normal(size=(20, 3)), rng.integers(0, 2, 20)
    times = rng.integers(0, 3, 20)
    again = np.repeat(np.arange(20), times)
    assert r_squared(activations, labels, times.astype(float)) == pytest.approx(
        r_squared(activations[again], labels[again])
    )


def test_principal_components_are_those_of_the_covariance():
    rng = np.random.default_rng(2)
    activations = rng.normal(size=(200, 6)) * np.array([5, 3, 1, 1, 1, 1])
    points, shares = principal_components(activations)
    values = np.linalg.eigvalsh(np.cov(activations.T))[::-1]
    np.testing.assert_allclose(shares, values[:2] / values.sum())
    np.testing.assert_allclose(points.var(0, ddof=1), values[:2])


@pytest.mark.parametrize("level", [0.0, 0.1, -7.3])
def test_constant_activations_carry_nothing(level: float):
    """0.1 has no exact sum: what is left of it is rounding, and must not be taken for structure."""
    labels, episodes = np.arange(90) % 2, np.arange(90) // 3
    activations = np.full((90, 4), level)
    found = explained(activations, labels, episodes)
    assert (found.r2, found.low, found.high, found.null) == (0, 0, 0, 0)
    points, shares = principal_components(activations)
    assert not points.any()
    assert not shares.any()


def test_two_points_have_one_component():
    points, shares = principal_components(np.array([[0.0, 0.0, 0.0], [3.0, 0.0, 4.0]]))
    np.testing.assert_allclose(np.abs(points), [[2.5, 0], [2.5, 0]], atol=1e-12)
    np.testing.assert_allclose(shares, [1, 0], atol=1e-12)


# Labels


def test_labels_by_hand():
    """The episode of the paper's captions, with an assignment that is not asked about in between."""
    episode = Episode.parse("B S A | A = red | C = green | A S B = blue red | B = blue")
    tokens = episode.prompt
    symbols = labelled_tokens(episode, "index-in-question", "symbols")
    assert [(tokens[place], place, label) for place, label in symbols] == [("A", 4, 3), ("B", 19, 1)]
    colours = labelled_tokens(episode, "index-in-question", "colours")
    assert [(tokens[place], place, label) for place, label in colours] == [("red", 6, 3), ("blue", 21, 1)]
    assert labelled_tokens(episode, "relative-index", "steps") == [(0, 3), (1, 1)]


# OV alignment over episodes


def test_an_alignment_counts_what_it_was_given():
    rng = np.random.default_rng(3)
    owners, own, other = rng.integers(0, 10, 80), rng.normal(2, 1, 80), rng.normal(0, 1, (80, 19))
    found = Alignment(10)
    found.add(owners[:30], own[:30], other[:30])
    found.add(owners[30:], own[30:], other[30:])
    weights = bootstrap_weights(10, 0, draws=50)
    rows = {(measure, against): tally.table(weights)[0].value for measure, against, tally in found.tallies()}
    above = np.mean([value > np.percentile(other, 97.5) for value in own])
    assert rows["ov-alignment", "own row"] == pytest.approx(own.mean())
    assert rows["ov-alignment", "other rows"] == pytest.approx(other.mean())
    assert rows["ov-above-null", "other rows"] == pytest.approx(above)
    bins = found.histogram("clean", "a head")
    assert bins.above_null == pytest.approx(above)
    assert sum(bins.own.counts) == 80
    assert sum(bins.others.counts) == 80 * 19
    assert len(bins.edges) == len(bins.own.counts) + 1
