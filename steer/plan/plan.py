"""The plan: an experiment as runs of the model, pure data between recipe and engine.

A `Run` is one forward pass: it starts at a step (from what the clean run left there), makes its edits, reads its
sites and stops. A value that an edit puts in place has an `Origin`: the clean run, the ablation reference, an earlier
run, or the position embeddings with two tokens exchanged. A `Plan` is the clean run's reads and the runs in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, TypeAlias

from steer.anatomy.names import Node, Shape, Site

# The conditions at the ends of a sweep's scale; the second is a chain's own, nothing changed before its first link.
NOTHING, UNCHANGED, EVERYTHING = "nothing ablated", "nothing ablated before the chain", "everything ablated"
ENDS = (NOTHING, UNCHANGED, EVERYTHING)


@dataclass(frozen=True)
class Clean:
    """The value of the clean run."""

    def __str__(self) -> str:
        return "clean"


@dataclass(frozen=True)
class Ablated:
    """The ablation value (mean, zero or resample, as the recipe says)."""

    def __str__(self) -> str:
        return "ablated"


@dataclass(frozen=True)
class Recorded:
    """What an earlier run of the plan read at the same place."""

    run: str

    def __str__(self) -> str:
        return f"from run {self.run!r}"


@dataclass(frozen=True)
class Swapped:
    """Position embeddings with two tokens of the question exchanged (counted from 1)."""

    first: int
    second: int

    def __str__(self) -> str:
        return f"positions {self.first} and {self.second} exchanged"


@dataclass(frozen=True)
class Counterpart:
    """The value of the clean run on the counterpart: a prompt that differs in one variable of Algorithm 1."""

    def __str__(self) -> str:
        return "of the counterpart"


Origin: TypeAlias = Clean | Ablated | Recorded | Swapped | Counterpart


@dataclass(frozen=True)
class Put:
    """Replace a site's value, at all places of the sequence or at some (counted from 1)."""

    site: Site
    value: Origin
    places: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"{self.site}{_at(self.places)} := {self.value}"


@dataclass(frozen=True)
class Rebuild:
    """Replace a head's port by what it would read if some of its direct sources were different.

    The stream that the port reads is summed anew from its sources, all of them at `base` but for `changes`, pushed
    through the real LayerNorm and projection, and put into this head's port alone. For an MLP, what it writes is
    replaced by what it would make of that stream. The base `current` is the stream of
    the running pass, with what its earlier edits have changed.
    """

    site: Site
    base: Literal["clean", "ablated", "current"]
    changes: tuple[tuple[Node, Origin], ...] = ()
    places: tuple[int, ...] = ()

    def __str__(self) -> str:
        but = "".join(f", but {node} {origin}" for node, origin in self.changes)
        return f"{self.site}{_at(self.places)} := rebuilt, sources {self.base}{but}"


def _at(places: tuple[int, ...]) -> str:
    return f" at {', '.join(map(str, places))}" if places else ""


Edit: TypeAlias = Put | Rebuild


def is_held(edit: Edit) -> bool:
    """Is this a site that is frozen, rather than changed?"""
    return isinstance(edit, Put) and isinstance(edit.value, Clean)


@dataclass(frozen=True)
class Run:
    """One forward pass. `condition` labels the rows that its measures give; without one it only serves later runs."""

    name: str
    edits: tuple[Edit, ...]
    reads: tuple[Site, ...]
    start: str
    stop: str | None  # the step before which it ends; None: at the end
    condition: str | None = None


@dataclass(frozen=True)
class Plan:
    reads: tuple[Site, ...]  # what the measures read in the clean run
    runs: tuple[Run, ...]
    clean_condition: str | None = None  # the label under which the clean run itself is measured
    cached: tuple[str, ...] = field(default=())  # every hook that the clean run must leave behind for the others
    unmoved: tuple[tuple[str, int], ...] = ()  # (condition, number of a measure that it cannot change): no rows
    numbers: tuple[tuple[Site, ...], ...] = ()  # what the numbers of each measure are made of

    @property
    def forwards(self) -> int:
        return 1 + len(self.runs)

    @property
    def borrowed(self) -> set[str]:
        """The hooks whose values come from the counterpart's run."""
        puts = [edit for run in self.runs for edit in run.edits if isinstance(edit, Put)]
        return {put.site.path for put in puts if isinstance(put.value, Counterpart)}


def make_run(
    shape: Shape, name: str, edits: Iterable[Edit], reads: Iterable[Site], condition: str | None = None
) -> Run:
    """A run that starts at the first site it edits or reads and stops after the last one it reads.

    Edits beyond that can change nothing that is read, and are left out.
    """
    reads = tuple(reads)
    end = max(shape.steps.index(site.step) for site in reads) + 1
    seen = tuple(edit for edit in edits if shape.order(edit.site) <= max(map(shape.order, reads)))
    start = min(shape.steps.index(place.step) for place in (*reads, *(edit.site for edit in seen)))
    return Run(name, seen, reads, shape.steps[start], step_at(shape, end), condition)


def chain_runs(
    shape: Shape, name: str, condition: str, first: Rebuild, chain: Sequence[Site], others: Literal["clean", "ablated"],
    reads: Iterable[Site], freeze: Sequence[Put] = (),
) -> list[Run]:  # fmt: skip
    """The runs of one chain: each but the last records what its node writes, the next one passes that on."""
    runs: list[Run] = []
    edit = first
    for port, after in pairwise(chain):
        written = Site(port.node, "z" if port.node.is_head else None)
        runs.append(make_run(shape, f"{name} -> {port}", [*freeze, edit], [written]))
        edit = Rebuild(after, others, ((port.node, Recorded(runs[-1].name)),))
    return [*runs, make_run(shape, f"{name} -> {chain[-1]}", [*freeze, edit], reads, condition)]


def step_at(shape: Shape, index: int) -> str | None:
    """The step of this number; None beyond the last."""
    return shape.steps[index] if index < len(shape.steps) else None


def stop_after(shape: Shape, paths: Iterable[str]) -> str | None:
    """The step before which a pass may end that must meet these hooks."""
    step_of = {site.path: site.step for site in shape.sites}
    return step_at(shape, max((shape.steps.index(step_of[path]) for path in paths), default=0) + 1)


def make_plan(
    shape: Shape, reads: Iterable[Site], runs: Iterable[Run], clean_condition: str | None = None,
    unmoved: Iterable[tuple[str, int]] = (), numbers: Iterable[tuple[Site, ...]] = (),
) -> Plan:  # fmt: skip
    reads, runs = tuple(reads), tuple(runs)
    needed = {path for run in runs for path in (*start_paths(shape, run).values(), *_origin_paths(shape, run))}
    needed |= {site.path for site in reads}
    in_order = [path for path in hook_order(shape) if path in needed]
    return Plan(reads, runs, clean_condition, tuple(in_order), tuple(unmoved), tuple(numbers))


def hook_order(shape: Shape) -> list[str]:
    """Every hook of the model, in the order in which a forward pass meets them."""
    ordered = sorted((site for site in shape.sites if site.port != "out"), key=shape.order)
    return list(dict.fromkeys(site.path for site in ordered))


def start_paths(shape: Shape, run: Run) -> dict[str, str]:
    """What a run that starts midway must be given: field of the state -> hook of the clean run that holds it."""
    first = shape.steps.index(run.start)
    taken = shape.steps[first : shape.steps.index(run.stop) if run.stop else None]
    given: dict[str, str] = {}
    block, _, step = run.start.rpartition(".")
    if step in ("attend", "mix", "write", "compute", "project"):
        given |= _block_inputs(block, step, taken)
    if run.start == "enc.norm":
        given["stream"] = f"enc.{shape.encoder_layers - 1}.mlp.post"
    if run.start == "dec.norm":
        given["stream"] = f"dec.{shape.decoder_layers - 1}.mlp.post"
    if run.start.startswith("dec.") and any(s.endswith("cross_attn.project") for s in taken):
        given["memory"] = "memory"
    return given


def _block_inputs(block: str, step: str, taken: list[str]) -> dict[str, str]:
    """The tensors that a block's remaining steps read, as far as they are taken."""
    wanted = {
        "project": [], "compute": [],
        "attend": [("q", "attend"), ("k", "attend"), ("v", "mix")],
        "mix": [("pattern", "mix"), ("v", "mix")],
        "write": [("mlp" if block.endswith("mlp") else "z", "write")],
    }  # fmt: skip
    given = {
        name: f"{block}.{'out' if name == 'mlp' else name}" for name, by in wanted[step] if f"{block}.{by}" in taken
    }
    if f"{block}.write" in taken or step in ("project", "compute"):
        given["stream"] = f"{block}.resid"
    return given


def _origin_paths(shape: Shape, run: Run) -> set[str]:
    """The hooks of the clean run that the edits of a run draw on."""
    paths: set[str] = set()
    for edit in run.edits:
        if isinstance(edit, Put):
            if isinstance(edit.value, Clean):
                paths.add(edit.site.path)
            continue
        if edit.base == "clean":
            paths.add(stream_path(shape, edit.site))
        for node, origin in edit.changes:
            # A change is a difference to the base, so a changed source is needed in the base's and in its new value.
            if edit.base != "ablated" or isinstance(origin, Clean | Swapped):
                paths.add(writer_path(node))
    return paths


def stream_path(shape: Shape, target: Site) -> str:
    """The hook that holds the stream a head's port (or an MLP) reads, before its LayerNorm."""
    if target.node.kind == "dec-cross" and target.port in ("k", "v"):
        return f"enc.{shape.encoder_layers - 1}.mlp.post"
    return target.path.rpartition(".")[0] + ".resid"


def writer_path(node: Node) -> str:
    """The hook from which a node's write into the stream is computed."""
    return Site(node, "z" if node.is_head else None).path
