"""Intervals and nulls against closed forms and by coverage: what is called 95 % is 95 %.

Half of a 95 % interval is 1.96 standard errors wide. A standard error comes from a formula here, never from
resampling, so that the two ways share nothing. An interval of 90 % would be a sixth narrower, one of 50 % two thirds.
"""

from __future__ import annotations

import numpy as np
import pytest
from handmade import copier, episodes
from scipy import stats
from tokens import answers, checkpoint_of

from steer.anatomy.nodes import Node
from steer.discover.attribution_patching import Opinions
from steer.discover.lab import Lab
from steer.discover.writers import logit_shares
from steer.experiments.accuracy import accuracy
from steer.measures.alignment import Alignment
from steer.measures.attention import contribution
from steer.models.checkpoint import load_checkpoint
from steer.models.plain.config import ModelConfig
from steer.models.plain.layout import plain_layout
from steer.results.intervals import wilson
from steer.results.rows import Row
from steer.results.tally import Tally, bootstrap_weights
from steer.tasks.compositional.splits import make_splits

Z = stats.norm.ppf(0.975)
NARROW = 0.08  # how far a bootstrap of a thousand draws may be off, as a share of the width
RNG = np.random.default_rng


def filled(values: np.ndarray, counted: np.ndarray, hits: bool = False) -> Tally:
    tally = Tally(*values.shape, hits=hits)
    tally.put(list(range(len(values))), values, counted)
    return tally


def half(row: Row) -> float:
    return (row.high - row.low) / 2


def standard_error(values: np.ndarray, counted: np.ndarray) -> float:
    """Of a ratio of sums over episodes, by its linearisation: the episodes are independent, their tokens are not."""
    sums, counts = (values * counted).sum(1), counted.sum(1)
    return float(np.sqrt(((sums - sums.sum() / counts.sum() * counts) ** 2).sum()) / counts.sum())


# Wilson


@pytest.mark.parametrize(("hits", "total"), [(0, 7), (1, 9), (5, 10), (98, 100), (1_964, 2_000), (30, 30)])
def test_wilson_is_scipys_of_95_percent(hits: int, total: int):
    told = stats.binomtest(hits, total).proportion_ci(confidence_level=0.95, method="wilson")
    assert wilson(hits, total) == pytest.approx((told.low, told.high), abs=1e-12)


@pytest.mark.parametrize("total", [50, 400])
def test_wilson_covers_95_percent(total: int):
    """Exactly: the chance of each count of hits, summed over those whose interval holds the truth."""
    held = []
    for rate in np.linspace(0.05, 0.95, 91):
        chance = stats.binom.pmf(np.arange(total + 1), total, rate)
        inside = [low <= rate <= high for low, high in (wilson(hits, total) for hits in range(total + 1))]
        held.append(chance[inside].sum())
    assert np.mean(held) == pytest.approx(0.95, abs=0.005)


# Tallies


@pytest.mark.parametrize("hits", [False, True])
def test_a_tallys_interval_is_that_of_its_episodes(hits: bool):
    """Answers of one to five colours, and positions of one episode that go right or wrong together."""
    rng = RNG(0)
    lengths = rng.integers(1, 6, 400)
    counted = (np.arange(5) < lengths[:, None]).astype(float)
    ease = rng.random((400, 1)) ** 2
    values = (rng.random((400, 5)) < ease).astype(float) if hits else rng.normal(ease * 3, 0.4, (400, 5))
    rows = {row.position: row for row in filled(values, counted, hits).table(bootstrap_weights(400, 3))}
    assert half(rows[None]) == pytest.approx(Z * standard_error(values, counted), rel=NARROW)
    together = rows[None].value
    assert rows[None].low < together < rows[None].high
    apart = counted.reshape(-1, 1)  # as if every token were an episode of its own: far too sure
    assert half(rows[None]) > 1.3 * Z * standard_error(values.reshape(-1, 1), apart)
    for place in range(5):
        mine = [place]
        error = standard_error(values[:, mine], counted[:, mine])
        assert half(rows[place + 1]) == pytest.approx(Z * error, rel=NARROW)


def test_positions_that_agree_count_once():
    """Episodes all right or all wrong: as many tosses as episodes, not as tokens."""
    right = np.repeat((np.arange(100) < 70)[:, None], 4, axis=1).astype(float)
    rows = filled(right, np.ones((100, 4)), hits=True).table(bootstrap_weights(100, 0))
    low, high = wilson(70, 100)
    assert half(rows[0]) == pytest.approx((high - low) / 2, rel=NARROW)
    for row in rows[1:]:
        assert (row.low, row.high) == wilson(70, 100)


def test_a_position_that_few_episodes_have_is_known_less_well():
    counted = np.ones((200, 3))
    counted[30:, 2] = 0
    values = np.zeros((200, 3))
    values[:20] = 1
    rows = filled(values, counted, hits=True).table(bootstrap_weights(200, 0))
    assert (rows[3].low, rows[3].high) == wilson(20, 30)
    assert (rows[3].counted, rows[3].value) == (30, pytest.approx(20 / 30))


@pytest.mark.parametrize(("positions", "count"), [(1, 1), (4, 5)])  # a row for each position, and one for all
def test_what_never_fails_is_still_uncertain(positions: int, count: int):
    for value in (0.0, 1.0):
        rows = filled(np.full((50, positions), value), np.ones((50, positions)), hits=True).table(
            bootstrap_weights(50, 0)
        )
        assert [(row.low, row.high) for row in rows] == [wilson(int(50 * value), 50)] * count


def test_a_part_of_a_tally_is_that_of_its_episodes_alone():
    rng = RNG(7)
    values, counted = rng.random((60, 3)), rng.integers(0, 2, (60, 3)).astype(float)
    mine = np.arange(60) % 3 == 0
    part = filled(values, counted).only(mine.tolist())
    assert Lab.mean(part) == pytest.approx(values[mine][counted[mine] == 1].mean())
    (first, *_) = part.table(bootstrap_weights(60, 0, draws=50))
    assert first.counted == counted[mine].sum()


def test_values_that_are_no_hits_are_no_tosses():
    """Half of the attention at every step is no coin that falls both ways: there is nothing uncertain in it."""
    (row,) = filled(np.full((50, 1), 0.5), np.ones((50, 1))).table(bootstrap_weights(50, 0))
    assert (row.low, row.value, row.high) == (0.5, 0.5, 0.5)


def test_the_bootstrap_covers_95_percent_of_clustered_episodes():
    rng, weights, held = RNG(5), bootstrap_weights(80, 1, draws=300), 0
    for _ in range(600):
        values = rng.normal(0, 1, (80, 1)) + rng.normal(0, 0.5, (80, 3))  # the truth is 0
        row = filled(values, np.ones((80, 3))).table(weights)[0]
        held += row.low <= 0 <= row.high
    assert 0.92 <= held / 600 <= 0.97


def test_every_episode_is_drawn_as_often_as_any():
    weights = bootstrap_weights(50, 3, draws=4_000)
    assert (weights.sum(1) == 50).all()
    assert weights.mean(0) == pytest.approx(1, abs=0.06)
    assert weights.var() == pytest.approx(1 - 1 / 50, abs=0.02)
    assert (bootstrap_weights(50, 3, draws=10) != bootstrap_weights(50, 4, draws=10)).any()


# Discovery's estimates


@pytest.fixture(scope="module")
def lab() -> Lab:
    return Lab(copier(), episodes(150, (1, 1)))


def test_discoverys_interval_is_of_95_percent(lab: Lab):
    rng = RNG(2)
    counted = (np.arange(5) < rng.integers(1, 6, (150, 1))).astype(float)
    values = rng.normal(rng.random((150, 1)) + counted.sum(1, keepdims=True), 0.3, (150, 5))  # longer answers: more
    found = lab.estimate(filled(values, counted))
    assert found.value == pytest.approx((values * counted).sum() / counted.sum(), abs=1e-4)
    assert (found.high - found.low) / 2 == pytest.approx(Z * standard_error(values, counted), rel=0.12)  # 400 draws
    assert (found.low + found.high) / 2 == pytest.approx(found.value, abs=(found.high - found.low) / 8)


def test_an_effect_is_drawn_with_the_episodes_it_is_held_against(lab: Lab):
    """A difference that is the same in every episode is certain, however different the episodes are."""
    rng = RNG(4)
    more, every = rng.random((150, 1)), np.ones((150, 1))
    one, other = filled(more, every), filled(more - 0.25, every)
    found = lab.interval(lambda mean: mean(one) - mean(other))
    assert (found.low, found.value, found.high) == pytest.approx((0.25, 0.25, 0.25), abs=1e-4)
    share = lab.interval(lambda mean: mean(one) / mean(filled(2 * more, every)))
    assert (share.low, share.value, share.high) == pytest.approx((0.5, 0.5, 0.5), abs=1e-4)


def test_discoverys_estimates_are_the_tallys(lab: Lab):
    tally = filled(RNG(6).random((150, 1)), np.ones((150, 1)))
    (row,) = tally.table(bootstrap_weights(150, lab.seed, len(lab.weights)))
    found = lab.estimate(tally)
    assert (found.value, found.low, found.high) == pytest.approx((row.value, row.low, row.high), abs=1e-4)


# OV alignment


def test_an_alignment_is_told_by_the_middle_95_percent():
    own, other = np.linspace(0, 1, 1_001), np.linspace(-1, 0.6, 4_001)[: 4 * 1_000].reshape(1_000, 4)
    found = Alignment(1_001)
    found.add(np.arange(1_000), own[:-1], other)
    told = found.histogram("clean", "a head")
    assert (told.own.low, told.own.high) == pytest.approx((0.025, 0.975), abs=2e-3)
    assert (told.others.low, told.others.high) == pytest.approx((-0.96, 0.56), abs=2e-3)
    assert told.above_null == pytest.approx(0.44, abs=3e-3)  # of own, from 0.56 on
    _, (_, _, others), (_, _, above) = found.tallies()
    weights = bootstrap_weights(1_001, 0, draws=50)
    assert above.table(weights)[0].value == pytest.approx(0.44, abs=3e-3)
    assert others.table(weights)[0].value == pytest.approx(other.mean())


# Exact match by groups


def test_a_ratio_that_is_the_same_in_every_example_is_certain():
    """However much the clean mass varies: both are drawn together, and the ratio is of what was drawn."""
    clean, half = Tally(40, 2), Tally(40, 2)
    clean.put(list(range(40)), np.random.default_rng(2).random((40, 2)) + 0.1, np.ones((40, 2)))
    half.put(list(range(40)), 0.5 * clean.values, np.ones((40, 2)))
    (row,) = contribution(half, clean, bootstrap_weights(40, 0))
    assert (row.low, row.value, row.high) == pytest.approx((0.5, 0.5, 0.5), abs=1e-12)


def test_an_evaluation_counts_each_group_by_hand():
    model, shown = load_checkpoint("tiny").transformer, make_splits(0).validation[:80]
    told = accuracy(checkpoint_of(model), shown)
    right = [given == episode.answer for given, episode in zip(answers(model, shown), shown, strict=True)]
    assert 0 < sum(right) < 80
    groups = {"all": right}
    for hit, episode in zip(right, shown, strict=True):
        arity = ["bare primitives", "one argument", "two arguments"][len(episode.question.arguments)]
        length = f"{len(episode.answer)} token" + "s" * (len(episode.answer) > 1)
        for name in (arity, length):
            groups.setdefault(name, []).append(hit)
    assert {score.group: (score.episodes, score.exact_match) for score in told.groups} == {
        name: (len(hits), np.mean(hits)) for name, hits in groups.items()
    }
    for score in told.groups:
        hits, total = round(score.exact_match * score.episodes), score.episodes
        ci = stats.binomtest(hits, total).proportion_ci(method="wilson")
        assert score.interval == pytest.approx((ci.low, ci.high))
    assert told.exact_match == np.mean(right)


def test_gradients_agree_by_size_whatever_their_signs():
    exact, scores = [3.0, -2.0, 1.0, -0.5], [-30.0, 20.0, -10.0, 5.0]  # the same ranks by size, the signs turned
    found = Opinions([], exact, scores, [5.0, 10.0, -20.0, 30.0]).agreement()
    assert (found.eap, found.eap_ig) == (1.0, -1.0)


def test_a_share_that_never_varies_has_an_interval_without_width(monkeypatch: pytest.MonkeyPatch):
    """One component writes 30 % of the choice in every episode: the share is the same whichever are drawn."""
    lab, rng = Lab.__new__(Lab), np.random.default_rng(0)
    lab.layout = plain_layout(ModelConfig(encoder_layers=1, decoder_layers=1, heads=1))
    lab.episodes, lab.weights = [None] * 50, bootstrap_weights(50, 0, 400)
    writers = [node for node in lab.layout.nodes if node.kind.startswith("dec")]
    whole, parts = rng.uniform(1, 9, (50, 1)), dict(zip(writers, (0.3, 0.5, 0.1, 0.1, 0.0), strict=False))

    def tally(node: Node) -> Tally:
        found = Tally(50, 1)
        found.put(list(range(50)), parts[node] * whole, np.ones((50, 1)))
        return found

    monkeypatch.setattr(Lab, "choice", lambda self, node: node)
    monkeypatch.setattr(Lab, "clean", lambda self, node: tally(node))
    share = logit_shares(lab)[writers[0]]
    assert (share.low, share.value, share.high) == (0.3, 0.3, 0.3)
