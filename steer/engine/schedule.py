"""From a plan to passes: where each run starts and stops, and which values of other worlds it needs.

A pass starts at the first site that it edits or reads, from the clean run's values there, and stops after the last one
that it reads. Edits after that cannot change what is read, and are left out. No torch here: `steer plan`
prints it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from steer.anatomy.layout import Layout, touched
from steer.anatomy.nodes import Site
from steer.models.steps import Steps
from steer.plan.plan import (
    CLEAN,
    Current,
    Edit,
    Mean,
    Of,
    Plan,
    Rebuilt,
    Resampled,
    Run,
    Turned,
    Value,
    parts_of,
)  # fmt: skip


@dataclass(frozen=True)
class Pass:
    """A run as the engine takes it: from one step up to, not including, another."""

    run: Run
    edits: tuple[Edit, ...]  # those that can change what is read; `Current` is clean where nothing reaches it
    start: str
    stop: str | None
    given: tuple[tuple[str, str], ...]  # field of the state -> hook of the clean run


@dataclass(frozen=True)
class Need:
    """A hook's value in a world or, with `mean`, its mean over the world's examples."""

    world: str
    hook: str
    mean: bool = False


@dataclass(frozen=True)
class Schedule:
    layout: Layout
    steps: Steps
    plan: Plan
    passes: tuple[Pass, ...]  # of every run with edits
    hooks: tuple[str, ...]  # every hook of the model, in the order in which a forward pass meets them

    @cached_property
    def needs(self) -> frozenset[Need]:
        """Everything that passes use from runs without edits, and everything that is read in those runs."""
        records = {one.run.name for one in self.passes if one.run.is_record}
        needs = {need for one in self.passes for need in _needs(one, self) if need.world not in records}
        read = {Need(run.input, self.steps.hook(s)) for run in self.plan.runs if not run.edits for s in run.reads}
        return frozenset(needs | read)

    def of(self, world: str, mean: bool = False) -> list[str]:
        """The hooks that are needed of a world (or of its means), in order."""
        return self._by_world.get((world, mean), [])

    @cached_property
    def _by_world(self) -> dict[tuple[str, bool], list[str]]:
        sites: dict[tuple[str, bool], list[str]] = {}
        place = {hook: number for number, hook in enumerate(self.hooks)}
        for need in sorted(self.needs, key=lambda need: place[need.hook]):
            sites.setdefault((need.world, need.mean), []).append(need.hook)
        return sites

    def stop_after(self, hooks: Iterable[str]) -> str | None:
        return stop_after(self.layout, self.steps, hooks)


def make_schedule(
    plan: Plan, layout: Layout, steps: Steps, hooks: tuple[str, ...] = (), whole: bool = False
) -> Schedule:
    """`hooks`: the order of all hooks, where it is known already. `whole`: every pass starts at the first step."""
    passes = tuple(_pass(run, layout, steps) for run in plan.runs if run.edits)
    if whole:
        passes = tuple(replace(one, start=steps.names[0], stop=None, given=()) for one in passes)
    return Schedule(layout, steps, plan, passes, hooks or hook_order(layout, steps))


def hook_order(layout: Layout, steps: Steps) -> tuple[str, ...]:
    ordered = sorted((site for site in layout.sites if site.port != "out"), key=steps.order)
    return tuple(dict.fromkeys(map(steps.hook, ordered)))


def stop_after(layout: Layout, steps: Steps, hooks: Iterable[str]) -> str | None:
    """The step before which a pass that must meet these hooks may stop; None: it must run to the end."""
    step_of = {steps.hook(site): steps.step(site) for site in layout.sites}
    return _step(steps, max((steps.names.index(step_of[hook]) for hook in hooks), default=0) + 1)


def _step(steps: Steps, number: int) -> str | None:
    return steps.names[number] if number < len(steps.names) else None


def _pass(run: Run, layout: Layout, steps: Steps) -> Pass:
    last = max(map(steps.order, run.reads))
    seen = tuple(edit for edit in run.edits if steps.order(edit.site) <= last)
    edits = tuple(_settled(edit, seen, layout) for edit in seen)
    start = min(steps.names.index(steps.step(site)) for site in (*run.reads, *(edit.site for edit in edits)))
    end = max(steps.names.index(steps.step(site)) for site in run.reads) + 1
    begin, stop = steps.names[start], _step(steps, end)
    return Pass(run, edits, begin, stop, tuple(steps.given(begin, stop).items()))


def _settled(edit: Edit, edits: tuple[Edit, ...], layout: Layout) -> Edit:
    """The edit on the clean run's stream, if no other edit reaches the stream: the pass can then start midway."""
    value = edit.value
    moved = touched(layout, [e.site for e in edits if not e.holds], [e.site for e in edits if e.holds])
    if isinstance(value, Turned) and before_rotation(edit.site) not in moved:
        return replace(edit, value=replace(value, value=Of(CLEAN)))
    if isinstance(value, Rebuilt) and value.rest == Current() and layout.stream(edit.site) not in moved:
        return replace(edit, value=replace(value, rest=Of(CLEAN)))
    return edit


def _needs(one: Pass, schedule: Schedule) -> Iterator[Need]:
    yield from (Need(CLEAN, hook) for _, hook in one.given)
    for edit in one.edits:
        yield from value_needs(edit.value, edit.site, schedule.layout, schedule.steps)


def value_needs(value: Value, site: Site, layout: Layout, steps: Steps) -> Iterator[Need]:
    """What a value at a site is made from."""
    match value:
        case Of(world):
            yield Need(world, steps.hook(site))
        case Mean(_, world):
            yield Need(world, steps.hook(site), mean=True)
        case Resampled():
            yield Need(CLEAN, steps.hook(site))
        case Turned(inner, _):
            yield from value_needs(inner, before_rotation(site), layout, steps)
        case Rebuilt(rest, changes, recomputed):
            if recomputed:
                yield from _source_needs(rest, site, layout, steps)
            else:
                yield from _rest_needs(rest, site, layout, steps)
            for node, change in changes:
                if change != rest:
                    yield from value_needs(change, layout.write(node), layout, steps)
                    if layout.is_sum(site):  # a change is a difference: the source is needed as it was, too
                        yield from value_needs(base(rest), layout.write(node), layout, steps)
        case _:
            for part in parts_of(value):
                yield from value_needs(part, site, layout, steps)


def _rest_needs(rest: Value, site: Site, layout: Layout, steps: Steps) -> Iterator[Need]:
    if isinstance(rest, Of) and layout.is_sum(site):
        yield Need(rest.run, steps.hook(layout.stream(site)))
    elif not (isinstance(rest, Current) and layout.is_sum(site)):
        yield from _source_needs(rest, site, layout, steps)


def _source_needs(rest: Value, site: Site, layout: Layout, steps: Steps) -> Iterator[Need]:
    for node in layout.sources(site):
        yield from value_needs(base(rest), layout.write(node), layout, steps)


def built_on(edit: Edit, layout: Layout) -> tuple[Site, ...]:
    """What an edit must have met in its own pass: the stream that it changes and what its changed sources wrote there,
    or what every source of it wrote."""
    if isinstance(edit.value, Turned) and edit.value.value == Current():
        return (before_rotation(edit.site),)
    if not (isinstance(edit.value, Rebuilt) and edit.value.rest == Current()):
        return ()
    if layout.is_sum(edit.site):
        return (layout.stream(edit.site), *(layout.write(node) for node, _ in edit.value.changes))
    return tuple(layout.write(node) for node in layout.sources(edit.site))


def before_rotation(port: Site) -> Site:
    return Site(port.node, f"{port.port}-pre")


def base(rest: Value) -> Value:
    """What a changed source is in the stream that it is changed in; clean, where the pass itself has not been."""
    return Of(CLEAN) if isinstance(rest, Current) else rest
