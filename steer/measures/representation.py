"""r-squared: does a set of activations carry a label? Principal components for the eye, R² for the number.

R² is the paper's: the share of the activations' variance that a linear regression on the one-hot label explains,
which is the share between the label's group means. A permutation null says what chance gives with as many groups and
points. The points of one episode are not independent, so both work on whole episodes: the interval is bootstrapped over
them, the null hands the labels of one to another.

By the definition of the authors' code each feature has an R² of its own, and their plain mean is taken, on questions
that the clean run answers right: of prompt tokens, those whose first two answer tokens are right and differ; of the
answer's steps, those from the third on, where all of these are right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from steer.anatomy.keyed import KeyedNames
from steer.anatomy.layout import Layout
from steer.anatomy.named import OneSite
from steer.anatomy.nodes import BETWEEN_TOKENS, Site
from steer.base.errors import Key, KeyedError
from steer.base.fields import Fields, one_of
from steer.measures.measure import Measure, Reads, Sums
from steer.measures.right import PAPER, Definition, RightSteps, by_definition
from steer.measures.setting import Setting
from steer.results.details import Detail, Scatter
from steer.results.rows import Row
from steer.tasks.task import ANSWER, Task

if TYPE_CHECKING:
    from steer.models.protocol import Batch, Reading

FEW = 10  # points of a label: with fewer, a label explains much by chance alone
ROUNDING = 1e-12  # of the sum of squares: variance below this is float32 rounding, and activations count as constant
FROM = 2  # by the authors' definition: steps of the answer before the third are not looked at, or alone
SHOWN = 600  # points of a scatter plot, at most
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class RSquaredMeasure(Measure):
    """How much of an activation's variance a label explains, with its first two principal components."""

    figures: ClassVar[Mapping[str, str]] = {"scatter": "r-squared"}
    name: Literal["r-squared"]
    site: Annotated[OneSite, Field(description="whose activations: a head's port, a stream, an MLP")]
    label: str
    tokens: str  # which tokens carry the label
    against: Literal["answer"] = "answer"
    definition: Definition = PAPER

    @classmethod
    def task_fields(cls, task: Task) -> Fields:
        tokens = dict.fromkeys(word for words in task.labels.values() for word in words)
        described: Any = Annotated[one_of(tokens), Field(description=task.labels_text)]
        return {"label": (one_of(task.labels), ...), "tokens": (described, ...)}

    def reads(self, names: KeyedNames, task: Task, key: Key) -> Reads:
        if self.tokens not in task.labels[self.label]:
            text = "; ".join(f"{label} is of {' or '.join(tokens)}" for label, tokens in task.labels.items())
            names.fault((*key, "tokens"), text)
        site = names.site((*key, "site"), self.site)
        if site is None:
            return Reads((), (), ())
        if site.port in BETWEEN_TOKENS:
            names.fault((*key, "site"), f"{site} is between tokens; R² is of activations, one vector a token")
        elif names.layout.sequence(site) != names.layout.holds(self._sequence(task)):
            where = "prompt" if of_prompt(names.layout, site) else "answer"
            names.fault((*key, "tokens"), f"{site} has its values at the {where}'s tokens, not at {self.tokens}")
        rows = ((self.row_name, str(site), self.tokens),)
        return Reads((site,) if self.definition == PAPER else (site, names.layout.logits), (site,), rows)

    @property
    def row_name(self) -> str:
        return by_definition(self.name, self.definition)

    def _sequence(self, task: Task) -> str:
        """The sequence of the tokens that carry the label."""
        return next(words[self.tokens] for words in task.labels.values() if self.tokens in words)

    def sums(self, setting: Setting) -> Sums:
        return Represented(setting, self)


def of_prompt(layout: Layout, site: Site) -> bool:
    """Does a site hold one value for each prompt token? (Keys and values of a head that looks there do.)"""
    return layout.sequence(site) == layout.prompt


class Represented(Sums):
    """Activations at labelled tokens."""

    gathers = ("taken",)

    def __init__(self, setting: Setting, measure: RSquaredMeasure) -> None:
        self.setting, self.measure = setting, measure
        self.site = setting.names.site(measure.site)
        labelled = [setting.task.labelled(e, measure.label, measure.tokens) for e in setting.episodes]
        self.sequence = setting.task.labels[measure.label][measure.tokens]
        self.right = None if measure.definition == PAPER else RightSteps(setting)
        first = FROM if self.right is not None and self.sequence == ANSWER else 0
        self.places = [[(place, label) for (_, place), label in points if place >= first] for points in labelled]
        if not any(self.places):
            text = f"r-squared of {self.site}: these episodes have no {measure.tokens} to label"
            raise KeyedError([(("tokens",), text)])
        # (condition, batch) -> activations; label and episode of each
        self.taken: dict[tuple[str, int], tuple[Floats, list[tuple[int, int]]]] = {}

    def add(self, batch: Batch, condition: str, values: Reading) -> None:
        counted = self._counted(batch, values)
        points = [
            (n, row, place, label)
            for n, row in enumerate(batch.rows)
            if counted[n]
            for place, label in self.places[row]
        ]
        if not points:
            return
        whole = values[self.site]  # B T D
        rows, places = [n for n, _, _, _ in points], [place for _, _, place, _ in points]
        taken = whole[rows, batch.columns(self.sequence, rows, places)]
        keys = [(label, row) for _, row, _, label in points]
        self.taken[condition, batch.number] = taken.double().cpu().numpy(), keys

    @property
    def conditions(self) -> list[str]:
        return list(dict.fromkeys(condition for condition, _ in self.taken))

    def _counted(self, batch: Batch, values: Reading) -> list[bool]:
        """The examples that count: all of them, or those that the authors' code looks at."""
        if self.right is None:
            return [True] * len(batch.rows)
        right, target = self.right.of(batch, values), self.setting.target(batch, "answer")
        if self.sequence == ANSWER:
            steps = self.setting.scoring.counts(target)
            return [bool(row) for row in (right | ~steps)[:, FROM:].all(-1)]
        differ = target[:, 0] != target[:, min(1, target.shape[1] - 1)]
        return [bool(row) for row in right[:, :FROM].all(-1) & differ]

    def points(self, condition: str) -> tuple[Floats, NDArray[np.int64], NDArray[np.int64]]:
        """Activations, labels and episodes, in the order of the episodes (batches come by length)."""
        parts = [part for (one, _), part in self.taken.items() if one == condition]
        values = np.concatenate([activations for activations, _ in parts])
        keys = np.array([key for _, its in parts for key in its])
        order = np.argsort(keys[:, 1], kind="stable")
        return values[order], keys[order, 0], keys[order, 1]

    def rows(self, weights: Floats) -> list[Row]:
        rows = []
        for condition in self.conditions:
            share = explained(*self.points(condition), self.setting.seed, evenly=self.right is not None)
            row = Row(
                condition, self.measure.row_name, share.r2, share.low, share.high, share.points,
                len(self.setting.episodes), str(self.site), self.measure.label, unit="r2", chance=share.null,
                tokens=self.measure.tokens, warning=share.warning,
            )  # fmt: skip
            rows.append(row)
        return rows

    def details(self) -> Sequence[Detail]:
        return [self._scatter(condition) for condition in self.conditions]

    def _scatter(self, condition: str) -> Scatter:
        values, labels, _ = self.points(condition)
        plane, shares = principal_components(values)
        rng = np.random.default_rng(self.setting.seed)
        shown = np.sort(rng.permutation(len(labels))[:SHOWN])
        centres = {ordinal(label): _pair(plane[labels == label].mean(0)) for label in np.unique(labels).tolist()}
        return Scatter(
            condition, str(self.site), self.measure.label, self.measure.tokens, _pair(shares), centres,
            x=_short(plane[shown, 0]), y=_short(plane[shown, 1]),
            labels=tuple(ordinal(label) for label in labels[shown].tolist()),
        )  # fmt: skip


def ordinal(number: int) -> str:
    return {1: "1st", 2: "2nd", 3: "3rd"}.get(number, f"{number}th")


def _short(numbers: Floats) -> tuple[float, ...]:
    """Four digits: what a picture shows, in a file that stays small."""
    return tuple(float(f"{number:.4g}") for number in numbers.tolist())


def _pair(numbers: Floats) -> tuple[float, float]:
    first, second = _short(numbers)
    return first, second


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
