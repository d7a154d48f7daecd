"""Which decoder components write the choice, and from which of them paths are traced.

What is written is counted on questions that choose, as the logit of the right token over that of the token that was not
chosen: what is written for both alike chooses nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from steer.anatomy.nodes import Node
from steer.discover.lab import Lab
from steer.results.evidence import Ablation, Choice, Estimate
from steer.results.tally import Tally


@torch.no_grad()
def logit_shares(lab: Lab) -> dict[Node, Estimate]:
    """Each decoder component's part of the choice, as a share of all that is written of it."""
    writers = [node for node in lab.layout.nodes if lab.layout.reaches_logits(node)]
    tallies = {node: lab.clean(lab.choice(node)) for node in writers}
    total = Tally(len(lab.episodes), 1)
    total.values = sum((tally.values.sum(1, keepdims=True) for tally in tallies.values()), start=total.values)
    total.counts = next(iter(tallies.values())).counts.sum(1, keepdims=True)
    if lab.estimate(total).low <= 0:  # the model does not favour the right token: no share of it means anything
        return {}
    return {node: lab.interval(lambda mean, t=t: mean(t) / mean(total)) for node, t in tallies.items()}  # type: ignore[misc]


def writing_heads(heads: Sequence[Node], shares: Mapping[Node, Estimate], threshold: float) -> list[Node]:
    """Those of these heads that write a part of the choice, by how much they write."""
    found = [head for head in heads if head in shares and shares[head].low > threshold / 2]
    return sorted(found, key=lambda head: -shares[head].value)


def chosen(lab: Lab, heads: Sequence[Node]) -> Choice:
    """How often the right token is said, and the one that was not chosen: clean, and without these heads."""

    def said(tokens: Sequence[Tensor]) -> Ablation:
        measured = lab.said(tokens)
        (ablated,) = lab.measure([lab.ablating("ablated", heads)], measured[0]).values()
        return Ablation(clean=lab.estimate(lab.clean(measured)), ablated=lab.estimate(ablated))

    return Choice(without=tuple(map(str, heads)), right=said(lab.targets), other_argument=said(lab.rivals))
