"""The plain family: folders with a record, shipped ones by name. No torch until one is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from steer.anatomy.names import Names
from steer.base.shipped import locate
from steer.models.plain.layout import PlainSteps, plain_layout
from steer.models.record import Record, read_record
from steer.results.circuit import Circuit, heads_of_roles, read_circuit
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
