"""How much of the variance of activations a label explains, with its interval and with what chance gives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FEW = 10  # points of a label: with fewer, a label explains much by chance alone
ROUNDING = 1e-12  # of the sum of squares: variance below this is float32 rounding, and activations count as constant
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Explained:
    r2: float
    low: float
    high: float
    null: float  # the 95th percentile of R² with labels exchanged between episodes
    points: int
    groups: int
    smallest: int  # points of the rarest label
    fixed: bool = False  # every episode has the same labels at its places

    @property
    def warning(self) -> str:
        """Why the number says little, if it does."""
        if self.groups < 2:
            return "R² of a single label: there is nothing to tell apart"
        if self.smallest < FEW:
            return f"R² of few points: only {self.smallest} of the rarest label"
        if self.fixed:
            return "R² of labels that are the same in every episode: a token's place tells its label"
        return ""


def r_squared(activations: Floats, labels: Ints, weights: Floats | None = None, evenly: bool = False) -> float:
    """Variance between the label's group means over all variance; `weights` count a point several times.

    `evenly`: that of each feature, and the mean of these.
    """
    _, group = np.unique(labels, return_inverse=True)
    weights = np.ones(len(labels)) if weights is None else weights
    onehot = np.zeros((len(labels), group.max() + 1))
    onehot[np.arange(len(labels)), group] = weights
    sizes = onehot.sum(0)
    means = (onehot.T @ activations)[sizes > 0] / sizes[sizes > 0, None]
    centre = weights @ activations / weights.sum()
    total, between = weights @ (activations - centre) ** 2, sizes[sizes > 0] @ (means - centre) ** 2  # D
    least = ROUNDING * (weights @ activations**2)
    if not evenly:
        total, between, least = total.sum(keepdims=True), between.sum(keepdims=True), least.sum(keepdims=True)
    varies = total > least
    return float(np.where(varies, between / np.where(varies, total, 1.0), 0.0).mean())


def explained(
    activations: Floats, labels: Ints, episodes: Ints, seed: int = 0, draws: int = 200, evenly: bool = False
) -> Explained:
    """R² with its interval (bootstrapped over episodes) and its null (labels exchanged between episodes).

    An episode's points are given in the order of their places.
    """
    rng = np.random.default_rng(seed)
    _, owner = np.unique(episodes, return_inverse=True)
    count = owner.max() + 1
    drawn = []
    for _ in range(draws):
        weights = np.bincount(rng.integers(0, count, count), minlength=count)[owner].astype(np.float64)
        drawn.append(r_squared(activations, labels, weights, evenly))
    alike = of_one_layout(owner)
    shuffled = [r_squared(activations, exchanged(labels, alike, rng), None, evenly) for _ in range(draws)]
    low, high = np.percentile(drawn, [2.5, 97.5])
    null = float(np.percentile(shuffled, 95))
    value = r_squared(activations, labels, None, evenly)
    low, high = min(low, value), max(high, value)  # resampling adds noise, which lifts an R² near zero
    sizes = np.unique(labels, return_counts=True)[1]
    fixed = all((labels[points] == labels[points[0]]).all() for points in alike)
    return Explained(value, float(low), float(high), null, len(labels), len(sizes), int(sizes.min()), fixed)


def of_one_layout(owner: Ints) -> list[Ints]:
    """The points of episodes that have equally many: an array for each such number, with a row for each episode."""
    order, counts = np.argsort(owner, kind="stable"), np.bincount(owner)
    starts = np.cumsum(counts) - counts
    return [order[starts[counts == n, None] + np.arange(n)] for n in np.unique(counts).tolist()]


def exchanged(labels: Ints, alike: list[Ints], rng: np.random.Generator) -> Ints:
    """The labels, each episode's handed as a whole to another episode with as many labelled places.

    Why whole: what one episode's points have in common, its labels may have too (a step's relative index is often that
    of the step before; of two asked symbols one is always the first). Labels shuffled point by point lose that, and
    chance comes out too low or too high. Why among equals, in the order of the places: episodes are drawn independently
    of each other, so any of them might have had another's labels at the 1st, 2nd, … of as many places. That holds for
    every label here; names exchanged within an episode would not do, because a label need not be symmetric in its names
    (a question of one argument has the index 1 only, steps of bare primitives count 1, 2, 3).
    What the place alone tells about the label stays in the null, and does not count as carrying it.
    """
    given = labels.copy()
    for points in alike:
        given[points] = labels[rng.permutation(points)]
    return given


def principal_components(activations: Floats, count: int = 2) -> tuple[Floats, Floats]:
    """The points in their first principal components, and the share of variance of each.

    Where there are fewer components, or no variance at all, the missing ones are zero.
    """
    from sklearn.decomposition import PCA  # a second to import, needed by few recipes

    points, shares = np.zeros((len(activations), count)), np.zeros(count)
    centred = activations - activations.mean(0)
    if (centred**2).sum() > ROUNDING * (activations**2).sum():
        there = min(count, *activations.shape)
        fitted = PCA(n_components=there, svd_solver="full").fit(activations)
        points[:, :there], shares[:there] = fitted.transform(activations), fitted.explained_variance_ratio_
    return points, shares
