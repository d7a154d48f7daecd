"""Which components write the choice, and from which of them paths are traced.

Measured on examples with a choice, as the logit of the right token minus that of the token that was not chosen: what is
written for both alike does not decide.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from steer.anatomy.nodes import Node
from steer.discover.lab import Lab
from steer.results.evidence import Ablation, Choice, Estimate
from steer.results.tally import Tally


@torch.no_grad()
def logit_shares(lab: Lab) -> dict[Node, Estimate]:
    """Each component's part of that difference, as a share of the sum over all components."""
    writers = [node for node in lab.layout.nodes if lab.layout.reaches_logits(node)]
    tallies = {node: lab.clean(lab.choice(node)) for node in writers}
    total = Tally(len(lab.episodes), 1)
    total.values = sum((tally.values.sum(1, keepdims=True) for tally in tallies.values()), start=total.values)
    total.counts = next(iter(tallies.values())).counts.sum(1, keepdims=True)
    if lab.estimate(total).low <= 0:  # the model does not favour the right token: no share of it means anything
        return {}
    return {node: lab.interval(lambda mean, t=t: mean(t) / mean(total)) for node, t in tallies.items()}  # type: ignore[misc]


def writing_heads(heads: Sequence[Node], shares: Mapping[Node, Estimate], threshold: float) -> list[Node]:
    """The heads among these that write a part of the choice, the largest part first."""
    writing = [head for head in heads if head in shares and shares[head].low > threshold / 2]
    return sorted(writing, key=lambda head: -shares[head].value)


def without_each(lab: Lab, nodes: Sequence[Node]) -> dict[str, Estimate]:
    """The share of the accuracy that is kept without each of these alone: writing is not being needed."""
    able = [node for node in nodes if not lab.layout.is_fixed(node)]
    clean, tallies = lab.clean(lab.exact(), 1), lab.accuracy_without({str(node): [node] for node in able})
    return {name: lab.share_of(tally, clean) for name, tally in tallies.items()} if lab.mean(clean) > 0 else {}


def chosen(lab: Lab, heads: Sequence[Node]) -> Choice:
    """How often the right token is said, and the one that was not chosen: clean, and without these heads."""

    def said(rivals: bool) -> Ablation:
        measured = lab.said(rivals)
        (ablated,) = lab.measure([lab.ablating("ablated", heads)], measured[0]).values()
        return Ablation(clean=lab.estimate(lab.clean(measured)), ablated=lab.estimate(ablated))

    return Choice(without=tuple(map(str, heads)), right=said(False), rival=said(True))
