"""The algebra behind edits: what a node writes, what stands in for it, what a port reads.

A residual stream is the sum of what was written into it, so a stream with some sources changed is the base stream
plus the differences of those sources. It goes through the real LayerNorm and the real projection of one head. These
functions take tensors and the model; they know nothing of nnsight.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from steer.anatomy.names import Node, Shape, Site
from steer.models.plain.transformer import MLP, Attention, State, Transformer
from steer.plan.plan import (
    Ablated,
    Clean,
    Counterpart,
    Origin,
    Put,
    Rebuild,
    Recorded,
    Swapped,
    stream_path,
    writer_path,
)

Values = Mapping[str, Tensor]  # by hook


@dataclass
class Bench:
    """All that the edits of one run draw on: the clean run, the ablation values, earlier runs, the batch."""

    model: Transformer
    shape: Shape
    clean: Values
    ablated: Callable[[str], Tensor]  # hook -> what stands in for it, broadcastable to the clean value
    recorded: dict[str, Values]  # run -> hook -> value
    state: State
    counterpart: Values = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._streams: dict[str, Tensor] = {}  # with every source ablated: the same for all runs of a sweep

    def change(self, edit: Put | Rebuild) -> Callable[[Tensor, Values], Tensor]:
        """What an edit does to the value of its hook, given what the pass has met before."""

        def change(value: Tensor, met: Values) -> Tensor:
            new = self.put(edit, value) if isinstance(edit, Put) else self.rebuilt(edit, value, met)
            return at_places(value, new, edit) if edit.places else new

        return change

    def value(self, path: str, origin: Origin) -> Tensor:
        match origin:
            case Clean():
                return self.clean[path]
            case Ablated():
                return self.ablated(path)
            case Recorded(run):
                return self.recorded[run][path]
            case Swapped(first, second):
                return swap_rows(self.clean[path], first - 1, second - 1)
            case Counterpart():
                return self.counterpart[path]

    def write(self, node: Node, origin: Origin) -> Tensor:
        """What a node adds to its stream. Biases are constant and belong to the stream, not to a head."""
        value = self.value(writer_path(node), origin)
        if not node.is_head:
            return value
        block = attention(self.model, node)
        return head_write(block, value, node.head or 0)

    def put(self, edit: Put, value: Tensor) -> Tensor:
        """A site replaced: all of a hook, or one head's part of it."""
        new = self.value(edit.site.path, edit.value).expand_as(value)
        return new if not edit.site.node.is_head else replace_head(value, new, edit.site)

    def rebuilt(self, edit: Rebuild, value: Tensor, met: Values) -> Tensor:
        """The hook's value with what the target makes of the rebuilt stream."""
        stream = self.stream(edit, met)
        if not edit.site.node.is_head:
            return mlp_of(self.model, edit.site.node).of(stream).expand_as(value)
        return put_head(value, self.port(edit, stream), edit.site)

    def port(self, edit: Rebuild, stream: Tensor) -> Tensor:
        """A head's q, k or v as read from a stream: B T d."""
        node, block = edit.site.node, attention(self.model, edit.site.node)
        crossing = node.kind == "dec-cross" and edit.site.port in ("k", "v")
        norm = self.model.ln_enc if crossing else block.ln
        return project_head(block, norm(stream), edit.site)

    def stream(self, edit: Rebuild, met: Values) -> Tensor:
        base: Origin = Ablated() if edit.base == "ablated" else Clean()
        current = edit.base == "current"
        stream = met[stream_path(self.shape, edit.site)] if current else self.base_stream(edit, base)
        for node, origin in edit.changes:
            if origin != base:
                stream = stream + (self.write(node, origin) - self.write(node, base))
        return stream

    def base_stream(self, edit: Rebuild, base: Origin) -> Tensor:
        path = stream_path(self.shape, edit.site)
        if isinstance(base, Clean):
            return self.clean[path]
        if path not in self._streams:
            parts = [self.write(node, base) for node in self.shape.sources(edit.site)]
            self._streams[path] = sum(parts, start=self.constant(edit.site))
        return self._streams[path]

    def constant(self, site: Site) -> Tensor:
        """The attention biases in a port's stream: no source's, never ablated. (An MLP's bias is part of its write.)"""
        blocks = {id(b): b for n in self.shape.sources(site) if n.is_head for b in (attention(self.model, n),)}
        zero = torch.zeros_like(self.model.ln_enc.weight)
        return sum((block.W_O.bias for block in blocks.values()), start=zero)


def attention(model: Transformer, node: Node) -> Attention:
    block = model.get_submodule(Site(node, "z").path.rpartition(".")[0])
    assert isinstance(block, Attention)
    return block


def mlp_of(model: Transformer, node: Node) -> MLP:
    block = model.get_submodule(Site(node).path.rpartition(".")[0])
    assert isinstance(block, MLP)
    return block


def head_write(block: Attention, z: Tensor, head: int) -> Tensor:
    """z of one head through its part of W_O: B T D."""
    size = z.shape[-1]
    return z[..., head, :] @ block.W_O.weight[:, head * size : (head + 1) * size].T


def project_head(block: Attention, normed: Tensor, site: Site) -> Tensor:
    """One head's q, k or v of a normed stream: B T d."""
    full: nn.Linear = {"q": block.W_Q, "k": block.W_K, "v": block.W_V}[site.port or ""]
    size = full.out_features // block.heads
    rows = slice((site.node.head or 0) * size, ((site.node.head or 0) + 1) * size)
    return normed @ full.weight[rows].T + full.bias[rows]


def head_axis(site: Site) -> int:
    return 1 if site.port in ("scores", "pattern") else 2


def put_head(value: Tensor, part: Tensor, site: Site) -> Tensor:
    """A copy of a hook's value with one head's part replaced."""
    changed = value.clone()
    changed.select(head_axis(site), site.node.head or 0).copy_(part)
    return changed


def at_places(value: Tensor, new: Tensor, edit: Put | Rebuild) -> Tensor:
    """A copy of a hook's value with the new one at some places of the sequence (queries, for a pattern)."""
    axis = 2 if edit.site.port in ("scores", "pattern") else 1
    rows = [place - 1 for place in edit.places if place <= value.shape[axis]]
    changed = value.clone()
    where = torch.tensor(rows, dtype=torch.long, device=value.device)
    return changed.index_copy_(axis, where, new.index_select(axis, where))


def replace_head(value: Tensor, new: Tensor, site: Site) -> Tensor:
    return put_head(value, new.select(head_axis(site), site.node.head or 0), site)


def swap_rows(value: Tensor, first: int, second: int) -> Tensor:
    """Two positions of every episode exchanged: B T D."""
    changed = value.clone()
    changed[:, first], changed[:, second] = value[:, second], value[:, first]
    return changed


def site_value(model: Transformer, values: Values, site: Site) -> Tensor:
    """A site's own part of what its hook holds."""
    value = values[site.path]
    if not site.node.is_head:
        return value
    if site.port == "out":
        return head_write(attention(model, site.node), value, site.node.head or 0)
    return value.select(head_axis(site), site.node.head or 0)
