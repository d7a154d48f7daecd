"""A plan cut into smaller ones, and its examples into shards: what may be run apart, and merged.

A part is a group of runs on a shard of the batches. How an experiment is cut follows from its plan and its examples
alone, never from who runs it: the parts are the same on one worker and on a hundred.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from steer.plan.plan import Greedy, Plan, Run, Stage
from steer.plan.runs import runs_behind

ENOUGH = 24  # forward passes of a batch that are worth a part of their own
Shard = tuple[int, ...]  # numbers of batches


@dataclass(frozen=True)
class Part:
    group: int  # number of the smaller plan
    shard: Shard


@dataclass(frozen=True)
class Cut:
    """`first`: shards of the experiment's own batches, and of those of its reference, whose means must be known before
    any part begins; none, where the plan needs no means."""

    parts: tuple[Part, ...]
    first: tuple[tuple[Shard, Shard], ...] = ()


def groups_of(plan: Plan, enough: int = ENOUGH) -> list[Plan]:
    """Plans of fewer conditions each, which together have them all, in their order. Each has the clean run."""
    first, others = plan.stages[0], [run for stage in plan.stages[1:] for run in stage.runs]
    measured = [run for run in others if run.condition is not None]
    if not measured:
        return [plan]
    groups: list[Plan] = []
    for some in _packed(measured, enough):
        wanted = {one for run in some for one in runs_behind(plan, run)}
        groups.append(Plan((first, Stage(tuple(run for run in others if run in wanted)))))
    return groups


def _packed(runs: Sequence[Run], enough: int) -> Iterator[list[Run]]:
    """Runs in turn, until there is enough work for a group."""
    some: list[Run] = []
    for run in runs:
        some.append(run)
        if sum(map(forwards, some)) >= enough:
            yield some
            some = []
    if some:
        yield some


def forwards(run: Run) -> int:
    """Forward passes of each batch; an answer that is written takes one for each step."""
    return run.decoding.longest if isinstance(run.decoding, Greedy) else 1


def cut(groups: Sequence[Plan], batches: int, reference: int, averages: bool, enough: int = ENOUGH) -> Cut:
    """`batches`, `reference`: how many there are. `averages`: the plan needs means over all of them."""
    heaviest = max(sum(map(forwards, group.runs)) for group in groups)
    own = shards_of(batches, max(1, enough // heaviest))
    if len(own) * len(groups) == 1:
        return Cut((Part(0, own[0]),))  # it needs no help with its means
    parts = tuple(Part(number, shard) for shard in own for number in range(len(groups)))
    if not averages:
        return Cut(parts)
    count = max(batches, reference)  # a batch each: merged in order, sums are those of one process to the last bit
    pairs = zip(_filled(shards_of(batches, 1), count), _filled(shards_of(reference, 1), count), strict=True)
    return Cut(parts, tuple(pairs))


def shards_of(batches: int, size: int) -> list[Shard]:
    return [tuple(range(start, min(start + size, batches))) for start in range(0, batches, size)]


def _filled(shards: Sequence[Shard], count: int) -> list[Shard]:
    return [*shards, *[()] * (count - len(shards))]
