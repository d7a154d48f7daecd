"""A Hugging Face model as the engine asks for it: names to hooks, writes, reads and tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from steer.anatomy.layout import Layout
from steer.anatomy.nodes import Node, Site
from steer.models.huggingface import fold
from steer.models.huggingface.blocks import AttentionBlock, FeedforwardBlock
from steer.models.huggingface.heads import rotate
from steer.models.huggingface.layout import layout_of, row_of
from steer.models.huggingface.parts import Row
from steer.models.huggingface.state import State
from steer.models.huggingface.steps import BlockSteps, path_of
from steer.models.huggingface.wired import Wired
from steer.models.protocol import Batch, Directions, Readout, Writes


@dataclass(frozen=True, eq=False)
class HuggingFaceModel:
    module: Wired

    @property
    def layout(self) -> Layout:
        return self.module.layout

    @cached_property
    def steps(self) -> BlockSteps:
        return BlockSteps(self.layout)

    @property
    def row(self) -> Row:
        return self.module.row

    @property
    def config(self) -> Any:
        return self.module.model.config

    @property
    def like(self) -> Tensor:
        return self.module.like

    @property
    def max_length(self) -> int:
        return next(int(getattr(self.config, key)) for key in self.row.lengths)

    @property
    def pad(self) -> int:
        """The token that fills a shorter row; which one does not matter, because nothing looks at it."""
        return next(token for token in (self.config.pad_token_id, self.end, 0) if token is not None)

    @property
    def end(self) -> int:
        end = self.config.eos_token_id
        return end[0] if isinstance(end, list) else end if end is not None else -1

    @property
    def readout(self) -> Readout:
        head: Any = self.module.model.get_submodule(self.row.head)
        rows: Tensor = head.weight * self.module.head_scale
        bias = self.module.head_bias
        return Readout(rows, rows.new_zeros(len(rows)) if bias is None else bias)

    def size(self, hook: str) -> tuple[int, ...]:
        path, _, name = hook.rpartition(".")
        if name in ("z", "q", "k", "v", "q_pre", "k_pre"):
            heads = self._attention_at(path).heads
            return (heads.count, heads.size)
        return (int(self.like.shape[-1]),)

    def state(self, batch: Batch, given: Mapping[str, Tensor]) -> State:
        names = {stream.name: stream.sequence for stream in self.layout.streams}
        tokens = {name: batch.tokens[sequence] for name, sequence in names.items()}
        state = State(tokens, {name: batch.real[sequence] for name, sequence in names.items()})
        return replace(state, **given)  # type: ignore[arg-type]  # fields of tensors, by the steps' own names

    def written(self, node: Node, value: Tensor) -> Tensor:
        """A head's z through its part of the output projection, without the bias that all heads share."""
        return value if node.head is None else value[..., node.head, :] @ self._heads(node).columns(node.head).T

    def folded(self, port: Site, writes: Writes) -> Tensor:
        """The stream that a port reads, from what each of its sources wrote."""
        return fold.fold(self.module, self.layout.reads(port), writes, self.layout.read_until(port))

    def read(self, port: Site, stream: Tensor, batch: Batch) -> Tensor:
        if port.node.head is None:
            block = self.module.block(path_of(self.layout.block(port.node)))
            assert isinstance(block, FeedforwardBlock)
            return block.of(stream)
        value = self._project(port, self._norm(port)(stream))
        if port.port == "v" or not self._heads(port.node).rotary:
            return value
        return rotate(value, self.module.angles(batch.real[self.layout.sequence(port)]))

    def _project(self, port: Site, normed: Tensor) -> Tensor:
        """One head's q, k or v of a normed stream, before it is rotated."""
        return self._heads(port.node).port(port.port or "", normed, port.node.head or 0)

    def _norm(self, port: Site) -> Any:
        """Another stream is read through its own final norm, its own stream through the block's."""
        stream, own = self.layout.reads(port), self.layout.block(port.node)
        return self._attention(port.node).norms.pre if stream == own.writes else self.module.final_norm(stream)

    def copied(self, head: Node, normed: Tensor) -> Tensor:
        return self._project(Site(head, "v"), normed) @ self._heads(head).columns(head.head or 0).T

    def constant(self, port: Site) -> Tensor:
        """The biases of attention outputs. (An MLP's bias is part of its write.)"""
        blocks = dict.fromkeys(self.layout.block(node) for node in self.layout.sources(port))
        biases = [fold.bias_of(self.module, block) for block in blocks if block.heads]
        return sum((bias for bias in biases if bias is not None), start=torch.zeros_like(self.like[0]))

    def directions(self, values: Mapping[Site, Tensor], direction: Tensor) -> Directions:
        return fold.directions(self.module, values, direction)

    def _heads(self, node: Node) -> Any:
        return self._attention(node).heads

    def _attention(self, node: Node) -> AttentionBlock:
        return self._attention_at(path_of(self.layout.block(node)))

    def _attention_at(self, path: str) -> AttentionBlock:
        block = self.module.block(path)
        assert isinstance(block, AttentionBlock)
        return block


def wire(model: Any, place: str = "config") -> HuggingFaceModel:
    """A loaded model, made ready: attention written out plainly, nothing trained, nothing dropped, nothing cached."""
    config = model.config.to_dict()
    row, layout = row_of(config, place), layout_of(config, place)
    model.set_attn_implementation("eager")
    model.config.use_cache = False
    return HuggingFaceModel(Wired(model.requires_grad_(False).eval(), row, layout))
