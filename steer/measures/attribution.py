"""Which part of the decoder writes the right token's logit, and how a head's output meets the unembedding.

The logit of a token is linear in the decoder's final stream once the final LayerNorm's scale is held at its clean
value, so each component of the stream has its own share of it. Shares are of the right token's logit relative to
the mean over its alternatives; with the constant part they sum to that number exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from steer.anatomy.nodes import Node
from steer.models.protocol import Model

Alternatives = Sequence[tuple[int, ...]]  # for each example, the tokens that a logit is held against
CONSTANT = "constant"  # biases: of attention outputs, of the final LayerNorm, of the unembedding


def logit_attribution(
    model: Model, writes: Mapping[str, Tensor], stream: Tensor, target: Tensor, alternatives: Alternatives
) -> dict[str, Tensor]:
    """Each component's share of the relative logit, B T, the final LayerNorm frozen at the scale of `stream`."""
    norm = model.readout
    scale = torch.sqrt(stream.var(-1, unbiased=False) + norm.eps)  # B T
    difference = norm.rows[target] - mean_of(norm.rows, alternatives)  # B T D
    direction = difference * norm.gain
    direction = direction - direction.mean(-1, keepdim=True)  # LayerNorm takes the mean off
    shares = {name: (write * direction).sum(-1) / scale for name, write in writes.items()}
    biases = model.constant(model.layout.logits)
    fixed = (biases * direction).sum(-1) / scale + difference @ norm.shift
    shares[CONSTANT] = fixed + norm.bias[target] - mean_of(norm.bias, alternatives)
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
