"""Second opinions: edges scored by gradients, beside the exact effects they approximate.

Edge attribution patching (Syed et al., 2023): the change that ablating a direct path makes at a port, times the
gradient there of the answer's log-likelihood. LayerNorm and projection are exact here, only what comes after the port
is linear. With integrated gradients (Hanna et al., 2024) the gradient is averaged along the way from mean embeddings to
the real ones. Both estimate how much likelihood the answer loses; the exact effect is measured by running the ablation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.stats import spearmanr
from torch import Tensor

from steer.anatomy.nodes import Node, Site
from steer.discover.lab import Lab
from steer.engine.session import Session
from steer.measures.probability import answer_likelihood
from steer.models.protocol import Batch
from steer.plan.plan import CLEAN, Edit, Mean, Of, Rebuilt, Run
from steer.results.evidence import GradientAgreement
from steer.tasks.task import ANSWER

STEPS = 5
Path = tuple[Node, Site]  # source, target port


@dataclass(frozen=True)
class Opinions:
    """The loss of log-likelihood for each direct path, by three methods."""

    paths: list[Path]
    exact: list[float]
    eap: list[float]
    eap_ig: list[float]

    def agreement(self) -> GradientAgreement:
        """Spearman's rank correlation with the exact effects, by size."""
        exact = np.abs(self.exact)
        once, along = (float(spearmanr(exact, np.abs(scores)).statistic) for scores in (self.eap, self.eap_ig))
        return GradientAgreement(paths=len(self.paths), eap=_rounded(once), eap_ig=_rounded(along))


def compare_with_gradients(lab: Lab, ports: Sequence[Site]) -> Opinions:
    paths = [(source, port) for port in ports for source in lab.layout.sources(port)]
    once, along = (gradient_scores(lab, paths, steps) for steps in (1, STEPS))
    return Opinions(paths, exact_effects(lab, paths), once, along)


def exact_effects(lab: Lab, paths: Sequence[Path]) -> list[float]:
    measured = lab.likelihood()
    clean = lab.mean(lab.clean(measured, 1))
    tallies = lab.measure(_runs(lab, paths), measured[0], 1)
    return [clean - lab.mean(tallies[_name(path)]) for path in paths]


def gradient_scores(lab: Lab, paths: Sequence[Path], steps: int) -> list[float]:
    """One step: the gradient of the clean run. More: averaged over embeddings between their means and their values."""
    hook_of = {path: lab.engine.steps.hook(path[1]) for path in paths}
    session = lab.session(_runs(lab, paths))
    totals = np.zeros(len(paths))
    for batch in lab.batches:
        gradients = mean_gradients(lab, session, batch, set(hook_of.values()), steps)
        with torch.no_grad():
            worlds, clean = session.worlds(batch), lab.engine.hooks(batch, gradients)
            for number, path in enumerate(paths):
                hook = hook_of[path]
                changed = worlds.new(_ablation(path), clean[hook], {})
                totals[number] -= float(((changed - clean[hook]) * gradients[hook]).sum())
    return [float(total) for total in totals / len(lab.episodes)]


def mean_gradients(lab: Lab, session: Session, batch: Batch, hooks: Iterable[str], steps: int) -> dict[str, Tensor]:
    """The gradient of the answer's likelihood at each hook, averaged over embeddings between their means and values."""
    target, means = lab.targets[batch.number], embedding_means(lab, session, batch)

    def likelihood(logits: Tensor) -> Tensor:
        return answer_likelihood(batch.at(ANSWER, logits), target, lab.pad).sum()

    def partway(share: float) -> Callable[[Site, Tensor], Tensor]:
        return lambda site, value: means[site] + share * (value - means[site])

    each = [lab.engine.gradients(batch, hooks, likelihood, partway((n + 1) / steps)) for n in range(steps)]
    return {hook: torch.stack([step[hook][1] for step in each]).mean(0) for hook in hooks}


@torch.no_grad()
def embedding_means(lab: Lab, session: Session, batch: Batch) -> dict[Site, Tensor]:
    """The mean of each embedding. Known before a pass begins: what the store has dropped takes a pass of its own."""
    worlds, layout = session.worlds(batch), lab.layout
    written = [layout.write(node) for node in layout.nodes if not layout.inputs(node)]
    return {site: worlds.whole(Mean(), site) for site in written}


def _runs(lab: Lab, paths: Sequence[Path]) -> list[Run]:
    return [Run(_name(path), (_ablation(path),), (lab.logits,), _name(path)) for path in paths]


def _rounded(correlation: float) -> float | None:
    """Rounded; None if it is undefined because all effects are the same."""
    return round(correlation, 4) if np.isfinite(correlation) else None


def _ablation(path: Path) -> Edit:
    source, port = path
    return Edit(port, Rebuilt(Of(CLEAN), ((source, Mean()),)))


def _name(path: Path) -> str:
    return f"{path[0]} -> {path[1]}"
