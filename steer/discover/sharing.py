"""A search on the workers of a cluster: whole searches of several checkpoints, or the runs of one.

The steps of a search follow from one another, but the runs of a step do not: every worker has the same examples and
takes a few of the runs. What comes back are sums for each example, which are put together as if one process had them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from steer.base.errors import SteerError
from steer.base.log import LOG
from steer.discover.lab import Lab, Measure
from steer.discover.sought import Sought, on_own_task, on_prompts
from steer.engine.engine import Engine
from steer.experiments.cluster import Cluster, Failure, Finished
from steer.experiments.orders import check_there, stamps, unpacked
from steer.experiments.spread import run_orders
from steer.experiments.work import Begun, Parcel, Work
from steer.models.checkpoint import load_checkpoint
from steer.models.devices import check_device
from steer.plan.cut import groups_of
from steer.plan.plan import Plan
from steer.results.evidence import SearchSettings
from steer.results.tally import Tally
from steer.tasks.task import Example

FEW = 6  # runs of a step that are worth a part of their own


@dataclass(frozen=True, kw_only=True)
class Search(Work):
    """A whole search, as it travels. `name`: the checkpoint, as it was given; `task`: a file of prompts, or nothing."""

    settings: SearchSettings
    task: str = ""

    @property
    def checkpoint(self) -> str:
        return self.name

    def begin(self, parcel: Parcel | None) -> Begun:
        sought, engine, _ = prepared(self, parcel)
        return Begun("", sought.subject.weights.identity, made=sought.circuit(self.settings, engine=engine))


@dataclass(frozen=True, kw_only=True)
class Step(Work):
    """Some runs of a step of one search, on its lab's examples."""

    search: Search
    episodes: tuple[Example, ...]
    counterparts: tuple[Example, ...]
    seed: int
    weights: str
    plan: Plan
    measure: Measure
    positions: int | None

    @property
    def checkpoint(self) -> str:
        return self.search.checkpoint

    def begin(self, parcel: Parcel | None) -> Begun:
        sought, engine, labs = prepared(self.search, parcel)
        if sought.subject.weights.identity != self.weights:
            raise SteerError(f"{self.checkpoint}: a worker has other weights")
        key = self.episodes, self.counterparts, self.seed
        if key not in labs:
            labs[key] = Lab(sought.subject, self.episodes, self.seed, engine, self.counterparts)
        return Begun("", self.weights, made=labs[key].tallies(self.plan, self.measure, self.positions))


# On a worker.

Labs = dict[tuple[tuple[Example, ...], tuple[Example, ...], int], Lab]
PREPARED: OrderedDict[object, tuple[Sought, Engine, Labs]] = OrderedDict()  # the latest search's


def prepared(search: Search, parcel: Parcel | None) -> tuple[Sought, Engine, Labs]:
    """A search's model, loaded once; until its files change, or another's is wanted."""
    check_there(search if parcel is None else replace(search, in_folder=False))
    key = (repr(search), *stamps(search.model_folder))
    if key not in PREPARED:
        PREPARED.clear()
        name = search.checkpoint if parcel is None else unpacked(search, parcel)
        sought = _sought(replace(search, name=name))
        PREPARED[key] = sought, sought.engine(), {}
    return PREPARED[key]


def _sought(search: Search) -> Sought:
    if search.task:
        return on_prompts(search.name, Path(search.task), search.device, search.dtype, search.memory)
    check_device(search.device)
    return on_own_task(load_checkpoint(search.name, search.device, circuit=False))


# Where the command runs.


def search_of(name: str, settings: SearchSettings, task: Path | None, device: str, dtype: str, memory: int) -> Search:
    file = str(task or "")
    search = Search(name=name, settings=settings, task=file, device=device, dtype=dtype, memory=memory)
    return replace(search, in_folder=search.model_folder is not None)


@dataclass(frozen=True)
class Shared:
    """The workers of a cluster as the helpers of one search."""

    cluster: Cluster
    search: Search

    def measure(self, lab: Lab, plan: Plan, measure: Measure, positions: int | None) -> dict[str, Tally]:
        groups = groups_of(plan, FEW)
        if len(groups) == 1:  # by the time that it is sent, it is done
            return lab.tallies(plan, measure, positions)
        steps = {number: self._step(lab, group, measure, positions) for number, group in enumerate(groups)}
        tallies: dict[int, dict[str, Tally]] = {}
        for number, came in run_orders(steps, self.cluster, lambda done, name: None):
            tallies[number] = made_by(came)
        return {condition: tally for number in sorted(tallies) for condition, tally in tallies[number].items()}

    def _step(self, lab: Lab, plan: Plan, measure: Measure, positions: int | None) -> Step:
        examples: Sequence[Example] = lab.inputs.examples
        search = self.search
        return Step(
            name=search.name, device=search.device, dtype=search.dtype, memory=search.memory, home=search.home,
            in_folder=search.in_folder, search=search, episodes=tuple(examples),
            counterparts=tuple(lab.inputs.counterparts), seed=lab.seed, weights=lab.checkpoint.weights.identity,
            plan=plan, measure=measure, positions=positions,
        )  # fmt: skip


def made_by(came: Finished) -> Any:
    if isinstance(came, Failure):
        LOG.debug("%s", came.traceback)
        raise SteerError(*came.faults)
    return came.made
