"""A checkpoint's parts by name, read from its record and circuit alone: no torch, no weights."""

from __future__ import annotations

from pathlib import Path

from steer.anatomy.names import Names
from steer.base.shipped import locate
from steer.models.plain.layout import PlainSteps, plain_layout
from steer.models.record import Record, read_record
from steer.models.steps import Steps
from steer.results.circuit import Circuit, heads_of_roles, read_circuit
from steer.tasks import TASKS


def names_of(checkpoint: str) -> Names:
    """The names of a checkpoint given by shipped name or by path."""
    folder = locate(checkpoint)
    record = read_record(folder)
    return make_names(record, read_circuit(folder, record.weights_sha256), folder)


def steps_of(checkpoint: str) -> Steps:
    """The steps of a checkpoint's forward pass."""
    config = read_record(locate(checkpoint)).config
    return PlainSteps(config.encoder_layers, config.decoder_layers)


def make_names(record: Record, circuit: Circuit | None, place: Path) -> Names:
    """A model's names, with the heads that its circuit says play a role."""
    bare = Names(plain_layout(record.config), {}, tuple(TASKS[record.task].roles))
    return bare if circuit is None else Names(bare.layout, heads_of_roles(circuit, bare, place), bare.role_words)
