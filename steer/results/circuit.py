"""A circuit on disk: `circuit.yaml` beside a checkpoint's weights, as `steer discover` writes it.

Its `roles` are what recipes mean by `$output` or `$primitive-pairing`; the rest is the evidence. No torch here: a
recipe with roles is checked without loading a model.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import yaml
from pydantic import Field

from steer.anatomy.names import Role, Shape
from steer.base.errors import CheckpointError, SteerError
from steer.base.files import is_there, write_atomically
from steer.base.yaml import Strict, check, read

CIRCUIT = "circuit.yaml"
Share = Annotated[float, Field(ge=0, le=1)]


class Estimate(Strict):
    """A number with its 95 % interval."""

    value: float
    low: float
    high: float


class Described(Strict):
    """The weights that a circuit is of."""

    name: str
    sha256: str


class Member(Strict):
    """A head of the circuit (or an MLP, or an embedding), with what it was found to do."""

    node: str
    role: Annotated[Role | None, Field(description="none: it matters, and fits no role")] = None
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
        Estimate | None, Field(description="recovered when it joins the other sources; for one that shows only so")
    ] = None
    measured_at: str


class Group(Strict):
    """Heads that stand in for one another: little is lost without one, much without all."""

    target: str
    heads: tuple[str, ...]
    alone: Annotated[Estimate, Field(description="the largest loss when one of them is ablated")]
    together: Annotated[Estimate, Field(description="the loss when all are")]


Metadata: TypeAlias = dict[str, Any]


class Circuit(Strict):
    format: Literal[1] = 1
    checkpoint: Described
    roles: Annotated[
        dict[Role, tuple[str, ...]], Field(description="heads of each role, the lead first", default_factory=dict)
    ]
    members: tuple[Member, ...] = ()
    edges: tuple[Edge, ...] = ()
    groups: tuple[Group, ...] = ()
    evidence: Annotated[Metadata, Field(default_factory=dict)]


def read_circuit(folder: Path, sha256: str) -> Circuit | None:
    """The circuit that lies beside these weights; None if there is none, or one of other weights (trained on since)."""
    path = folder / CIRCUIT
    if not is_there(path):
        return None
    circuit = check(read(path), Circuit)
    return circuit if circuit.checkpoint.sha256 == sha256 else None


def with_roles(shape: Shape, circuit: Circuit | None, place: Path) -> Shape:
    """The shape of a model that knows which heads play which role."""
    if circuit is None:
        return shape
    faults, roles = [], []
    for role, names in circuit.roles.items():
        try:
            roles.append((role, tuple(shape.one_head(name) for name in names)))
        except SteerError as error:
            faults += [f"{place / CIRCUIT}: roles.{role}: {fault}" for fault in error.faults]
    if faults:
        raise CheckpointError(*faults)
    return Shape(shape.encoder_layers, shape.decoder_layers, shape.heads, tuple(roles))


def write_circuit(circuit: Circuit, folder: Path) -> Path:
    told = circuit.model_dump(mode="json")
    write_atomically(folder / CIRCUIT, yaml.safe_dump(told, sort_keys=False, default_flow_style=None, width=120))
    return folder / CIRCUIT
