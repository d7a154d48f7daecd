"""A recipe on a checkpoint, ready to run: as a whole, or in parts whose sums are merged.

recipe -> plan (`recipe/lower`) -> runs (`engine/session`) -> sums (`measures/collect`)

A plan that needs means has two stages: the sums behind its means are merged over all shards before a part begins.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias, TypeVar

import torch
from torch import Tensor

from steer.anatomy.nodes import parse_site
from steer.engine.ablation import Means
from steer.engine.engine import Engine
from steer.engine.schedule import Schedule
from steer.engine.session import Inputs, Session, reference_batches, schedule_of
from steer.experiments.activations import axes_of, axis_names, in_order
from steer.experiments.examples import Shown, examples_of
from steer.experiments.places import Spread, check_apart, cut_warning, place_warnings
from steer.experiments.stored import check_used, strangers
from steer.experiments.subspaces import Fitting, Pairs, learn, shuffled, training_pairs
from steer.measures.arrived import Change
from steer.measures.collect import Collectors
from steer.measures.measure import Gathered
from steer.measures.setting import Setting
from steer.models.protocol import Batch
from steer.models.subject import Subject
from steer.plan.cut import ENOUGH, Cut, Part, Shard, cut, groups_of
from steer.plan.plan import CLEAN, REFERENCE, Plan, Stored
from steer.recipe.load import Loaded
from steer.recipe.lowering import Lowered
from steer.recipe.schema import Recipe
from steer.results.directions import Floats
from steer.results.labelled import Axes
from steer.results.rows import JOINT

CPU = torch.device("cpu")
Tell = Callable[[float], None]
Paired = TypeVar("Paired", Inputs, Pairs)
Saved: TypeAlias = dict[tuple[str, int], tuple[list[int], Tensor]]  # (condition/site, batch) -> rows and values
Averages: TypeAlias = tuple[Means, Means]  # over the experiment's own examples, and over its reference


@dataclass(frozen=True)
class Gathering:
    """What some runs on some batches gave."""

    measures: list[Gathered]
    arrived: dict[Change, float]
    tensors: Saved


class Experiment:
    """A recipe on a checkpoint, ready to run: as a whole, or in parts whose sums are merged."""

    def __init__(
        self, loaded: Loaded, subject: Subject, engine: Engine | None = None, mixed: bool = False
    ) -> None:  # fmt: skip
        """`mixed`: each example has the counterpart of another one."""
        self.loaded, self.engine, self.mixed = loaded, engine or Engine(subject.model), mixed
        self.learnt: dict[Stored, Floats] = {}  # the subspaces that the plan's runs name and no file holds
        with loaded.placing():  # faults that only show in the data are reported at their place in the file, too
            self._prepare(subject)

    def _prepare(self, subject: Subject) -> None:
        recipe, layout = self.loaded.recipe, self.engine.layout
        self.subject = subject = subject.about(recipe.task) if recipe.task.source else subject
        drafted = self.loaded.lower(subject.names)  # faulty names are reported before any example is read
        check_used(drafted.used, self.engine, subject.weights)
        shown = examples_of(recipe, subject, drafted.plan)
        examples, spread = shown.inputs.examples, Spread(shown.inputs.examples, layout)
        lowered = self.loaded.lower(subject.names, spread.shortest) if recipe.counts_places else drafted
        self.lowered = lowered
        self.inputs = self._mixed(replace(shown.inputs, stored=lowered.stored))
        check_apart(lowered.plan, examples, layout)
        self.engine.batch_size(examples)  # what no memory holds is not tried
        subject.examine(examples)
        setting = Setting(
            subject, examples, recipe.measures, recipe.seed, shown.predicted,
            place_warnings(lowered.plan, spread.longest, layout),
            _warning(recipe, drafted, shown, spread, subject), recipe.own_condition,
        )  # fmt: skip
        self.collectors = Collectors(setting, lowered.numbers, lowered.clean, lowered.unmoved, lowered.plan.marks)
        self.sites = list(dict.fromkeys(site for name in recipe.tensors for site in subject.names.sites(name)))
        self.tensors: Saved = {}

    # As a whole.

    def run_whole(self, tell: Tell = lambda done: None) -> None:
        with self.loaded.placing():
            if self.lowered.searches:
                self._learn(share_of(tell, 0, 2))
                tell = share_of(tell, 1, 2)
            self._run(Session(self.engine, self.lowered.plan, self.inputs, tell))

    def _learn(self, tell: Tell) -> None:
        recipe = self.loaded.recipe
        if recipe.learning is None:
            return
        pairs = self._mixed(training_pairs(self.subject, recipe.learning, self.inputs))
        fitting = Fitting(recipe.learning.epochs, recipe.learning.rate, seed=recipe.seed, places=recipe.places)
        self.learnt = learn(self.engine, pairs, self.lowered.searches, fitting, tell)
        self.inputs = replace(self.inputs, stored={**self.lowered.stored, **self.learnt})

    def _mixed(self, pairs: Paired) -> Paired:
        if not self.mixed:
            return pairs
        others = shuffled(pairs.examples, pairs.counterparts, self.loaded.recipe.seed)
        return replace(pairs, counterparts=others)

    def _run(self, session: Session) -> None:
        for ran in session:
            condition, batch = ran.run.condition or "", ran.batch
            if ran.written is not None:
                self.collectors.add_written(batch, condition, ran.written)
                continue
            self.collectors.add(batch, condition, ran.values)
            for site in self.sites:
                self.tensors[f"{condition}/{site}", batch.number] = batch.rows, ran.values[site].cpu()

    # In parts.

    @cached_property
    def groups(self) -> list[Plan]:
        return groups_of(self.lowered.plan)

    @cached_property
    def schedule(self) -> Schedule:
        return schedule_of(self.engine, self.lowered.plan)

    @property
    def batches(self) -> list[Batch]:
        return self.engine.batches(self.inputs.examples, self.inputs.size)

    @property
    def reference(self) -> list[Batch]:
        """That other means are over; none where the plan needs none."""
        wanted = self.schedule.of(REFERENCE, mean=True)
        return reference_batches(self.engine, self.lowered.plan, self.inputs) if wanted else []

    def cut(self) -> Cut:
        averages = any(need.mean for need in self.schedule.needs)
        whole = not self.collectors.mergeable
        groups = self.groups if not whole else [self.lowered.plan]
        return cut(groups, len(self.batches), len(self.reference), averages, sys.maxsize if whole else ENOUGH)

    @torch.no_grad()
    def average(self, own: Shard, others: Shard) -> Averages:
        """The sums behind the plan's means, over a shard of its own batches and one of its reference."""
        worlds = ((CLEAN, self.batches, own), (REFERENCE, self.reference, others))
        means = tuple(
            self.engine.means(self.schedule.of(world, mean=True), [batches[n] for n in shard]) if shard else Means()
            for world, batches, shard in worlds
        )
        return means[0].to(CPU), means[1].to(CPU)

    def gather(self, part: Part, averages: Averages | None = None) -> Gathering:
        """Run a part and hand out what it gave. `averages`: merged over all shards, where the plan needs means."""
        self.take()  # of a part that failed midway
        if averages is not None:
            self.engine.adopt(self.batches, averages[0])
            self.engine.adopt(self.reference, averages[1])
        with self.loaded.placing():
            self._run(Session(self.engine, self.groups[part.group], self.inputs, numbers=part.shard))
        return self.take()

    def take(self) -> Gathering:
        tensors, self.tensors = self.tensors, {}
        return Gathering(*self.collectors.take(), tensors)

    def merge(self, gatherings: Iterable[Gathering]) -> None:
        """In the order of the parts, each once."""
        self.take()
        for one in gatherings:
            self.collectors.merge(one.measures, one.arrived)
            self.tensors |= one.tensors

    # When all runs are done.

    def whole_tensors(self) -> tuple[dict[str, Tensor], Axes | None]:
        if not self.tensors:
            return {}, None
        saved: dict[str, list[tuple[list[int], Tensor]]] = {}
        for (name, _), part in self.tensors.items():
            saved.setdefault(name, []).append(part)
        layout = self.engine.layout
        along = {
            name: axis_names(layout, parse_site(name.rpartition("/")[2]), parts[0][1].ndim)
            for name, parts in saved.items()
        }
        axes = axes_of(self.subject, self.inputs.examples, self.batches, along)
        return {name: in_order(parts, axes, name) for name, parts in saved.items()}, axes


def share_of(tell: Tell, number: int, count: int) -> Tell:
    """Progress of one of several steps."""
    return lambda done: tell((number + done) / count)


def merged(averages: Iterable[Averages]) -> Averages:
    """The sums of all shards."""
    whole = Means(), Means()
    for pair in averages:
        for mine, theirs in zip(whole, pair, strict=True):
            mine.merge(theirs)
    return whole


def _warning(recipe: Recipe, drafted: Lowered, shown: Shown, spread: Spread, subject: Subject) -> str:
    """What must be said about every number of an experiment."""
    spans = [
        name for name in (*recipe.places, *(measure.looked_at for measure in recipe.measures)) if isinstance(name, str)
    ]
    cut = cut_warning(spans, recipe.task, shown.inputs.examples)
    foreign = strangers(drafted.used, subject.weights)
    return JOINT.join(filter(None, (shown.warning, spread.warning(drafted.plan), cut, foreign, recipe.caution)))
