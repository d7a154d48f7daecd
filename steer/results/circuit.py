"""A circuit on disk: `circuit.yaml` beside a checkpoint's weights, as `steer discover` writes it.

Recipes that name a role (`$output`) mean the heads under `roles`; the rest is evidence. No torch here: a recipe with
roles is checked without loading a model.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import Field

from steer.base.errors import ConfigError
from steer.base.files import is_there, stamp, write_atomically
from steer.base.shipped import DEFAULT_TASK
from steer.base.shown import Card, Shown
from steer.base.yaml import Document, Strict, check, read
from steer.results.evidence import Estimate, Evidence

CIRCUIT = "circuit.yaml"
FORMAT = 2
Share = Annotated[float, Field(ge=0, le=1)]


class Described(Strict):
    """The weights that a circuit was found in."""

    name: str
    sha256: str
    numbering: Annotated[str, Field(description="whose numbering the heads have, if they were renumbered")] = ""
    searched: Annotated[str, Field(description="SHA-256 of the weights searched, if heads were renumbered since")] = ""


class Member(Strict):
    """A head of the circuit (or an MLP, or an embedding) and what it does. Members are in the order of computation."""

    node: str
    block: Annotated[str, Field(description="where pictures put it: members of one block stand side by side")]
    role: Annotated[str | None, Field(description="none: it matters, and fits no role")] = None
    score: Annotated[Estimate | None, Field(description="how often it attends to what its role says")] = None
    chance: Annotated[Share | None, Field(description="the same with the right places drawn at random")] = None
    core: Annotated[bool, Field(description="part of the smallest faithful circuit")] = False


class Edge(Strict):
    """A direct path, and what it does to the measured head: alone sufficient, alone necessary."""

    source: str
    target: str
    sufficiency: Annotated[Estimate, Field(description="recovered when it alone is kept; 1: as with nothing ablated")]
    necessity: Annotated[Estimate, Field(description="lost when it alone is ablated; 1: as with everything ablated")]
    in_company: Annotated[
        Estimate | None, Field(description="recovered when it joins the other sources; given if it matters only then")
    ] = None
    measured_at: str


class Group(Strict):
    """Heads that stand in for one another: little is lost without one, much without all."""

    target: str
    heads: tuple[str, ...]
    alone: Annotated[Estimate, Field(description="the largest loss when one of them is ablated")]
    together: Annotated[Estimate, Field(description="the loss when all are")]


class Circuit(Shown, Strict):
    format: Literal[2] = 2
    task: Annotated[str, Field(description="whose roles these are")] = DEFAULT_TASK
    checkpoint: Described
    roles: Annotated[
        dict[str, tuple[str, ...]], Field(description="heads of each role, the lead first", default_factory=dict)
    ]
    members: tuple[Member, ...] = ()
    edges: tuple[Edge, ...] = ()
    groups: tuple[Group, ...] = ()
    evidence: Annotated[Evidence | None, Field(description="none: written by hand")] = None

    def card(self) -> Card:
        title = f"circuit of {self.checkpoint.name}: {len(self.members)} members, {len(self.edges)} paths"
        pairs = [(f"${role}", ", ".join(heads)) for role, heads in self.roles.items()]
        if self.evidence and self.evidence.check:
            smallest = self.evidence.check.smallest_circuit
            kept = f"{smallest.heads} heads keep {smallest.faithfulness.value:.1%} of the accuracy"
            pairs.append(("smallest faithful set", kept))
        return Card(title, pairs)

    __str__ = Shown.__repr__


def load_circuit(path: Path | str) -> Circuit:
    """The circuit in a file, or in a folder; raises one error with all faults and their places."""
    file = Path(path)
    if file.is_dir() and file.name != CIRCUIT:
        file /= CIRCUIT
    return _circuit(file, stamp(file))


@lru_cache(maxsize=32)
def _circuit(path: Path, written: tuple[int, ...]) -> Circuit:
    """Recipes of one checkpoint share its circuit: YAML of this size takes longer to read than a recipe to lower."""
    document = read(path)
    if (version := format_of(document)) < FORMAT:
        raise ConfigError(f"{path}: has format {version}, this version reads {FORMAT}: `steer migrate` rewrites it")
    return check(document, Circuit)


def format_of(document: Document) -> int:
    """The format that a file states; today's, if it states none."""
    data: Any = document.data
    version = data.get("format", FORMAT) if isinstance(data, dict) else FORMAT
    return version if type(version) is int else FORMAT


def read_circuit(folder: Path, sha256: str) -> Circuit | None:
    """The circuit in a checkpoint's folder; None if there is none, or if it belongs to other weights."""
    path = folder / CIRCUIT
    if not is_there(path):
        return None
    circuit = load_circuit(path)
    return circuit if circuit.checkpoint.sha256 == sha256 else None


def write_circuit(circuit: Circuit, folder: Path) -> Path:
    write_atomically(folder / CIRCUIT, circuit_text(circuit))
    return folder / CIRCUIT


def circuit_text(circuit: Circuit) -> str:
    content = circuit.model_dump(mode="json")
    return yaml.safe_dump(content, sort_keys=False, default_flow_style=None, width=120)
