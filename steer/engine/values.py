"""The algebra behind edits: the tensor that a value of the plan stands for, on one batch.

A residual stream is the sum of what was written into it, so a stream with some sources changed is the rest's stream
plus the differences of those sources. It goes through the real norm and the real projection of one head. What a node
writes and what a port reads is the model's to say; nothing here knows nnsight.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from steer.anatomy.nodes import Node, Site
from steer.engine.ablation import resample
from steer.engine.schedule import before_rotation
from steer.models.places import chosen, paired
from steer.models.protocol import Batch, Exchange, Model, Rotating, head_axis, token_axis
from steer.plan.plan import (
    CLEAN,
    Current,
    Edit,
    Exchanged,
    Mean,
    Of,
    Rebuilt,
    Resampled,
    Scaled,
    Spot,
    Stored,
    Sum,
    Turned,
    Value,
    Within,
    Zero,
)
from steer.tasks.task import PROMPT

Hooks = Mapping[str, Tensor]
NOTHING: Hooks = {}  # what a pass has met before it begins


@dataclass
class Worlds:
    """Where the edits of a run take their values: other runs on the same batch by name, and means over examples."""

    model: Model
    batch: Batch
    runs: dict[str, Hooks]  # run -> hook -> value
    means: Callable[[str, str, str, int], Tensor]  # (world, hook, over, length) -> 1, length, …
    examples: Sequence[Any] = ()  # that the batch is of: they know their spans
    stored: Mapping[Stored, Tensor] = field(default_factory=dict)  # directions and subspaces
    _streams: dict[tuple[Value, Site], Tensor] = field(default_factory=dict)  # the same for all runs of a sweep
    _whole: dict[tuple[Value, str], Tensor] = field(default_factory=dict)
    _chosen: dict[tuple[str, tuple[Spot, ...]], Tensor] = field(default_factory=dict)

    def change(self, edit: Edit) -> Callable[[Tensor, Hooks], Tensor]:
        """A function that applies an edit to the value of its hook, given what the pass has met before."""

        def change(value: Tensor, met: Hooks) -> Tensor:
            new = self.new(edit, value, met)
            return at_places(value, new, edit.site, self.chosen(edit)) if edit.places else new

        return change

    def sent(self, edit: Edit) -> tuple[int | None, tuple[Any, ...], Tensor | None]:
        """An edit as data, for passes elsewhere: whose part it is, its value as a tree, and its places."""
        head = edit.site.node.head if edit.site.node.is_head else None
        return head, self._tree(edit.value, edit.site, head), self.chosen(edit) if edit.places else None

    def _tree(self, value: Value, site: Site, head: int | None) -> tuple[Any, ...]:
        """What depends on the pass stays a tree; the rest is a tensor, of one head if the edit is."""
        match value:
            case Current():
                return ("now",)
            case Scaled(inner, by):
                return ("scaled", by, self._tree(inner, site, head))
            case Sum(terms):
                return ("sum", [self._tree(term, site, head) for term in terms])
            case Within(subspace, inside, outside):
                parts = [self._tree(part, site, head) for part in (inside, outside)]
                return ("within", self.stored[subspace], *parts)
            case _:
                whole = self.whole(value, site)
                return ("is", whole if head is None or whole.ndim < 4 else whole.select(head_axis(site), head))

    def chosen(self, edit: Edit) -> Tensor:
        """B T: the places that an edit is made at."""
        key = self.model.layout.sequence(edit.site), edit.places
        if key not in self._chosen:
            self._chosen[key] = chosen(self.model.layout, edit.site, edit.places, self.batch, self.examples)
        return self._chosen[key]

    def new(self, edit: Edit, value: Tensor, met: Hooks) -> Tensor:
        """The hook's value with the edit made at every place: all of it, or one head's part."""
        site = edit.site
        if isinstance(edit.value, Rebuilt):
            part = self.model.read(site, self.stream(edit.value, site, met), self.batch)
            return put_head(value, part, site) if site.node.is_head else part.expand_as(value)
        if isinstance(edit.value, Turned):
            return put_head(value, self._turned(edit.value, site, met), site)
        new = self.whole(edit.value, site, value).expand_as(value)
        return put_head(value, new.select(head_axis(site), site.node.head or 0), site) if site.node.is_head else new

    def whole(self, value: Value, site: Site, now: Tensor | None = None) -> Tensor:
        """A value at the hook that carries a site, for all heads: broadcastable to what the hook has `now`."""
        hook = self.model.steps.hook(site)
        match value:
            case Current():
                assert now is not None
                return now
            case Of(run):
                return self.runs[run][hook]
            case Exchanged(inner):
                return self._exchange(self.whole(inner, site, now), value, site)
            case Stored():
                return self.stored[value]
            case Scaled(inner, by):
                return by * self.whole(inner, site, now)
            case Sum(terms):
                return sum((self.whole(term, site, now) for term in terms[1:]), self.whole(terms[0], site, now))
            case Within(subspace, inside, outside):
                around, rows = self.whole(outside, site, now), self.stored[subspace]
                return around + (self.whole(inside, site, now) - around) @ rows.T @ rows
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
                return self.means(world, hook, over, real.shape[1]).to(like.dtype)

    def _exchange(self, value: Tensor, wanted: Exchanged, site: Site) -> Tensor:
        return swap_rows(value, self._columns(wanted.places), 3 if wanted.keys else token_axis(site))

    def _columns(self, places: tuple[Spot, Spot]) -> Exchange:
        """Rows of the batch, and in which column of each the first and the second of two exchanged places are."""
        places_of = [
            (row, *pair)
            for row, example in enumerate(self.batch.rows)
            for pair in paired(self.examples[example], places)
        ]
        rows = [row for row, _, _ in places_of]
        first, second = (self.batch.columns(PROMPT, rows, [one[end] for one in places_of]) for end in (1, 2))
        return rows, first, second

    def _turned(self, value: Turned, site: Site, met: Hooks) -> Tensor:
        """One head's query or key, from what it is before rotation."""
        before = before_rotation(site)
        whole = met[self.model.steps.hook(before)] if value.value == Current() else self.whole(value.value, before)
        one = whole.select(head_axis(before), before.node.head or 0)
        return cast(Rotating, self.model).turned(site, one, self.batch, self._columns(value.places))

    def write(self, node: Node, value: Value, met: Hooks = NOTHING) -> Tensor:
        """What a node adds to its stream. `Current`: as this pass has it; clean, where the pass has not been."""
        site = self.model.layout.write(node)
        hook = self.model.steps.hook(site)
        now = met[hook] if hook in met else self.runs[CLEAN].get(hook)
        return self.model.written(node, self.whole(value, site, now))

    def stream(self, value: Rebuilt, site: Site, met: Hooks) -> Tensor:
        """The stream that a port reads, with some sources changed."""
        if value.recomputed:
            return self._through_mlps(value, site, met)
        if not self.model.layout.is_sum(site):
            changed = dict(value.changes)
            return self.model.folded(site, lambda node: self.write(node, changed.get(node, value.rest), met))
        stream = self._rest(value.rest, site, met)
        for node, change in value.changes:
            if change != value.rest:
                stream = stream + (self.write(node, change, met) - self.write(node, value.rest, met))
        return stream

    def _through_mlps(self, value: Rebuilt, site: Site, met: Hooks) -> Tensor:
        """The same where MLPs read the changed stream, too: from all sources, in the order of the layers."""
        changed, known = dict(value.changes), dict[Node, Tensor]()

        def write(node: Node) -> Tensor:
            if node not in known:
                own = Site(node)
                follows = node not in changed and not node.is_head and bool(self.model.layout.inputs(node))
                known[node] = (
                    self.model.written(node, self.model.read(own, self.model.folded(own, write), self.batch))
                    if follows
                    else self.write(node, changed.get(node, value.rest), met)
                )
            return known[node]

        return self.model.folded(site, write)

    def _rest(self, rest: Value, site: Site, met: Hooks) -> Tensor:
        point = self.model.layout.stream(site)
        if isinstance(rest, Current):
            return met[self.model.steps.hook(point)]
        if isinstance(rest, Of):
            return self.runs[rest.run][self.model.steps.hook(point)]
        if (rest, point) not in self._streams:
            self._streams[rest, point] = self.model.folded(site, lambda node: self.write(node, rest, met))
        return self._streams[rest, point]


def put_head(value: Tensor, part: Tensor, site: Site) -> Tensor:
    """A copy of a hook's value with one head's part replaced."""
    changed = value.clone()
    changed.select(head_axis(site), site.node.head or 0).copy_(part)
    return changed


def at_places(value: Tensor, new: Tensor, site: Site, places: Tensor) -> Tensor:
    """A hook's value with the new one at some places of the sequence (queries, for a pattern): B T."""
    sizes = [len(places), *[1] * (value.ndim - 1)]
    sizes[token_axis(site)] = places.shape[1]
    return torch.where(places.view(sizes), new, value)


def swap_rows(value: Tensor, exchanged: Exchange, axis: int = 1) -> Tensor:
    """Pairs of columns, each in a row of its own choice, exchanged along an axis."""
    changed, given = value.clone().movedim(axis, 1), value.movedim(axis, 1)
    rows, first, second = exchanged
    changed[rows, first], changed[rows, second] = given[rows, second], given[rows, first]
    return changed.movedim(1, axis)
