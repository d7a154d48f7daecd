"""The plan: an experiment as runs of the model, pure data between recipe and engine.

A value comes from a *world*: a run with a name. The clean run, the run on a counterpart and an earlier link of a chain
are one thing, `Of(run)`; what stands in for an ablated value is a statistic of a world. An `Edit` puts a value at a
site, a `Run` is one forward pass with its edits and reads, and a `Stage` ends where the sums over all examples must be
known before the next begins. Where a pass starts and stops, and what is kept of it, is the engine's to decide.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from steer.anatomy.nodes import Node, Site
from steer.results.rows import End, Level, Mark

# Worlds that every plan may draw on: the examples as they are, their counterparts, other examples that give a mean.
CLEAN, COUNTERPART, REFERENCE = "clean", "counterpart", "reference"


@dataclass(frozen=True)
class Current:
    """What this pass has here now, after the edits before this one."""

    def __str__(self) -> str:
        return "as it is here"


@dataclass(frozen=True)
class Of:
    """The value at the same place in another run."""

    run: str = CLEAN

    def __str__(self) -> str:
        named = {CLEAN: "clean", COUNTERPART: "of the counterpart"}
        return named.get(self.run, f"from run {self.run!r}")


@dataclass(frozen=True)
class Mean:
    """The mean over the examples of a world, at each position, over all tokens, or over those and padding."""

    over: Literal["position", "token", "padded"] = "position"
    of: str = CLEAN

    def __str__(self) -> str:
        return f"mean by {self.over}" + ("" if self.of == CLEAN else f" over the {self.of}")


@dataclass(frozen=True)
class Zero:
    def __str__(self) -> str:
        return "zero"


@dataclass(frozen=True)
class Resampled:
    """The value of another example of the same batch."""

    seed: int = 0

    def __str__(self) -> str:
        return "of another example"


@dataclass(frozen=True)
class Exchanged:
    """A value with two places of the prompt exchanged (from 1, or by name: spans of as many places, one by one)."""

    value: Value
    places: tuple[Spot, Spot]
    keys: bool = False  # between tokens: as they are looked at; else as they look

    def __str__(self) -> str:
        return f"{self.value}, places {self.places[0]} and {self.places[1]} exchanged" + " as keys" * self.keys


@dataclass(frozen=True)
class Turned:
    """A rotated query or key, had two places of the prompt each other's position.

    `value` is what it is before rotation.
    """

    value: Value
    places: tuple[Spot, Spot]

    def __str__(self) -> str:
        return f"{self.value}, rotated with places {self.places[0]} and {self.places[1]} exchanged"


@dataclass(frozen=True)
class Rebuilt:
    """What a head's port would read if some of its direct sources were different.

    The stream that the port reads is the sum of its sources' writes, all of them from `rest` but for `changes`, pushed
    through the real norm and projection, for this head's port alone. For an MLP: what it would make of that stream.
    `recomputed`: an MLP among the sources that is not changed itself writes what it makes of the changed stream.
    """

    rest: Value
    changes: tuple[tuple[Node, Value], ...] = ()
    recomputed: bool = False

    def __str__(self) -> str:
        but = "".join(f", but {node} {value}" for node, value in self.changes)
        return f"rebuilt, sources {self.rest}{but}" + ", MLPs recomputed" * self.recomputed


@dataclass(frozen=True)
class Stored:
    """Numbers that a plan is given beside itself: a direction (its features), or a subspace (orthonormal rows)."""

    name: str  # what people call it: a file's name, "random 1"
    sha256: str  # of the numbers

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Scaled:
    value: Value
    by: float

    def __str__(self) -> str:
        return f"{self.by:g} x {self.value}"


@dataclass(frozen=True)
class Sum:
    terms: tuple[Value, ...]

    def __str__(self) -> str:
        return " + ".join(map(str, self.terms))


@dataclass(frozen=True)
class Within:
    """One value inside a subspace, another one outside it."""

    subspace: Stored
    inside: Value
    outside: Value

    def __str__(self) -> str:
        return f"{self.inside} within {self.subspace}, {self.outside} outside it"


Ablated: TypeAlias = Mean | Zero | Resampled | Of  # what may stand in for a value that is ablated
Value: TypeAlias = (
    Current | Of | Mean | Zero | Resampled | Exchanged | Turned | Stored | Scaled | Sum | Within | Rebuilt
)  # fmt: skip
EACH = "each"  # in a draft of a plan, before examples are known: every place on its own
Spot: TypeAlias = int | str  # a place of the sequence, from 1, or a name for places of the prompt: `last`, a span


@dataclass(frozen=True)
class Edit:
    """Put a value at a site, at all places of its sequence or at some."""

    site: Site
    value: Value
    places: tuple[Spot, ...] = ()

    def __str__(self) -> str:
        at = f" at {', '.join(map(str, self.places))}" if self.places else ""
        return f"{self.site}{at} := {self.value}"

    @property
    def holds(self) -> bool:
        """Does the edit freeze its whole site at the clean value? (At some places alone, the others pass on.)"""
        return self.value == Of(CLEAN) and not self.places


@dataclass(frozen=True)
class Forced:
    """The right tokens are fed to the model, whatever it says."""


@dataclass(frozen=True)
class Greedy:
    """The model's own tokens are fed back, `longest` at most. The edits are made at every step."""

    longest: int


@dataclass(frozen=True)
class Run:
    """One forward pass. `condition` labels what its measures give; without one it only serves later runs."""

    name: str
    edits: tuple[Edit, ...] = ()
    reads: tuple[Site, ...] = ()
    condition: str | None = None
    decoding: Forced | Greedy = Forced()
    input: str = CLEAN  # the world whose tokens go in
    end: End = ""  # of the scale that the conditions lie on, if this one is an end of it
    site: str = ""  # where it is patched, in experiments that go from site to site …
    place: str = ""  # … and from place to place
    levels: tuple[Level, ...] = ()  # what varies between conditions: a scale, a number of dimensions

    @property
    def is_record(self) -> bool:
        """Can `Of` refer to it? Not to runs with a condition: users choose their names, perhaps that of a world."""
        return self.condition is None and bool(self.edits)


@dataclass(frozen=True)
class Stage:
    """Runs that use at most one another's values. When it ends, sums over all examples are known."""

    runs: tuple[Run, ...]


@dataclass(frozen=True)
class Plan:
    stages: tuple[Stage, ...]

    @property
    def runs(self) -> tuple[Run, ...]:
        return tuple(run for stage in self.stages for run in stage.runs)

    @property
    def conditions(self) -> list[str]:
        return list(dict.fromkeys(run.condition for run in self.runs if run.condition is not None))

    @property
    def marks(self) -> dict[str, Mark]:
        """What the rows of each condition say about it beside its name."""
        named = [run for run in self.runs if run.condition is not None]
        return {run.condition or "": Mark(run.end, run.site, run.place, run.levels) for run in named}

    @property
    def forwards(self) -> int:
        """Forward passes for each batch of examples, without those of greedy decoding."""
        return sum(isinstance(run.decoding, Forced) for run in self.runs)


def make_plan(clean: Run, runs: Iterable[Run]) -> Plan:
    """A clean run, whose sums the others may need, and the others."""
    others = tuple(runs)
    worlds = {v.run for run in others for edit in run.edits for v in values_within(edit.value) if isinstance(v, Of)}
    twin = (Run(COUNTERPART, input=COUNTERPART),) if COUNTERPART in worlds else ()
    return Plan((Stage((clean, *twin)), Stage(others))) if others else Plan((Stage((clean,)),))


def clean_plan(reads: Iterable[Site]) -> Plan:
    """The clean run alone, with what is read there."""
    return Plan((Stage((Run(CLEAN, (), tuple(reads), CLEAN),)),))


def values_within(value: Value) -> Iterator[Value]:
    """A value, and every value that it contains."""
    yield value
    for part in parts_of(value):
        yield from values_within(part)


def parts_of(value: Value) -> tuple[Value, ...]:
    """The values that a value is made of at its own site; for a rebuilt port, at its sources."""
    match value:
        case Exchanged(inner) | Turned(inner, _) | Scaled(inner, _):
            return (inner,)
        case Sum(terms):
            return terms
        case Within(subspace, inside, outside):
            return (subspace, inside, outside)
        case Rebuilt(rest, changes):
            return (rest, *(change for _, change in changes))
        case _:
            return ()


def starts_anew(value: Value) -> bool:
    """Does nothing of what stood at the site enter the value? (What a port reads is rebuilt from its stream.)"""
    match value:
        case Current():
            return False
        case Exchanged(inner) | Scaled(inner, _):
            return starts_anew(inner)
        case Sum(terms):
            return all(map(starts_anew, terms))
        case Within(_, inside, outside):
            return starts_anew(inside) and starts_anew(outside)
        case _:
            return True
