"""One plan over lists of examples, batch by batch: the only loop that runs plans.

The clean run of every batch comes first: its sums over all batches give the means that ablations need. Then every
batch goes through the plan's runs. What the clean run leaves is kept while it fits into the budget, also for other
plans over the same examples, and computed again when it does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from steer.base.errors import KeyedError
from steer.base.log import LOG
from steer.engine.engine import BATCH, Engine
from steer.engine.schedule import Pass, Schedule, make_schedule
from steer.engine.store import Values
from steer.engine.values import Hooks, Worlds
from steer.models.greedy import saying_the_same, write_answers
from steer.models.protocol import Batch, Reading
from steer.plan.plan import CLEAN, COUNTERPART, REFERENCE, Greedy, Plan, Resampled, Run, runs_behind, values_within

COUNT = ("episodes", "count")  # the key of a recipe that says how many there are


@dataclass(frozen=True)
class Inputs:
    """The examples of each world: the recipe's own, the counterpart of each, and others that give means."""

    examples: Sequence[Any]
    counterparts: Sequence[Any] = ()
    reference: Sequence[Any] = ()
    size: int = BATCH


@dataclass(frozen=True)
class Found:
    """What one run gave on one batch: what it read, or the tokens that it wrote."""

    batch: Batch
    run: Run
    values: Reading
    written: Tensor | None = None


class Session:
    def __init__(
        self, engine: Engine, plan: Plan, inputs: Inputs, tell: Callable[[float], None] = lambda done: None
    ) -> None:
        self.engine, self.plan, self.inputs, self.tell = engine, plan, inputs, tell
        self.schedule: Schedule = make_schedule(plan, engine.layout, engine.steps, engine.order)
        self.batches = engine.batches(inputs.examples, inputs.size)
        self._check()
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
        if any(isinstance(v, Resampled) for v in values) and any(len(batch.rows) < 2 for batch in self.batches):
            raise KeyedError([(COUNT, "resample needs at least two episodes in every batch")])

    def _clean_pass(self) -> None:
        """The clean run of every batch: what is kept of it while it fits into the budget, then the means."""
        averaged = self.schedule.of(CLEAN, mean=True)
        for batch in self.batches:
            self.engine.hooks(batch, {*self.schedule.of(CLEAN), *averaged}, keep=True)
            self._told(batch.number + 1)
        self.engine.means(averaged, self.batches)
        others = self.schedule.of(REFERENCE, mean=True)
        if others:
            self.engine.means(others, self.engine.batches(self.inputs.reference))

    def means(self, world: str, hook: str, over: str) -> Tensor:
        batches = self.batches if world == CLEAN else self.engine.batches(self.inputs.reference)
        return self.engine.means([hook], batches).table(hook, over)

    @torch.no_grad()
    def __iter__(self) -> Iterator[Found]:
        """Every run with a condition on every batch: forced runs first, then what the model writes itself."""
        forced = [run for run in self.plan.runs if not isinstance(run.decoding, Greedy)]
        greedy = [run for run in self.plan.runs if isinstance(run.decoding, Greedy)]
        for done, batch in enumerate(self.batches):
            worlds = self.worlds(batch)
            for number, run in enumerate(forced):
                values = self.run(run, worlds)
                self._told(len(self.batches) + done * (len(forced) - 1) + number)  # the first is the clean run
                if run.condition is not None:
                    yield Found(batch, run, values)
        steps = len(self.batches) * self.plan.forwards
        for run in greedy:
            for batch in self.batches:
                written = self.generate(run, batch)
                self._told(steps := steps + _steps(run))
                yield Found(batch, run, Reading(self.engine.model, {}), written)

    def _told(self, forwards: int) -> None:
        """Forward passes that are done, of all batches; an answer that is written takes one for each step."""
        self.tell(forwards / (len(self.batches) * (self.plan.forwards + sum(map(_steps, self.plan.runs)))))

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
        return Worlds(self.engine.model, batch, runs, self.means)

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


def _steps(run: Run) -> int:
    """The most steps of an answer that a run writes itself."""
    return run.decoding.longest if isinstance(run.decoding, Greedy) else 0
