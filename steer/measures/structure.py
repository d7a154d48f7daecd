"""Measures of structure: attention patterns on one episode, OV alignment, and labels in activations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from steer.anatomy.layout import Layout
from steer.anatomy.nodes import Node, Site
from steer.base.errors import KeyedError
from steer.measures.alignment import ABOVE_NULL, Alignment
from steer.measures.attribution import ov_alignment
from steer.measures.measured import looked_at
from steer.measures.representation import Floats, explained, principal_components
from steer.measures.setting import Setting
from steer.models.protocol import Batch, Model, Reading
from steer.models.scoring import Scoring
from steer.models.vocabulary import Vocabulary
from steer.recipe.schema import AlignmentMeasure, PatternMeasure, RSquaredMeasure
from steer.results.details import Detail, Pattern, Scatter
from steer.results.rows import Labels, Row, Unit
from steer.tasks.task import Example

SHOWN = 600  # points of a scatter plot, at most


class Patterns:
    def __init__(self, setting: Setting, measure: PatternMeasure) -> None:
        count = len(setting.episodes)
        if measure.episode >= count:
            text = f"attention-pattern asks for episode {measure.episode} of {count}, from 0"
            raise KeyedError([(("episode",), text)])
        self.setting, self.heads, self.number = setting, setting.heads(measure.heads), measure.episode
        self.patterns: list[Pattern] = []

    def add(self, batch: Batch, condition: str, values: Reading) -> None:
        if self.number not in batch.rows:
            return
        row, episode = batch.rows.index(self.number), self.setting.episodes[self.number]
        for head in self.heads:
            queries, keys = axis_tokens(
                self.setting.model.layout, head, episode, episode.answer, self.setting.vocabulary
            )
            weights = values[Site(head, "pattern")][row, : len(queries), : len(keys)]
            rounded = tuple(tuple(round(w, 4) for w in line) for line in weights.tolist())
            roles = tuple(self.setting.names.plays(head))
            self.patterns.append(
                Pattern(str(head), str(episode), episode.answer, queries, keys, rounded, condition, roles=roles)
            )

    def rows(self, weights: Floats) -> list[Row]:
        return []

    def details(self) -> Sequence[Detail]:
        return self.patterns


class Alignments:
    def __init__(self, setting: Setting, measure: AlignmentMeasure) -> None:
        self.setting, self.heads = setting, setting.heads(measure.heads)
        self.alignments: dict[tuple[str, Node], Alignment] = {}

    def add(self, batch: Batch, condition: str, values: Reading) -> None:
        for head in self.heads:
            alignment = self.alignments.setdefault((condition, head), Alignment(len(self.setting.episodes)))
            add_alignment(alignment, self.setting.model, self.setting.scoring, head, batch, values)

    def rows(self, weights: Floats) -> list[Row]:
        rows = []
        for (condition, head), alignment in self.alignments.items():
            for measure, against, tally in alignment.tallies():
                unit: Unit = "share" if measure == ABOVE_NULL else "product"
                tally.labels = Labels(condition, measure, str(head), against, unit=unit)
                rows += tally.table(weights)
        return rows

    def details(self) -> Sequence[Detail]:
        return [one.histogram(condition, str(head)) for (condition, head), one in self.alignments.items()]


def add_alignment(
    alignment: Alignment, model: Model, scoring: Scoring, head: Node, batch: Batch, values: Reading
) -> None:
    """What a head would copy from the tokens of a batch that count, against the unembedding."""
    prompt = batch.tokens[model.layout.looks_at(head)]  # B S
    counted = scoring.counts(prompt)
    memory, tokens = values[looked_at(model.layout, head)][counted], prompt[counted]
    own, other = ov_alignment(model, head, memory, tokens)
    owners = np.asarray(batch.rows)[counted.nonzero()[:, 0].cpu().numpy()]
    alignment.add(owners, own.double().cpu().numpy(), other.double().cpu().numpy())


class Represented:
    """Activations at labelled tokens."""

    def __init__(self, setting: Setting, measure: RSquaredMeasure) -> None:
        self.setting, self.measure = setting, measure
        self.site = setting.names.site(measure.site)
        labelled = [setting.task.labelled(e, measure.label, measure.tokens) for e in setting.episodes]
        self.places = [[(place, label) for (_, place), label in points] for points in labelled]
        if not any(self.places):
            text = f"r-squared of {self.site}: these episodes have no {measure.tokens} to label"
            raise KeyedError([(("tokens",), text)])
        self.values: dict[str, list[Floats]] = {}
        self.keys: dict[str, list[tuple[int, int]]] = {}  # (label, episode) of each point

    def add(self, batch: Batch, condition: str, values: Reading) -> None:
        points = [(n, row, place, label) for n, row in enumerate(batch.rows) for place, label in self.places[row]]
        if not points:
            return
        whole = values[self.site]  # B T D
        taken = whole[[n for n, _, _, _ in points], [place for _, _, place, _ in points]]
        self.values.setdefault(condition, []).append(taken.double().cpu().numpy())
        self.keys.setdefault(condition, []).extend((label, row) for _, row, _, label in points)

    def points(self, condition: str) -> tuple[Floats, NDArray[np.int64], NDArray[np.int64]]:
        """Activations, labels and episodes, in the order of the episodes (batches come by length)."""
        values, keys = np.concatenate(self.values[condition]), np.array(self.keys[condition])
        order = np.argsort(keys[:, 1], kind="stable")
        return values[order], keys[order, 0], keys[order, 1]

    def rows(self, weights: Floats) -> list[Row]:
        rows = []
        for condition in self.values:
            share = explained(*self.points(condition), seed=self.setting.recipe.seed)
            row = Row(
                condition, self.measure.name, share.r2, share.low, share.high, share.points,
                len(self.setting.episodes), str(self.site), self.measure.label, unit="r2", chance=share.null,
                tokens=self.measure.tokens, warning=share.warning,
            )  # fmt: skip
            rows.append(row)
        return rows

    def details(self) -> Sequence[Detail]:
        return [self._scatter(condition) for condition in self.values]

    def _scatter(self, condition: str) -> Scatter:
        values, labels, _ = self.points(condition)
        plane, shares = principal_components(values)
        rng = np.random.default_rng(self.setting.recipe.seed)
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


def axis_tokens(
    layout: Layout, head: Node, episode: Example, written: tuple[str, ...], vocabulary: Vocabulary
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The tokens that a head attends from, and those that it attends to."""
    tokens = {layout.prompt: episode.prompt, layout.answer: (vocabulary.tokens[vocabulary.start], *written)}
    return tokens[layout.sequence(Site(head, "q"))], tokens[layout.looks_at(head)]
