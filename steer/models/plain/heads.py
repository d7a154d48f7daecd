"""The heads of a block in another order: the model computes the same, heads have other numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy

import torch
from torch import Tensor

from steer.anatomy.nodes import Node
from steer.models.plain.layout import ATTENTION
from steer.models.plain.transformer import Attention, Transformer


@torch.no_grad()
def reorder_heads(model: Transformer, order: Mapping[Node, Sequence[int]]) -> Transformer:
    """A copy whose head h of a block (`enc-self-1`) is the head `order[block][h]` of the given model."""
    copy = deepcopy(model)
    for node, heads in order.items():
        block = copy.get_submodule(f"{node.kind[:3]}.{node.layer}.{ATTENTION[node.kind]}")
        assert isinstance(block, Attention)
        for full in (block.W_Q, block.W_K, block.W_V):
            full.weight.copy_(_reordered(full.weight, 0, heads))
            full.bias.copy_(_reordered(full.bias, 0, heads))
        block.W_O.weight.copy_(_reordered(block.W_O.weight, 1, heads))  # its bias belongs to no head
    return copy


def _reordered(tensor: Tensor, axis: int, heads: Sequence[int]) -> Tensor:
    """The parts of all heads along an axis, put in this order."""
    parts = tensor.chunk(len(heads), axis)
    return torch.cat([parts[head] for head in heads], axis)
