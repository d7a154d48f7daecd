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
from steer.measures.explained import Floats, explained, principal_components
from steer.measures.measure import Measure, Reads, Sums
from steer.measures.right import PAPER, Definition, RightSteps, by_definition
from steer.measures.setting import Setting
from steer.results.details import Detail, Scatter
from steer.results.rows import Row
from steer.tasks.task import ANSWER, Task

if TYPE_CHECKING:
    from steer.models.protocol import Batch, Reading

FROM = 2  # by the authors' definition: steps of the answer before the third are not looked at, or alone
SHOWN = 600  # points of a scatter plot, at most


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
