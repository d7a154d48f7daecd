"""One plan over lists of examples, batch by batch: the only loop that runs plans.

The clean run of every batch comes first: ablations need means over all batches. Then every batch goes through the
plan's runs. The clean run's values are kept while they fit into the budget, also for other plans over the same
examples, and are computed again otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from steer.anatomy.layout import Layout
from steer.anatomy.nodes import Site
from steer.base.errors import KeyedError, SteerError
from steer.base.log import LOG
from steer.engine.engine import Engine
from steer.engine.schedule import Pass, Schedule, make_schedule
from steer.engine.store import Values
from steer.engine.values import Hooks, Worlds
from steer.models.greedy import saying_the_same, write_answers
from steer.models.protocol import Batch, Reading
from steer.plan.plan import (
    CLEAN,
    COUNTERPART,
    REFERENCE,
    Edit,
    Greedy,
    Plan,
    Rebuilt,
    Resampled,
    Run,
    Stored,
    Turned,
    Value,
    values_within,
)
from steer.plan.runs import runs_behind

PADDED = "padded"
SHOWN = 6  # sites that a message names
COUNT = ("episodes", "count")  # the recipe's key for the number of examples


@dataclass(frozen=True)
class Inputs:
    """The examples of each world: the recipe's own, the counterpart of each, and others that give means."""

    examples: Sequence[Any]
    counterparts: Sequence[Any] = ()
    reference: Sequence[Any] = ()
    size: int | None = None  # of a batch; None: as many as memory takes
    stored: Mapping[Stored, NDArray[np.float64]] = field(default_factory=dict)  # directions and subspaces


@dataclass(frozen=True)
class RunOnBatch:
    """The output of one run on one batch: what it read, or the tokens that it wrote."""

    batch: Batch
    run: Run
    values: Reading
    written: Tensor | None = None


class Session:
    def __init__(
        self, engine: Engine, plan: Plan, inputs: Inputs, tell: Callable[[float], None] = lambda done: None,
        numbers: Collection[int] | None = None,
    ) -> None:  # fmt: skip
        """`numbers`: of the batches that are run, if not all are. Means are over all."""
        self.engine, self.plan, self.inputs, self.tell = engine, plan, inputs, tell
        self.schedule: Schedule = schedule_of(engine, plan)
        self.all = engine.batches(inputs.examples, inputs.size)
        self.batches = [batch for batch in self.all if numbers is None or batch.number in numbers]
        self._check()
        self._check_features()
        check_reach(engine, self.schedule)
        LOG.debug("%d examples in %d batches, %d runs", len(inputs.examples), len(self.batches), len(plan.runs))
        for one in self.schedule.passes:
            LOG.debug(
                "pass %r: from %s to %s, %d edits", one.run.name, one.start, one.stop or "the end", len(one.edits)
            )
        with torch.no_grad():
            self._clean_pass()

    def _check(self) -> None:
        values = {v for run in self.plan.runs for edit in run.edits for v in values_within(edit.value)}
        means = [v for v in values if getattr(v, "of", None) == CLEAN and getattr(v, "over", None) == "position"]
        if means and len(self.inputs.examples) == 1:
            raise KeyedError([(COUNT, "the mean over one episode is that episode: nothing would be ablated")])
        if any(isinstance(v, Resampled) for v in values) and any(len(batch.rows) < 2 for batch in self.all):
            raise KeyedError([(COUNT, "resample needs at least two episodes in every batch")])

    def _check_features(self) -> None:
        """Stored rows must have as many features as the site they are used at."""
        for edit in (edit for run in self.plan.runs for edit in run.edits):
            for at, value in _placed(edit, self.engine.layout):
                numbers = self.inputs.stored.get(value) if isinstance(value, Stored) else None
                if numbers is None:
                    continue
                size = self.engine.model.size(self.engine.steps.hook(at))[-1]
                if numbers.shape[-1] != size:
                    raise SteerError(f"{value} has {numbers.shape[-1]} features, {at} has {size}")

    def _clean_pass(self) -> None:
        """The clean run of every batch, kept as far as the budget allows; then the means."""
        averaged = self.schedule.of(CLEAN, mean=True)
        for done, batch in enumerate(self.batches):
            self.engine.hooks(batch, {*self.schedule.of(CLEAN), *averaged}, keep=True)
            self._report(done + 1)
        self.engine.means(averaged, self.all)
        others = self.schedule.of(REFERENCE, mean=True)
        if others:
            self.engine.means(others, self._reference)

    def means(self, world: str, hook: str, over: str, length: int) -> Tensor:
        batches = self.all if world == CLEAN else self._reference
        return self.engine.means([hook], batches).table(hook, over, length)

    @cached_property
    def _reference(self) -> list[Batch]:
        return reference_batches(self.engine, self.plan, self.inputs)

    @torch.no_grad()
    def __iter__(self) -> Iterator[RunOnBatch]:
        """Every run with a condition on every batch: forced runs first, then what the model writes itself."""
        forced = [run for run in self.plan.runs if not isinstance(run.decoding, Greedy)]
        greedy = [run for run in self.plan.runs if isinstance(run.decoding, Greedy)]
        for done, batch in enumerate(self.batches):
            worlds = self.worlds(batch)
            for number, run in enumerate(forced):
                values = self.run(run, worlds)
                self._report(len(self.batches) + done * (len(forced) - 1) + number)  # the first is the clean run
                if run.condition is not None:
                    yield RunOnBatch(batch, run, values)
        steps = len(self.batches) * self.plan.forwards
        for run in greedy:
            for batch in self.batches:
                written = self.generate(run, batch)
                self._report(steps := steps + _steps(run))
                yield RunOnBatch(batch, run, Reading(self.engine.model, {}), written)

    @cached_property
    def _forwards(self) -> int:
        """Forward passes of all batches; an answer that is written takes one for each step."""
        return len(self.batches) * (self.plan.forwards + sum(map(_steps, self.plan.runs)))

    def _report(self, forwards: int) -> None:
        self.tell(forwards / self._forwards)

    def run(self, run: Run, worlds: Worlds) -> Reading:
        """One run on a batch, given the runs before it."""
        if run.edits:
            return self.engine.take(self._passes[run], worlds, worlds.runs[CLEAN])
        return Reading(self.engine.model, worlds.runs[run.input], run.reads)  # nothing is edited: its world as it is

    @cached_property
    def _passes(self) -> dict[Run, Pass]:
        return {one.run: one for one in self.schedule.passes}

    def worlds(self, batch: Batch, known: Hooks | None = None) -> Worlds:
        """The runs without edits on a batch, and the means."""
        runs: dict[str, Hooks] = {CLEAN: self.engine.hooks(batch, self.schedule.of(CLEAN), known=known)}
        if any(run.input == COUNTERPART for run in self.plan.runs):
            runs[COUNTERPART] = self._counterpart(batch)
        return Worlds(self.engine.model, batch, runs, self.means, self.inputs.examples, self._stored)

    @cached_property
    def _stored(self) -> dict[Stored, Tensor]:
        like = self.engine.model.like
        return {key: torch.as_tensor(numbers).to(like) for key, numbers in self.inputs.stored.items()}

    def _counterpart(self, batch: Batch) -> Values:
        """The clean run on the counterparts of a batch, with the same tokens in the answer."""
        model = self.engine.model
        twin = model.encode(self.inputs.counterparts, batch.rows, batch.number)
        return self.engine.hooks(saying_the_same(model, twin, batch), self.schedule.of(COUNTERPART))

    @torch.no_grad()
    def generate(self, run: Run, batch: Batch) -> Tensor:
        """Greedy answers with a run's edits on at every step: token ids, padded.

        "Clean" means the clean run on the tokens written so far, so a frozen site follows the model's own answer.
        """
        engine, runs = self.engine, runs_behind(self.plan, run)
        wanted = {*(self.schedule.of(CLEAN) if run.edits else ()), engine.steps.hook(engine.layout.logits)}
        # What is computed over the prompt alone does not see what is written: it is computed once.
        ends = {engine.steps.hook(stream.read_as) for stream in engine.layout.streams[:-1]}
        known = engine.hooks(batch, (wanted & engine.before_answers) | ends)

        def next_logits(now: Batch) -> Tensor:
            clean = engine.hooks(now, wanted, known=known)
            if not run.edits:
                return Reading(engine.model, clean)[engine.layout.logits]
            worlds = self.worlds(now, clean)
            for one in runs:
                values = self.run(one, worlds)
            return values[engine.layout.logits]

        assert isinstance(run.decoding, Greedy)
        return write_answers(engine.model, batch, next_logits, run.decoding.longest)


def schedule_of(engine: Engine, plan: Plan) -> Schedule:
    return make_schedule(plan, engine.layout, engine.steps, engine.order, engine.backend.whole)


def check_reach(engine: Engine, schedule: Schedule) -> None:
    """Raise unless all that a plan edits, reads or takes its values from is to be had where its passes run."""
    rebuilt = {str(e.site) for one in schedule.passes for e in one.edits if isinstance(e.value, Rebuilt | Turned)}
    edited = {edit.site for one in schedule.passes for edit in one.edits}
    sites = edited | {site for run in schedule.plan.runs for site in run.reads}
    needed = {engine.steps.hook(site): str(site) for site in sorted(sites, key=str)}
    needed = {need.hook: needed.get(need.hook, need.hook) for need in schedule.needs} | needed
    missing = sorted(name for hook, name in needed.items() if not engine.backend.reaches(hook))
    written = sorted(str(site) for site in sites if site.port == "out")
    faults = []
    if missing:
        faults.append(f"no module of the model takes in or gives out what a server would need: {_some(missing)}")
    if engine.backend.whole and rebuilt:
        faults.append(f"what a port reads is rebuilt from weights, which are on the server: {_some(sorted(rebuilt))}")
    if engine.backend.whole and written:
        faults.append(f"a head's own write is computed from weights, which are on the server: {_some(written)}")
    if faults:
        raise SteerError(*(f"--remote: {fault}" for fault in faults))


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")


def reference_batches(engine: Engine, plan: Plan, inputs: Inputs) -> list[Batch]:
    """The examples of another set that give means; in their own order, where padding counts."""
    values = {v for run in plan.runs for edit in run.edits for v in values_within(edit.value)}
    return engine.batches(inputs.reference, in_order=any(getattr(v, "over", "") == PADDED for v in values))


def _steps(run: Run) -> int:
    """The most steps of an answer that a run writes itself."""
    return run.decoding.longest if isinstance(run.decoding, Greedy) else 0


def _placed(edit: Edit, layout: Layout) -> Iterator[tuple[Site, Value]]:
    """Every value that an edit is made of, with the site that it is a value of."""
    if isinstance(edit.value, Rebuilt):
        for node, change in edit.value.changes:
            yield from ((layout.write(node), value) for value in values_within(change))
    else:
        yield from ((edit.site, value) for value in values_within(edit.value))
