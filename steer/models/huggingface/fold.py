"""The stream that a port reads, from what each source wrote; and what a write adds to the logits.

Walk the blocks in order, add what each wrote, and take the norms in between as the model does. A write is what a node's
own weights make, before any norm. Where no norm stands between the writes the fold is a plain sum.

For attribution every norm is frozen at its clean scale. A frozen norm is linear, so a direction in the logits can be
carried *back* through the norms to each block: a write's share of the logit is its product with its block's direction.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from steer.anatomy.layout import Block, Layout
from steer.anatomy.nodes import Node, Site
from steer.models.huggingface.blocks import AttentionBlock
from steer.models.huggingface.heads import same
from steer.models.huggingface.state import NONE
from steer.models.huggingface.steps import path_of
from steer.models.huggingface.wired import Wired
from steer.models.protocol import Directions, Writes


def blocks_of(layout: Layout, stream: str) -> list[Block]:
    """The blocks behind the embeddings that write into a stream."""
    return [block for block in layout.blocks if block.writes == stream and block.reads]


def embedded(wired: Wired, stream: str, writes: Writes) -> Tensor:
    """The sum of what a stream's embeddings wrote."""
    return _sum([writes(n) for b in wired.layout.blocks if b.writes == stream and not b.reads for n in b.nodes])


def total(wired: Wired, block: Block, writes: Writes) -> Tensor:
    """What a block writes in all, with its bias."""
    written = _sum([writes(node) for node in block.nodes])
    bias = bias_of(wired, block)
    return written if bias is None else written + bias


def bias_of(wired: Wired, block: Block) -> Tensor | None:
    """What a block adds that is nobody's write. (An MLP's bias is part of its write.)"""
    made = wired.block(path_of(block))
    return made.heads.bias if isinstance(made, AttentionBlock) else None


def fold(wired: Wired, stream: str, writes: Writes, until: int | None = None) -> Tensor:
    """A stream after the first `until` blocks of the layout, or at its end."""
    value = wired.embedding(stream).norm(embedded(wired, stream, writes))
    for block in wired.layout.blocks[:until]:
        if block.writes == stream and block.reads:
            value = wired.block(path_of(block)).norms.add(value, total(wired, block, writes))
    return value


@dataclass(frozen=True)
class Frozen:
    """A norm with the scale that it has on some stream."""

    norm: Any
    over: Tensor = NONE  # what it was applied to: B T D

    def back(self, direction: Tensor) -> Tensor:
        """The direction in what goes in that a direction in what comes out belongs to."""
        if self.norm is same:
            return direction
        if isinstance(self.norm, nn.LayerNorm):
            scaled = direction * self.norm.weight
            root = torch.rsqrt(self.over.var(-1, unbiased=False, keepdim=True) + self.norm.eps)
            return (scaled - scaled.mean(-1, keepdim=True)) * root
        root = torch.rsqrt(self.over.pow(2).mean(-1, keepdim=True) + epsilon(self.norm))
        return direction * gain(self.norm) * root

    def constant(self, direction: Tensor) -> Tensor:
        """What the norm's own bias adds along a direction in what comes out: B T."""
        bias: Tensor | None = getattr(self.norm, "bias", None)
        return torch.zeros_like(direction[..., 0]) if bias is None else direction @ bias


def gain(norm: Any) -> Tensor:
    """What an RMS norm multiplies by. Gemma's weights are differences from one."""
    weight: Tensor = norm.weight
    return weight + 1.0 if type(norm).__name__.startswith("Gemma") else weight


def epsilon(norm: Any) -> float:
    return float(norm.eps if hasattr(norm, "eps") else norm.variance_epsilon)


def directions(wired: Wired, clean: Mapping[Site, Tensor], direction: Tensor) -> Directions:
    """A direction behind the last norm, B T D, carried back to every node that writes into the last stream."""
    layout = wired.layout
    parts: dict[Node, Tensor] = {}
    constant = torch.zeros_like(direction[..., 0])
    for block, out, behind in reversed(list(_norms(wired, clean))):
        constant = constant + behind.constant(direction)
        direction = behind.back(direction)
        if block is not None:
            constant = constant + out.constant(direction)
            written, bias = out.back(direction), bias_of(wired, block)
            constant = constant if bias is None else constant + written @ bias
            parts |= dict.fromkeys(block.nodes, written)
    rest = [node for node in layout.sources(layout.logits) if node not in parts]
    return Directions(parts | dict.fromkeys(rest, direction), constant)


Passed: TypeAlias = tuple[Block | None, Frozen, Frozen]  # a block, the norm of what it writes, the norm behind it


def _norms(wired: Wired, clean: Mapping[Site, Tensor]) -> Iterator[Passed]:
    """The norms on the way to the logits, in order, each with its clean scale."""
    layout, stream, nothing = wired.layout, wired.layout.streams[-1].name, Frozen(same)
    if layout.is_sum(layout.logits):
        yield from ((block, nothing, nothing) for block in blocks_of(layout, stream))
        yield None, nothing, Frozen(wired.final_norm(stream), clean[layout.stream(layout.logits)])
        return

    def writes(node: Node) -> Tensor:
        return clean[layout.written(node)]

    value, embedding = embedded(wired, stream, writes), wired.embedding(stream)
    yield None, nothing, Frozen(embedding.norm, value)
    value = embedding.norm(value)
    for block in blocks_of(layout, stream):
        norms, written = wired.block(path_of(block)).norms, total(wired, block, writes)
        added = value + norms.out(written)
        yield block, Frozen(norms.out, written), Frozen(norms.post, added)
        value = norms.post(added)
    yield None, nothing, Frozen(wired.final_norm(stream), value)


def _sum(values: list[Tensor]) -> Tensor:
    return sum(values[1:], start=values[0])
