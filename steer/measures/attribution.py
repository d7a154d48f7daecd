"""Which part of the decoder writes the right token's logit, and how a head's output meets the unembedding.

The logit of a token is linear in what was written once the scale of every norm behind it is held at its clean value
(on most models that is the final norm alone), so each component has its own share of it.
Shares are of the right token's logit relative to the mean over its alternatives; with the constant part they
sum to that number exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from steer.anatomy.nodes import Node, Site
from steer.models.protocol import Model

Alternatives = Sequence[tuple[int, ...]]  # for each example, the tokens that a logit is held against
CONSTANT = "constant"  # biases: of attention outputs, of the final LayerNorm, of the unembedding


def logit_attribution(
    model: Model,
    writes: Mapping[Node, Tensor],
    clean: Mapping[Site, Tensor],
    target: Tensor,
    alternatives: Alternatives,
) -> dict[str, Tensor]:
    """Each node's share of the relative logit, B T, every norm behind it frozen at its scale in the clean run."""
    readout = model.readout
    difference = readout.rows[target] - mean_of(readout.rows, alternatives)  # B T D
    found = model.directions(clean, difference)
    shares = {str(node): (write * found.of[node]).sum(-1) for node, write in writes.items()}
    shares[CONSTANT] = found.constant + readout.bias[target] - mean_of(readout.bias, alternatives)
    return shares


def mean_of(table: Tensor, alternatives: Alternatives) -> Tensor:
    """The mean of each example's alternatives in a table of tokens: B 1 …"""
    means = {tokens: table[list(tokens)].mean(0) for tokens in set(alternatives)}
    return torch.stack([means[tokens] for tokens in alternatives])[:, None]


def ov_alignment(model: Model, head: Node, memory: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """Inner products of what a head would copy from each prompt token with unembedding rows.

    Gives N (with the token's own row) and N, V - 1 (with all other rows: the null), for N prompt tokens whose encoder
    output is `memory` (N D).
    """
    products = model.copied(head, memory) @ model.readout.rows.T  # N V
    own = torch.zeros_like(products, dtype=torch.bool).scatter_(1, tokens[:, None], True)
    return products[own], products[~own].view(len(tokens), -1)
