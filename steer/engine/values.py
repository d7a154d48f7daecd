"""The algebra behind edits: the tensor that a value of the plan stands for, on one batch.

A residual stream is the sum of what was written into it, so a stream with some sources changed is the rest's stream
plus the differences of those sources. It goes through the real norm and the real projection of one head. What a node
writes and what a port reads is the model's to say; nothing here knows nnsight.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from steer.anatomy.nodes import Node, Site
from steer.engine.ablation import resample
from steer.engine.schedule import base
from steer.models.protocol import Batch, Model, head_axis, token_axis
from steer.plan.plan import CLEAN, Current, Edit, Exchanged, Mean, Of, Rebuilt, Resampled, Value, Zero

Hooks = Mapping[str, Tensor]


@dataclass
class Worlds:
    """All that the edits of a run draw on: other runs on the same batch by name, and the means of their examples."""

    model: Model
    batch: Batch
    runs: dict[str, Hooks]  # run -> hook -> value
    means: Callable[[str, str, str], Tensor]  # (world, hook, over) -> 1, length, …
    _streams: dict[tuple[Value, Site], Tensor] = field(default_factory=dict)  # the same for all runs of a sweep
    _whole: dict[tuple[Value, str], Tensor] = field(default_factory=dict)

    def change(self, edit: Edit) -> Callable[[Tensor, Hooks], Tensor]:
        """What an edit does to the value of its hook, given what the pass has met before."""

        def change(value: Tensor, met: Hooks) -> Tensor:
            new = self.new(edit, value, met)
            return at_places(value, new, edit) if edit.places else new

        return change

    def new(self, edit: Edit, value: Tensor, met: Hooks) -> Tensor:
        """The hook's value with the edit made at every place: all of it, or one head's part."""
        site = edit.site
        if isinstance(edit.value, Rebuilt):
            part = self.model.read(site, self.stream(edit.value, site, met), self.batch)
            return put_head(value, part, site) if site.node.is_head else part.expand_as(value)
        new = self.whole(edit.value, site).expand_as(value)
        return put_head(value, new.select(head_axis(site), site.node.head or 0), site) if site.node.is_head else new

    def whole(self, value: Value, site: Site) -> Tensor:
        """A value at the hook that carries a site, for all heads: broadcastable to the clean one."""
        hook = self.model.steps.hook(site)
        match value:
            case Of(run):
                return self.runs[run][hook]
            case Exchanged(inner, (first, second)):
                return swap_rows(self.whole(inner, site), first - 1, second - 1)
            case Mean() | Zero() | Resampled():
                if (value, hook) not in self._whole:
                    self._whole[value, hook] = self._ablated(value, hook, site)
                return self._whole[value, hook]
            case _:
                raise TypeError(f"{value!r} is no value of a whole hook")

    def _ablated(self, value: Mean | Zero | Resampled, hook: str, site: Site) -> Tensor:
        real = self.batch.real[self.model.layout.sequence(site)]
        like = self.model.like
        match value:
            case Zero():
                return like.new_zeros(1, 1, *self.model.size(hook))
            case Resampled(seed):
                return resample(self.runs[CLEAN][hook], real, np.random.default_rng((seed, self.batch.number)))
            case Mean(over, world):
                return self.means(world, hook, over)[:, : real.shape[1]].to(like.dtype)

    def write(self, node: Node, value: Value) -> Tensor:
        """What a node adds to its stream."""
        return self.model.written(node, self.whole(value, self.model.layout.write(node)))

    def stream(self, value: Rebuilt, site: Site, met: Hooks) -> Tensor:
        """The stream that a port reads, with some sources changed."""
        if value.recomputed:
            return self._through_mlps(value, site)
        if not self.model.layout.is_sum(site):
            changed = dict(value.changes)
            return self.model.folded(site, lambda node: self._folded(node, changed.get(node, value.rest), met))
        before = base(value.rest)
        stream = self._rest(value.rest, site, met)
        for node, change in value.changes:
            if change != before:
                stream = stream + (self.write(node, change) - self.write(node, before))
        return stream

    def _through_mlps(self, value: Rebuilt, site: Site) -> Tensor:
        """The same where MLPs read the changed stream, too: from all sources, in the order of the layers."""
        changed, known = dict(value.changes), dict[Node, Tensor]()

        def write(node: Node) -> Tensor:
            if node not in known:
                own = Site(node)
                follows = node not in changed and not node.is_head and bool(self.model.layout.inputs(node))
                known[node] = (
                    self.model.written(node, self.model.read(own, self.model.folded(own, write), self.batch))
                    if follows
                    else self.write(node, changed.get(node, base(value.rest)))
                )
            return known[node]

        return self.model.folded(site, write)

    def _folded(self, node: Node, value: Value, met: Hooks) -> Tensor:
        """What a node adds; `Current`: as this pass has it, which is clean where the pass has not been."""
        if not isinstance(value, Current):
            return self.write(node, value)
        hook = self.model.steps.hook(self.model.layout.write(node))
        return self.model.written(node, met[hook] if hook in met else self.runs[CLEAN][hook])

    def _rest(self, rest: Value, site: Site, met: Hooks) -> Tensor:
        point = self.model.layout.stream(site)
        if isinstance(rest, Current):
            return met[self.model.steps.hook(point)]
        if isinstance(rest, Of):
            return self.runs[rest.run][self.model.steps.hook(point)]
        if (rest, point) not in self._streams:
            self._streams[rest, point] = self.model.folded(site, lambda node: self.write(node, rest))
        return self._streams[rest, point]


def put_head(value: Tensor, part: Tensor, site: Site) -> Tensor:
    """A copy of a hook's value with one head's part replaced."""
    changed = value.clone()
    changed.select(head_axis(site), site.node.head or 0).copy_(part)
    return changed


def at_places(value: Tensor, new: Tensor, edit: Edit) -> Tensor:
    """A copy of a hook's value with the new one at some places of the sequence (queries, for a pattern)."""
    axis = token_axis(edit.site)
    rows = [place - 1 for place in edit.places if place <= value.shape[axis]]
    where = torch.tensor(rows, dtype=torch.long, device=value.device)
    return value.clone().index_copy_(axis, where, new.index_select(axis, where))


def swap_rows(value: Tensor, first: int, second: int) -> Tensor:
    """Two positions of every example exchanged: B T D."""
    changed = value.clone()
    changed[:, first], changed[:, second] = value[:, second], value[:, first]
    return changed
