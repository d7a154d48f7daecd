"""One model on one list of episodes, ready for many small experiments.

The clean run is made once and kept; so are the ablation means. An experiment is a list of runs and a function that
turns what they read into a value for each episode.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from steer.anatomy.nodes import Node, Site
from steer.engine.engine import Engine
from steer.engine.session import Inputs, Session
from steer.measures.answers import exact_match
from steer.measures.attention import attention_accuracy
from steer.measures.attribution import logit_attribution
from steer.measures.probability import answer_likelihood
from steer.models.protocol import Batch
from steer.models.subject import Subject
from steer.plan.plan import CLEAN, Edit, Mean, Plan, Run, clean_plan, make_plan
from steer.results.evidence import Estimate, Kept
from steer.results.tally import Tally, bootstrap_weights
from steer.tasks.task import ANSWER, Example

DRAWS = 400
Floats = NDArray[np.float64]
Values = Mapping[Site, Tensor]


@dataclass(frozen=True)
class Measure:
    """What turns values into numbers: a method of `Lab`, by its name, so that it can be sent to another process."""

    name: str
    given: tuple[Any, ...] = ()


Measured = tuple[Measure, list[Site]]  # a measure, and the sites that it reads
Key = TypeVar("Key", bound=Hashable)
Numbers = tuple[Tensor, Tensor]  # values and what counts, both B P


class Helpers(Protocol):
    """Who takes a part of a lab's runs."""

    def measure(self, lab: Lab, plan: Plan, measure: Measure, positions: int | None) -> dict[str, Tally]: ...


class Lab:
    def __init__(
        self, checkpoint: Subject, episodes: Sequence[Example], seed: int = 0, engine: Engine | None = None,
        counterparts: Sequence[Example] = (), helpers: Helpers | None = None,
    ) -> None:  # fmt: skip
        """Labs that share an engine share its budget, and the clean runs of the same episodes."""
        self.helpers = helpers
        self.checkpoint, self.engine = checkpoint, engine or Engine(checkpoint.model)
        self.names, self.layout, self.model = checkpoint.names, self.engine.layout, self.engine.model
        self.task, self.scoring, self.pad = checkpoint.task, checkpoint.scoring, checkpoint.model.pad
        self.positions = checkpoint.task.longest_answer
        self.episodes, self.seed = list(episodes), seed
        self.inputs = Inputs(self.episodes, counterparts)
        self.batches = self.engine.batches(self.episodes)
        self.weights = bootstrap_weights(len(self.episodes), seed, DRAWS)
        self.targets = self._tokens(self.episodes)
        self.rivals = self._tokens([episode.answering(self.task.rivals(episode)) for episode in self.episodes])
        with torch.no_grad():
            for batch in self.batches:  # one pass for the many experiments that follow
                self.engine.hooks(batch, self.engine.order, keep=True)

    def _tokens(self, episodes: Sequence[Example]) -> list[Tensor]:
        """What should be said, batch by batch."""
        return [self.model.encode(episodes, batch.rows).target for batch in self.batches]

    @property
    def logits(self) -> Site:
        return self.layout.logits

    def session(self, runs: Iterable[Run]) -> Session:
        return self._session(make_plan(Run(CLEAN), runs))

    def _session(self, plan: Plan) -> Session:
        return Session(self.engine, plan, self.inputs)

    def reading(self, sites: Iterable[Site]) -> Session:
        """The clean run, read at these sites."""
        return self._session(clean_plan(sites))

    def clean(self, measured: Measured, positions: int | None = None) -> Tally:
        """What is measured without an intervention."""
        measure, reads = measured
        return self.tallies(clean_plan(reads), measure, positions)[CLEAN]

    def measure(self, runs: Iterable[Run], measure: Measure, positions: int | None = None) -> dict[str, Tally]:
        """Every condition of these runs, measured."""
        plan = make_plan(Run(CLEAN), runs)
        if self.helpers is not None:
            return self.helpers.measure(self, plan, measure, positions)
        return self.tallies(plan, measure, positions)

    def tallies(self, plan: Plan, measure: Measure, positions: int | None) -> dict[str, Tally]:
        """The same in this process."""
        size = len(self.episodes), positions or self.positions
        tallies = {condition: Tally(*size) for condition in plan.conditions}
        for ran in self._session(plan):
            values, counted = getattr(self, measure.name)(ran.batch, ran.values, *measure.given)
            tallies[ran.run.condition or ""].put_tensors(ran.batch.rows, values, counted)
        return tallies

    # What is measured.

    def attention(self, head: Node) -> Measured:
        """Is the most attended token the one that comes next?"""
        site = Site(head, "pattern")
        return Measure("looks_right", (site,)), [site]

    def looks_right(self, batch: Batch, values: Values, site: Site) -> Numbers:
        target, keys = self.targets[batch.number], batch.tokens[self.layout.looks_at(site.node)]
        return attention_accuracy(batch.at(ANSWER, values[site]), keys, target), self.scoring.counts(target)

    def share(self, node: Node) -> Measured:
        """What a node writes into the right token's logit, the final LayerNorm at its clean scale."""
        return Measure("writes", (node,)), [self.layout.write(node)]

    def writes(self, batch: Batch, values: Values, node: Node) -> Numbers:
        target = self.targets[batch.number]
        return self._written(batch, node, values[self.layout.written(node)], target), self.scoring.counts(target)

    def choice(self, node: Node) -> Measured:
        """What a node writes into the right token's logit, minus what it writes into the rival token's."""
        if not any(map(self.task.chooses, self.episodes)):  # no choice here: compare with the mean alternative
            return self.share(node)
        return Measure("writes_rather", (node,)), [self.layout.write(node)]

    def writes_rather(self, batch: Batch, values: Values, node: Node) -> Numbers:
        target, rival = self.targets[batch.number], self.rivals[batch.number]
        write = values[self.layout.written(node)]
        right, wrong = (self._written(batch, node, write, token) for token in (target, rival))
        return right - wrong, self.scoring.counts(target) & (rival != target)

    def _written(self, batch: Batch, node: Node, write: Tensor, token: Tensor) -> Tensor:
        """What a write adds to these tokens' logits, above the mean alternative's."""
        clean, scales = self.engine.clean(batch, self.layout.scales), self.layout.scales
        at_steps = {site: batch.at(ANSWER, clean[site]) for site in scales}
        alternatives = self.scoring.alternatives([self.episodes[row] for row in batch.rows])
        writes = {node: batch.at(ANSWER, write)}
        return logit_attribution(self.model, writes, at_steps, token, alternatives)[str(node)].double()

    def exact(self) -> Measured:
        """Is the whole answer right?"""
        return Measure("is_right"), [self.logits]

    def is_right(self, batch: Batch, values: Values) -> Numbers:
        return exact_match(self._said(batch, values), self.targets[batch.number], self.pad)

    def said(self, rivals: bool = False) -> Measured:
        """Is the likeliest token the right one, or its rival, at steps where one of two is chosen?"""
        return Measure("says", (rivals,)), [self.logits]

    def says(self, batch: Batch, values: Values, rivals: bool) -> Numbers:
        target, rival = self.targets[batch.number], self.rivals[batch.number]
        said = self._said(batch, values).argmax(-1) == (rival if rivals else target)
        return said.double(), self.scoring.counts(target) & (rival != target)

    def likelihood(self) -> Measured:
        """The log-likelihood of the whole answer: smoother than whether it is right."""
        return Measure("is_likely"), [self.logits]

    def is_likely(self, batch: Batch, values: Values) -> Numbers:
        likely = answer_likelihood(self._said(batch, values), self.targets[batch.number], self.pad)[:, None]
        return likely, torch.ones_like(likely)

    def _said(self, batch: Batch, values: Values) -> Tensor:
        """The logits of each step of the answer."""
        return batch.at(ANSWER, values[self.logits])

    # Whole-model ablations.

    def ablating(self, name: str, nodes: Iterable[Node], reads: Sequence[Site] = ()) -> Run:
        edits = tuple(Edit(self.layout.write(node), Mean()) for node in nodes)
        return Run(name, edits, tuple(reads) or (self.logits,), name)

    def accuracy_without(self, sets: Mapping[Key, Sequence[Node]]) -> dict[Key, Tally]:
        """Exact match with each of these sets ablated in the whole forward pass."""
        runs = [self.ablating(str(number), nodes) for number, nodes in enumerate(sets.values())]
        tallies = self.measure(runs, self.exact()[0], 1)
        return {key: tallies[run.name] for key, run in zip(sets, runs, strict=True)}

    # From tallies to numbers.

    def kept(self, tally: Tally, clean: Tally) -> Kept:
        """A tally's mean as a share of the clean one's: of all questions, and of each kind of them."""
        kinds = [self.task.kind(episode) for episode in self.episodes]
        groups = {name: [name == kind for kind in kinds] for name in sorted({*kinds} - {""})}
        parts = {name: (tally.only(rows), clean.only(rows)) for name, rows in groups.items()}
        shares = {name: self.share_of(*pair) for name, pair in parts.items()}
        return Kept(**dict(self.share_of(tally, clean)), groups=shares)

    def share_of(self, tally: Tally, whole: Tally) -> Estimate:
        return self.interval(lambda mean: mean(tally) / np.maximum(mean(whole), 1e-9))

    @staticmethod
    def mean(tally: Tally) -> float:
        return float(tally.values.sum() / max(tally.counts.sum(), 1))

    def estimate(self, tally: Tally) -> Estimate:
        return self.interval(lambda mean: mean(tally))

    def interval(self, number: Callable[[Callable[[Tally], Any]], Any]) -> Estimate:
        """A number made from means of tallies, with its interval: all tallies share the same bootstrap samples."""

        def drawn_means(tally: Tally) -> Floats:
            return (self.weights @ tally.values.sum(1)) / np.maximum(self.weights @ tally.counts.sum(1), 1)

        drawn, value = number(drawn_means), number(self.mean)
        low, high = np.percentile(drawn, [2.5, 97.5])
        return Estimate(value=round(float(value), 4), low=round(float(low), 4), high=round(float(high), 4))
