"""R², its null and its interval: by coverage, and by labels whose right answer is known."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from steer.measures.explained import exchanged, explained, of_one_layout, r_squared
from steer.tasks.compositional.labels import labelled_tokens
from steer.tasks.compositional.splits import make_splits

Z = stats.norm.ppf(0.975)
RNG = np.random.default_rng


def test_the_null_of_r2_is_the_95th_percentile_of_noise():
    """Of one feature of normal noise R² is Beta((groups - 1) / 2, (points - groups) / 2)."""
    told = stats.beta.ppf(0.95, 3 / 2, (240 - 4) / 2)
    nulls = []
    for seed in range(4):
        rng = RNG(seed)
        labels = rng.integers(0, 4, 240)
        nulls.append(explained(rng.normal(size=(240, 1)), labels, np.arange(240), seed, draws=600).null)
    assert np.mean(nulls) == pytest.approx(told, rel=0.06)  # the 90th would be a fifth lower


def test_of_many_noise_sets_about_5_percent_lie_above_their_null():
    above = 0
    for seed in range(200):
        rng = RNG(seed)
        found = explained(rng.normal(size=(40, 3)), rng.integers(0, 3, 40), np.arange(40), seed, draws=60)
        above += found.r2 > found.null
    assert 0.02 <= above / 200 <= 0.09


Layout = list[list[int]]  # the labels of each episode's places


def repeated(rng: np.random.Generator) -> Layout:
    """One label an episode, at 2 to 5 places of it."""
    return [[int(rng.integers(1, 4))] * int(rng.integers(2, 6)) for _ in range(60)]


def of_task(label: str, tokens: str) -> Callable[[np.random.Generator], Layout]:
    """The labels of real episodes, of one and of two arguments."""

    def labels(rng: np.random.Generator) -> Layout:
        chosen = rng.choice(1_000, 60, replace=False)
        return [[one for _, one in labelled_tokens(TASK[n], label, tokens)] for n in chosen]

    return labels


TASK = make_splits(0).test[:1_000]


def noise(rng: np.random.Generator, drawn: Layout, kind: str) -> np.ndarray:
    """Activations that know nothing of the labels, and much of their episode or of their place in it."""
    owner = np.repeat(np.arange(len(drawn)), [len(one) for one in drawn])
    place = np.concatenate([np.arange(len(one)) for one in drawn])
    sign = {"alike": 1, "opposite": np.where(place % 2, 1, -1)[:, None], "by place": 0}[kind]
    by_place = 2.0 * (kind == "by place") * rng.normal(size=(9, 3))[place]
    return 0.3 * rng.normal(size=(len(owner), 3)) + sign * rng.normal(size=(len(drawn), 3))[owner] + by_place


def share_above(labels: Callable[[np.random.Generator], Layout], kind: str, token_by_token: bool = False) -> float:
    """Of 150 sets of noise: how many lie above their null?"""
    above = 0
    for seed in range(150):
        rng = RNG(seed)
        drawn = labels(rng)
        points, flat = noise(rng, drawn, kind), np.concatenate(drawn).astype(int)
        owner = np.repeat(np.arange(len(drawn)), [len(one) for one in drawn])
        found = explained(points, flat, np.arange(len(flat)) if token_by_token else owner, seed, draws=40)
        above += found.r2 > found.null
    return above / 150


INDEX, RELATIVE = of_task("index-in-question", "symbols"), of_task("relative-index", "steps")
SHARED = {"repeated": (repeated, "alike"), "index": (INDEX, "opposite"), "relative": (RELATIVE, "alike")}


@pytest.mark.parametrize(
    ("labels", "kind"), [*SHARED.values(), (INDEX, "alike"), (RELATIVE, "by place")],
    ids=[*SHARED, "index-alike", "relative-place"],
)  # fmt: skip
def test_noise_that_an_episode_shares_lies_above_the_null_as_rarely(labels, kind: str):
    assert 0.01 <= share_above(labels, kind) <= 0.12


@pytest.mark.parametrize(("labels", "kind"), SHARED.values(), ids=SHARED)
def test_labels_shuffled_token_by_token_would_call_noise_structure(labels, kind: str):
    """Why the null exchanges whole episodes: taken one by one, tokens give a null that far more than 5 % exceed."""
    assert share_above(labels, kind, token_by_token=True) > 0.15


def test_the_null_hands_whole_label_vectors_to_episodes_with_as_many_places():
    owner = np.array([4, 0, 4, 1, 0, 2, 2, 3, 1, 3, 3])  # in any order; an episode's own points in that of its places
    labels = np.array([10, 20, 11, 30, 21, 40, 41, 50, 31, 51, 52])
    alike = of_one_layout(owner)
    assert [points.shape for points in alike] == [(4, 2), (1, 3)]
    rng, seen = RNG(0), set()
    for _ in range(300):
        given = exchanged(labels, alike, rng)
        vectors = [tuple(given[owner == one].tolist()) for one in range(5)]
        assert sorted(vectors) == [(10, 11), (20, 21), (30, 31), (40, 41), (50, 51, 52)]
        assert vectors[3] == (50, 51, 52)  # no other episode has three places
        seen.add(tuple(vectors))
    assert len(seen) == 24  # every order of the four


def test_a_label_that_the_place_tells_is_not_above_chance_and_says_so():
    rng, places = RNG(0), np.tile([1, 2, 3], 30)
    found = explained(np.eye(4)[places] + rng.normal(size=(90, 4)), places, np.repeat(np.arange(30), 3))
    assert found.r2 == found.null > 0.1
    assert "place tells its label" in found.warning
    shuffled = rng.permuted(places.reshape(30, 3), axis=1).ravel()
    found = explained(np.eye(4)[shuffled] + rng.normal(size=(90, 4)), shuffled, np.repeat(np.arange(30), 3))
    assert found.low > found.null
    assert found.warning == ""


def clustered(seed: int, count: int = 300) -> tuple[np.ndarray, np.ndarray]:
    rng = RNG(seed)
    labels = rng.integers(0, 3, count)
    return rng.normal(size=(count, 4)) + 1.2 * np.eye(3, 4)[labels], labels


def test_the_interval_of_r2_is_of_95_percent():
    """Against the delete-one jackknife, which draws nothing."""
    points, labels = clustered(0)
    kept = [r_squared(np.delete(points, n, 0), np.delete(labels, n)) for n in range(300)]
    error = np.sqrt(299 / 300 * ((np.array(kept) - np.mean(kept)) ** 2).sum())
    found = explained(points, labels, np.arange(300), draws=1_000)
    assert (found.high - found.low) / 2 == pytest.approx(Z * error, rel=0.1)
    assert found.low < found.r2 < found.high


def test_tokens_of_one_episode_do_not_make_r2_surer():
    points, labels = clustered(1)
    once = explained(points, labels, np.arange(300))
    again = explained(np.repeat(points, 4, 0), np.repeat(labels, 4), np.repeat(np.arange(300), 4))
    assert (again.r2, again.low, again.high) == pytest.approx((once.r2, once.low, once.high))
    assert (once.points, again.points, once.groups) == (300, 1_200, 3)


def test_an_r_squared_lies_in_its_own_interval():
    """Resampling episodes adds noise, which lifts an R² near zero: the interval must still hold the number."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        found = explained(rng.normal(size=(200, 8)), rng.integers(0, 3, 200), np.arange(200), seed)
        assert found.low <= found.r2 <= found.high
