"""Runs made from others: the links of a chain, a run that writes its own answer, the runs that another one needs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

from steer.anatomy.layout import Layout
from steer.anatomy.nodes import Site
from steer.plan.plan import Edit, Greedy, Of, Plan, Rebuilt, Run, values_within
from steer.results.rows import End


def chain_runs(
    layout: Layout, name: str, first: Edit, chain: Sequence[Site], others: Rebuilt, reads: Iterable[Site],
    freeze: Sequence[Edit] = (), end: End = "",
) -> list[Run]:  # fmt: skip
    """The runs of one chain: each but the last records what its node writes, the next one passes that on.

    `others`: what the later ports of the chain are rebuilt from, but for the node before.
    """
    runs: list[Run] = []
    edit = first
    for port, after in pairwise(chain):
        runs.append(Run(f"{name} -> {port}", (*freeze, edit), (layout.write(port.node),)))
        edit = Edit(after, replace(others, changes=((port.node, Of(runs[-1].name)),)))
    return [*runs, Run(f"{name} -> {chain[-1]}", (*freeze, edit), tuple(reads), name, end=end)]


def written_greedily(run: Run, logits: Site, longest: int) -> Run:
    """The same condition with the model's own tokens fed back."""
    return replace(run, name=f"{run.name}, greedy", reads=(logits,), decoding=Greedy(longest))


def runs_behind(plan: Plan, run: Run) -> list[Run]:
    """The earlier runs whose values a run uses, in order, and then the run itself."""
    by_name = {one.name: one for one in plan.runs if one.is_record}
    wanted, runs = [run], []  # type: tuple[list[Run], list[Run]]
    while wanted:
        one = wanted.pop()
        runs.insert(0, one)
        named = [v.run for edit in one.edits for v in values_within(edit.value) if isinstance(v, Of)]
        wanted += [by_name[name] for name in named if name in by_name]
    return runs
