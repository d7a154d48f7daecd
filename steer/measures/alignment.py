"""ov-alignment: what a head would copy from each token, own unembedding row against the null of all other rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from steer.anatomy.keyed import KeyedNames
from steer.anatomy.layout import Layout
from steer.anatomy.named import Heads
from steer.anatomy.nodes import Node, Site
from steer.base.errors import Key
from steer.measures.measure import Measure, Reads, Sums, crossing_heads, rows_of
from steer.measures.setting import Setting
from steer.results.details import Detail, Histogram, Sample
from steer.results.rows import Labels, Row, Unit
from steer.results.tally import Floats, Tally
from steer.tasks.task import Task

if TYPE_CHECKING:
    from torch import Tensor

    from steer.models.protocol import Batch, Model, Reading
    from steer.models.scoring import Scoring

BINS = 60
NULL_PERCENTILE = 97.5
ABOVE_NULL = "ov-above-null"  # a share of tokens; the other measure here is an inner product


class AlignmentMeasure(Measure):
    """What a head would copy from a {token} token, times the unembedding rows of that {token} and of the others."""

    figures: ClassVar[Mapping[str, str]] = {"histogram": "ov-alignment"}
    name: Literal["ov-alignment"]
    heads: Annotated[Heads, Field(description="heads that look from the answer at the prompt")]
    against: Literal["answer"] = "answer"

    def reads(self, names: KeyedNames, task: Task, key: Key) -> Reads:
        heads = crossing_heads(names, self.heads, (*key, "heads"), "copying from the prompt")
        for node in heads:  # what is copied is read off the end of a stream, so that stream must not be its own
            if names.layout.reads(Site(node, "v")) == names.layout.block(node).writes:
                text = f"{node}: ov-alignment is of heads that read another stream than they write into"
                names.fault((*key, "heads"), text, node)
        read = tuple(dict.fromkeys(looked_at(names.layout, head) for head in heads))
        return Reads(read, read, rows_of(self.name, heads))

    def sums(self, setting: Setting) -> Sums:
        return Alignments(setting, self)


class Alignments(Sums):
    gathers = ("taken",)

    def __init__(self, setting: Setting, measure: AlignmentMeasure) -> None:
        self.setting, self.heads = setting, setting.heads(measure.heads)
        self.taken: dict[tuple[str, Node, int], Alignment] = {}  # (condition, head, batch)

    def add(self, batch: Batch, condition: str, values: Reading) -> None:
        for head in self.heads:
            alignment = self.taken[condition, head, batch.number] = Alignment(len(self.setting.episodes))
            add_alignment(alignment, self.setting.model, self.setting.scoring, head, batch, values)

    def joined(self) -> dict[tuple[str, Node], Alignment]:
        """Over all batches."""
        joined: dict[tuple[str, Node], Alignment] = {}
        for (condition, head, _), one in self.taken.items():
            joined.setdefault((condition, head), Alignment(one.episodes)).join(one)
        return joined

    def rows(self, weights: Floats) -> list[Row]:
        rows = []
        for (condition, head), alignment in self.joined().items():
            for measure, against, tally in alignment.tallies():
                unit: Unit = "share" if measure == ABOVE_NULL else "product"
                tally.labels = Labels(condition, measure, str(head), against, unit=unit)
                rows += tally.table(weights)
        return rows

    def details(self) -> Sequence[Detail]:
        return [one.histogram(condition, str(head)) for (condition, head), one in self.joined().items()]


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


def looked_at(layout: Layout, head: Node) -> Site:
    """What a head's keys and values are made from."""
    stream = layout.reads(Site(head, "v"))
    return next(one.read_as for one in layout.streams if one.name == stream)


def ov_alignment(model: Model, head: Node, memory: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """Inner products of what a head would copy from each prompt token with unembedding rows.

    Gives N (with the token's own row) and N, V - 1 (with all other rows: the null), for N prompt tokens whose encoder
    output is `memory` (N D).
    """
    import torch

    products = model.copied(head, memory) @ model.readout.rows.T  # N V
    own = torch.zeros_like(products, dtype=torch.bool).scatter_(1, tokens[:, None], True)
    return products[own], products[~own].view(len(tokens), -1)


class Alignment:
    """Inner products of what a head would copy from each token with its own unembedding row and with the others."""

    def __init__(self, episodes: int) -> None:
        self.episodes = episodes
        self._parts: list[tuple[NDArray[np.int64], Floats, Floats]] = []

    def add(self, owners: NDArray[np.int64], own: Floats, other: Floats) -> None:
        """`owners`: the episode of each token (N); `own`: N; `other`: N, V - 1."""
        self._parts.append((owners, own, other))

    def join(self, other: Alignment) -> None:
        self._parts += other._parts

    @property
    def owners(self) -> NDArray[np.int64]:
        return np.concatenate([owners for owners, _, _ in self._parts])

    @property
    def own(self) -> Floats:
        return np.concatenate([own for _, own, _ in self._parts])

    @property
    def other(self) -> Floats:
        return np.concatenate([other for _, _, other in self._parts])

    def tallies(self) -> list[tuple[str, str, Tally]]:
        """(measure, compared with what, sums for each episode): own row, other rows, share above the null."""
        own, other = self.own, self.other
        above = (own > np.percentile(other, NULL_PERCENTILE)).astype(np.float64)
        return [
            ("ov-alignment", "own row", self._tally(own)),
            ("ov-alignment", "other rows", self._tally(other.mean(1))),
            (ABOVE_NULL, "other rows", self._tally(above)),
        ]

    def _tally(self, values: Floats) -> Tally:
        tally = Tally(self.episodes, 1)
        counts = np.bincount(self.owners, minlength=self.episodes)
        sums = np.bincount(self.owners, weights=values, minlength=self.episodes)
        rows = np.flatnonzero(counts)
        tally.put(rows.tolist(), (sums[rows] / counts[rows])[:, None], counts[rows, None].astype(np.float64))
        return tally

    def histogram(self, condition: str, head: str) -> Histogram:
        """Both distributions, counted in the same bins."""
        own, null = self.own, self.other.ravel()
        edges = np.histogram_bin_edges(np.concatenate([own, null]), BINS)
        others = _sample(null, edges)
        above, bins = float((own > others.high).mean()), tuple(round(float(edge), 5) for edge in edges)
        return Histogram(condition, head, len(own), above, bins, _sample(own, edges), others)


def _sample(values: Floats, edges: Floats) -> Sample:
    low, high = np.percentile(values, [2.5, 97.5])
    return Sample(float(values.mean()), float(low), float(high), tuple(np.histogram(values, edges)[0].tolist()))
