"""A model ready to run: batches of examples, their clean activations under one budget, and single passes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from steer.anatomy.nodes import Site
from steer.base.errors import SteerError
from steer.base.memory import MEMORY, memory_text
from steer.engine.ablation import Means
from steer.engine.backends.local import Local, PassError
from steer.engine.backends.remote import Remote
from steer.engine.schedule import Pass, built_on, hook_order, stop_after
from steer.engine.store import BUDGET, Store, Values
from steer.engine.values import Worlds
from steer.models.protocol import Batch, Model, Reading

LARGEST = 250  # examples of a batch: more make nothing faster
Hooks = Mapping[str, Tensor]


class Engine:
    def __init__(
        self, model: Model, budget: int = BUDGET, memory: int = MEMORY, backend: Local | Remote | None = None
    ) -> None:
        """`budget`: bytes of clean activations that are kept. `memory`: bytes in all, beside the weights."""
        self.memory = memory
        self.model, self.layout, self.steps = model, model.layout, model.steps
        self.order = hook_order(model.layout, model.steps)
        self.backend: Local | Remote = backend or Local(model.module)
        self.store = Store(budget)
        self._batches: dict[tuple[tuple[Any, ...], int, bool], list[Batch]] = {}
        self._means: dict[tuple[Batch, ...], Means] = {}

    @classmethod
    def within(cls, model: Model, memory: int) -> Engine:
        """One that takes this much memory in all, a quarter of it for clean activations."""
        return cls(model, memory // 4, memory)

    def batches(self, examples: Sequence[Any], size: int | None = None, in_order: bool = False) -> list[Batch]:
        """Batches of examples of similar length, to save padding; or in the order in which they come.

        The same examples give the same batches.
        """
        size = size or self.batch_size(examples)
        key = (tuple(examples), size, in_order)
        if key not in self._batches:
            self._batches[key] = self._make_batches(examples, size, in_order)
            self.store.add_group(self._batches[key])
        return self._batches[key]

    def batch_size(self, examples: Sequence[Any]) -> int:
        """How many of the longest fit into half of the memory: a pass meets every hook, and logits twice."""
        longest = max(len(example.prompt) + len(example.answer) for example in examples) + 2
        vocabulary, width = self.model.like.shape
        patterns = sum(block.heads for block in self.layout.blocks) * longest**2
        one = self.model.like.element_size() * (longest * (2 * vocabulary + len(self.order) * width) + patterns)
        if one > self.memory:
            takes, given = memory_text(one), memory_text(self.memory)
            text = f"an example of {longest:,} tokens takes about {takes}; --memory is {given}"
            raise SteerError(f"{text}: give more, or leave out examples that long")
        return max(1, min(LARGEST, self.memory // 2 // one))

    def _make_batches(self, examples: Sequence[Any], size: int, in_order: bool) -> list[Batch]:
        by_length = sorted(range(len(examples)), key=lambda row: 0 if in_order else len(examples[row].prompt))
        count = -(-len(examples) // size)
        ends = [number * len(examples) // count for number in range(count + 1)]  # of even size
        return [self.model.encode(examples, by_length[ends[n] : ends[n + 1]], n) for n in range(count)]

    def clean(self, batch: Batch, sites: Iterable[Site]) -> Reading:
        """What a forward pass without edits has at these sites."""
        sites = tuple(sites)
        return Reading(self.model, self.hooks(batch, map(self.steps.hook, sites), keep=True), sites)

    def hooks(self, batch: Batch, hooks: Iterable[str], keep: bool = False, known: Hooks | None = None) -> Values:
        """The values of these hooks without edits. Only what neither `known` nor the store has is computed."""
        wanted, kept = self.sort(hooks), {**self.store.kept(batch), **(known or {})}
        missing = [hook for hook in wanted if hook not in kept]
        values: Values = {}
        if missing:
            stop = stop_after(self.layout, self.steps, missing)
            start, given = self._latest_start(missing[0], stop, kept)
            state = self.model.state(batch, {field: kept[hook] for field, hook in given.items()})
            values = self.backend.run(state, start, stop, {}, missing, self.order)
            if keep:
                self.store.keep(batch, values)
        return {hook: kept[hook] if hook in kept else values[hook] for hook in wanted}

    def _latest_start(self, first: str, stop: str | None, kept: Hooks) -> tuple[str, Mapping[str, str]]:
        """The last step at which a pass can start and still meet the hook, given the kept values."""
        for number in () if self.backend.whole else range(self.steps.names.index(self._step[first]), 0, -1):
            given = self.steps.given(self.steps.names[number], stop)
            if all(hook in kept for hook in given.values()):
                return self.steps.names[number], given
        return self.steps.names[0], {}

    @cached_property
    def _step(self) -> dict[str, str]:
        return {self.steps.hook(site): self.steps.step(site) for site in self.layout.sites}

    @cached_property
    def sequence(self) -> dict[str, str]:
        """The sequence of tokens at which each hook has its values."""
        return {self.steps.hook(site): self.layout.sequence(site) for site in self.layout.sites}

    @cached_property
    def before_answers(self) -> set[str]:
        """The hooks that are computed from the prompt alone: the answer does not change them."""
        layout = self.layout
        return {self.steps.hook(s) for s in layout.sites if layout.computed_over(s) != layout.answer}

    def sort(self, hooks: Iterable[str]) -> list[str]:
        chosen = set(hooks)
        return [hook for hook in self.order if hook in chosen]

    def means(self, hooks: Iterable[str], batches: Sequence[Batch]) -> Means:
        """The mean of each hook over the examples of these batches; computed once."""
        means = self._means.setdefault(tuple(batches), Means())
        missing = [hook for hook in self.sort(hooks) if hook not in means.sums]
        for batch in batches if missing else ():
            real = {hook: batch.real[self.sequence[hook]] for hook in missing}
            means.add(self.hooks(batch, missing), real)
        return means

    def adopt(self, batches: Sequence[Batch], means: Means) -> None:
        """Take these for the means over the examples of the batches: their sums were merged from those of parts."""
        self._means[tuple(batches)] = means.to(self.model.like.device)

    def gradients(
        self, batch: Batch, hooks: Iterable[str], metric: Callable[[Tensor], Tensor],
        enter: Callable[[Site, Tensor], Tensor] = lambda site, value: value,
    ) -> dict[str, tuple[Tensor, Tensor]]:  # fmt: skip
        """The value at each hook, and the gradient there of a number computed from the logits.

        `enter` may change the embeddings that go in (site and value in, value out).
        """
        wanted, logits = self.sort(hooks), self.steps.hook(self.layout.logits)
        sources = [self.layout.write(node) for node in self.layout.nodes if not self.layout.inputs(node)]
        # The weights are frozen; a graph starts where the embeddings enter.
        grow: dict[str, list[Any]] = {
            self.steps.hook(site): [lambda v, met, site=site: enter(site, v).detach().requires_grad_()]
            for site in sources
        }
        with torch.enable_grad():
            state = self.model.state(batch, {})
            values = self.backend.run(state, self.steps.names[0], None, grow, [*wanted, logits], self.order)
            gradients = torch.autograd.grad(metric(values[logits]), [values[hook] for hook in wanted])
        return {hook: (values[hook].detach(), g) for hook, g in zip(wanted, gradients, strict=True)}

    def take(self, one: Pass, worlds: Worlds, clean: Hooks) -> Reading:
        """Run one pass with its edits. What it reads is kept for later runs that refer to it."""
        state = self.model.state(worlds.batch, {field: clean[hook] for field, hook in one.given})
        changes: dict[str, list[Any]] = {}
        for edit in one.edits:
            changes.setdefault(self.steps.hook(edit.site), []).append(self.backend.change(worlds, edit))
        reads = list(dict.fromkeys(map(self.steps.hook, one.run.reads)))
        first = self.steps.names.index(one.start)
        met = [
            self.steps.hook(site)
            for edit in one.edits
            for site in built_on(edit, self.layout)
            if self.steps.order(site)[0] >= first
        ]
        try:
            values = self.backend.run(state, one.start, one.stop, changes, [*reads, *met], self.order)
        except PassError as error:
            raise PassError(f"run {one.run.name!r}: {error}") from error
        if one.run.is_record:
            worlds.runs[one.run.name] = values
        return Reading(self.model, values, one.run.reads)
