"""One checkpoint on one list of episodes, ready for many small experiments.

The clean run is made once and kept; so are the ablation means. An experiment is a list of runs and a function that
turns what they read into a value for each episode.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from steer.anatomy.names import Node, Site
from steer.engine.ablation import Reference
from steer.engine.engine import Engine, Part, Values, hook_sizes
from steer.engine.values import Bench, site_value
from steer.measures.answers import exact_match
from steer.measures.attention import attention_accuracy
from steer.measures.attribution import logit_attribution
from steer.models.batch import collate
from steer.models.checkpoint import Checkpoint
from steer.plan.plan import Ablated, Put, Run, make_run, writer_path
from steer.recipe.schema import Ablation
from steer.results.evidence import Estimate, Kept
from steer.results.tally import Tally, bootstrap_weights
from steer.tasks.task import Example

DRAWS = 400
Floats = NDArray[np.float64]
Measure = Callable[[Part, Values], tuple[Tensor, Tensor]]  # values and what counts, both B P
LOGITS = Site(Node("logits"))


class Lab:
    def __init__(self, checkpoint: Checkpoint, episodes: Sequence[Example], seed: int = 0) -> None:
        self.engine = Engine(checkpoint)
        self.shape, self.model = self.engine.shape, self.engine.model
        self.task, self.scoring, self.pad = checkpoint.task, checkpoint.scoring, checkpoint.vocabulary.pad
        self.positions = checkpoint.task.longest_answer
        self.episodes, self.seed = list(episodes), seed
        self.parts = self.engine.parts(self.episodes)
        self.weights = bootstrap_weights(len(self.episodes), seed, DRAWS)
        writers = list(dict.fromkeys(writer_path(node) for node in self.shape.writers))
        with torch.no_grad():
            means = self.engine.means(writers, self.parts)
            self.reference = Reference(Ablation(), means, hook_sizes(self.model.config, writers), seed)
            self.benches = [self._bench(part) for part in self.parts]
        self.targets = self._tokens(self.episodes)
        self.rivals = self._tokens([episode.answering(self.task.rivals(episode)) for episode in self.episodes])

    def _tokens(self, episodes: Sequence[Example]) -> list[Tensor]:
        """What the decoder should say, part by part."""
        rows = ([episodes[row] for row in part.rows] for part in self.parts)
        return [torch.from_numpy(collate(some, self.engine.vocabulary).target).to(self.engine.device) for some in rows]

    def _bench(self, part: Part) -> Bench:
        clean = self.engine.clean(part, self.engine.order)
        like = self.model.unembed.weight

        def ablated(path: str) -> Tensor:
            return self.reference.value(path, clean, part.real(path), like, part.number)

        return Bench(self.model, self.shape, clean, cache(ablated), {}, part.state())

    @torch.no_grad()
    def clean(self, measure: Measure, positions: int | None = None) -> Tally:
        tally = Tally(len(self.episodes), positions or self.positions)
        for part, bench in zip(self.parts, self.benches, strict=True):
            tally.put_tensors(part.rows, *measure(part, dict(bench.clean)))
        return tally

    @torch.no_grad()
    def measure(self, runs: Iterable[Run], measure: Measure, positions: int | None = None) -> dict[str, Tally]:
        """Every condition of these runs, measured."""
        runs = list(runs)
        size = len(self.episodes), positions or self.positions
        tallies = {run.condition: Tally(*size) for run in runs if run.condition is not None}
        for part, bench in zip(self.parts, self.benches, strict=True):
            bench.recorded = {}
            for run in runs:
                found = self.engine.run(run, bench)
                if run.condition is not None:
                    tallies[run.condition].put_tensors(part.rows, *measure(part, found))
        return tallies

    # What is measured.

    def attention(self, head: Node) -> tuple[Measure, list[Site]]:
        """Is the most attended token the one that comes next?"""
        site = Site(head, "pattern")

        def measure(part: Part, values: Values) -> tuple[Tensor, Tensor]:
            target, pattern = self.targets[part.number], site_value(self.model, values, site)
            return attention_accuracy(pattern, part.prompt, target), self.scoring.counts(target)

        return measure, [site]

    def share(self, node: Node) -> tuple[Measure, list[Site]]:
        """What a node writes into the right token's logit, the final LayerNorm at its clean scale."""
        write_site = Site(node, "out" if node.is_head else None)

        def measure(part: Part, values: Values) -> tuple[Tensor, Tensor]:
            target = self.targets[part.number]
            return self._written(part, site_value(self.model, values, write_site), target), self.scoring.counts(target)

        return measure, [Site(node, "z" if node.is_head else None)]

    def choice(self, node: Node) -> tuple[Measure, list[Site]]:
        """What a node writes into the right token's logit over that of the token that was not chosen."""
        share, reads = self.share(node)
        if not any(map(self.task.chooses, self.episodes)):  # nothing is chosen here: over the mean alternative's
            return share, reads
        write_site = Site(node, "out" if node.is_head else None)

        def measure(part: Part, values: Values) -> tuple[Tensor, Tensor]:
            target, rival = self.targets[part.number], self.rivals[part.number]
            write = site_value(self.model, values, write_site)
            right, wrong = (self._written(part, write, token) for token in (target, rival))
            return right - wrong, self.scoring.counts(target) & (rival != target)

        return measure, reads

    def _written(self, part: Part, write: Tensor, token: Tensor) -> Tensor:
        """What a write adds to these tokens' logits, above the mean alternative's."""
        final = Site(Node("dec-resid", self.shape.decoder_layers - 1), "post").path
        stream = self.benches[part.number].clean[final]
        alternatives = self.scoring.alternatives([self.episodes[row] for row in part.rows])
        return logit_attribution(self.model, {"it": write}, stream, token, alternatives)["it"].double()

    def exact(self) -> tuple[Measure, list[Site]]:
        """Is the whole answer right?"""

        def measure(part: Part, values: Values) -> tuple[Tensor, Tensor]:
            return exact_match(values["logits"], self.targets[part.number], self.pad)

        return measure, [LOGITS]

    def said(self, tokens: Sequence[Tensor]) -> tuple[Measure, list[Site]]:
        """Is the likeliest token this one, at steps where one of two is chosen?"""

        def measure(part: Part, values: Values) -> tuple[Tensor, Tensor]:
            target, rival = self.targets[part.number], self.rivals[part.number]
            said = values["logits"].argmax(-1) == tokens[part.number]
            return said.double(), self.scoring.counts(target) & (rival != target)

        return measure, [LOGITS]

    def likelihood(self) -> tuple[Measure, list[Site]]:
        """The log-likelihood of the whole answer: smoother than whether it is right."""

        def measure(part: Part, values: Values) -> tuple[Tensor, Tensor]:
            found = answer_likelihood(values["logits"], self.targets[part.number], self.pad)[:, None]
            return found, torch.ones_like(found)

        return measure, [LOGITS]

    # Whole-model ablations.

    def ablating(self, name: str, nodes: Iterable[Node], reads: Sequence[Site] = (LOGITS,)) -> Run:
        puts = [Put(Site(node, "z" if node.is_head else None), Ablated()) for node in nodes]
        return make_run(self.shape, name, puts, reads, name)

    def accuracy_without(self, sets: dict[str, list[Node]]) -> dict[str, Tally]:
        """Exact match with each of these sets ablated in the whole forward pass."""
        measure, _ = self.exact()
        return self.measure([self.ablating(name, nodes) for name, nodes in sets.items()], measure, 1)

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


def answer_likelihood(logits: Tensor, target: Tensor, pad: int) -> Tensor:
    """The log-likelihood of each example's answer, the end included: B."""
    real = target != pad
    each = -F.cross_entropy(logits.flatten(0, 1).double(), target.flatten(), reduction="none")
    return (each.view_as(real) * real).sum(-1)
