"""Which part of the decoder writes the right token's logit, and how a head's output meets the unembedding.

The logit of a token is linear in the decoder's final stream once the final LayerNorm's scale is held at its clean
value, so each component of the stream has its own share of it. Shares are of the right token's logit relative to
the mean over its alternatives; with the constant part they sum to that number exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from steer.models.plain.transformer import Attention, Transformer

Alternatives = Sequence[tuple[int, ...]]  # for each example, the tokens that a logit is held against
CONSTANT = "constant"  # biases: of attention outputs, of the final LayerNorm, of the unembedding


def logit_attribution(
    model: Transformer, writes: Mapping[str, Tensor], stream: Tensor, target: Tensor, alternatives: Alternatives
) -> dict[str, Tensor]:
    """Each component's share of the relative logit, B T, the final LayerNorm frozen at the scale of `stream`."""
    norm, rows = model.ln_dec, model.unembed.weight
    scale = torch.sqrt(stream.var(-1, unbiased=False) + norm.eps)  # B T
    difference = rows[target] - mean_of(rows, alternatives)  # B T D
    direction = difference * norm.weight
    direction = direction - direction.mean(-1, keepdim=True)  # LayerNorm takes the mean off
    shares = {name: (write * direction).sum(-1) / scale for name, write in writes.items()}
    biases = sum((b.W_O.bias for b in decoder_attention(model)), start=torch.zeros_like(norm.bias))
    fixed = (biases * direction).sum(-1) / scale + difference @ norm.bias
    shares[CONSTANT] = fixed + model.unembed.bias[target] - mean_of(model.unembed.bias, alternatives)
    return shares


def mean_of(table: Tensor, alternatives: Alternatives) -> Tensor:
    """The mean of each example's alternatives in a table of tokens: B 1 …"""
    means = {tokens: table[list(tokens)].mean(0) for tokens in set(alternatives)}
    return torch.stack([means[tokens] for tokens in alternatives])[:, None]


def decoder_attention(model: Transformer) -> list[Attention]:
    blocks = [layer[name] for layer in model.dec for name in ("self_attn", "cross_attn")]  # type: ignore[index]
    assert all(isinstance(block, Attention) for block in blocks)
    return blocks


def ov_alignment(
    model: Transformer, block: Attention, head: int, memory: Tensor, tokens: Tensor
) -> tuple[Tensor, Tensor]:
    """Inner products of what a head would copy from each prompt token with unembedding rows.

    Gives N (with the token's own row) and N, V - 1 (with all other rows: the null), for N prompt tokens whose encoder
    output is `memory` (N D).
    """
    size = block.W_V.out_features // block.heads
    part = slice(head * size, (head + 1) * size)
    copied = (memory @ block.W_V.weight[part].T + block.W_V.bias[part]) @ block.W_O.weight[:, part].T  # N D
    products = copied @ model.unembed.weight.T  # N V
    own = torch.zeros_like(products, dtype=torch.bool).scatter_(1, tokens[:, None], True)
    return products[own], products[~own].view(len(tokens), -1)
