"""The plain family: folders with a record, shipped ones by name. No torch until one is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from steer.anatomy.names import Names, Roles
from steer.anatomy.nodes import Node
from steer.base.errors import CheckpointError, Fault, SteerError, unknown
from steer.base.shipped import locate
from steer.models.plain.layout import PlainSteps, plain_layout
from steer.models.record import Record, read_record
from steer.results.circuit import CIRCUIT, Circuit, read_circuit
from steer.tasks import TASKS
from steer.tasks.text import Words

if TYPE_CHECKING:
    from steer.models.checkpoint import Checkpoint


class PlainFamily:
    def names(self, place: str) -> Names:
        folder = locate(place)
        record = read_record(folder)
        return make_names(record, read_circuit(folder, record.weights_sha256), folder)

    def steps(self, place: str) -> PlainSteps:
        config = read_record(locate(place)).config
        return PlainSteps(config.encoder_layers, config.decoder_layers)

    def task(self, place: str) -> str:
        return read_record(locate(place)).task

    def tokenizer(self, place: str) -> Words:
        return Words(read_record(locate(place)).vocabulary)

    def load(self, place: str, device: str, dtype: str) -> Checkpoint:
        import torch

        from steer.models.checkpoint import load_checkpoint

        return load_checkpoint(place, device, getattr(torch, dtype))


FAMILY = PlainFamily()


def make_names(record: Record, circuit: Circuit | None, place: Path) -> Names:
    """A model's names, with the heads that its circuit says play a role."""
    bare = Names(plain_layout(record.config), {}, tuple(TASKS[record.task].roles))
    return bare if circuit is None else Names(bare.layout, heads_of_roles(circuit, bare, place), bare.role_words)


def heads_of_roles(circuit: Circuit, names: Names, place: Path) -> Roles:
    """The heads that a circuit says play each role, the lead first; each must be one of the model's."""
    faults: list[Fault] = []
    file = str(place / CIRCUIT)
    roles: dict[str, tuple[Node, ...]] = {}
    for role, heads in circuit.roles.items():
        if role not in names.role_words:
            faults.append(Fault(file, ("roles",), f"roles: {unknown('role', role, names.role_words)}"))
        try:
            roles[role] = tuple(names.head(name) for name in heads)
        except SteerError as error:
            faults += [Fault(file, ("roles", role), f"roles.{role}: {fault}") for fault in error.faults]
    if faults:
        raise CheckpointError(*faults)
    return roles
