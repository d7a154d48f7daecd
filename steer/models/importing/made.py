"""The last step of every import: tensors of another model become a checkpoint."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError
from torch import Tensor

from steer.base.errors import SteerError
from steer.models.checkpoint import Record, check_tensors
from steer.models.plain.config import ModelConfig
from steer.models.plain.transformer import Transformer
from steer.models.record import Imported, check_vocabulary

AUTHORS_FILES = {
    "9d789187ea254b1242c9fad571dda1aae1f152fd": "net-HookedBIMLSmall.pt",
    "35ddb69e18bfae92258a7167c02d72311a0eaf17": "net-HookedBIML.pt",
}  # by git blob id


@dataclass(frozen=True)
class Read:
    """A model as it was read: tensors under our names, tokens in our order, its sizes and its task."""

    tensors: Mapping[str, Tensor]
    config: ModelConfig
    task: str
    tokens: tuple[str, ...]
    facts: Mapping[str, Any]  # what is known about its training


def make_config(place: str, **sizes: Any) -> ModelConfig:
    """A config with these sizes; raises with every size that a model cannot have."""
    try:
        return TypeAdapter(ModelConfig).validate_python(sizes)
    except ValidationError as error:
        faults = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}".removeprefix(": ") for e in error.errors()]
        raise SteerError(*(f"{place}: {fault}" for fault in faults)) from error


def token_rows(theirs: Sequence[str], ours: Sequence[str]) -> list[int]:
    """For each of our tokens, the row that it has in a table of theirs."""
    rows = {token: row for row, token in enumerate(theirs)}
    return [rows[token] for token in ours]


def make_checkpoint(read: Read, path: Path, data: bytes) -> tuple[Transformer, Record]:
    """The model with these weights, and a record of where they come from. Raises if anything does not fit."""
    blob = blob_id(data)
    imported = Imported(
        file=path.name, size=len(data), blob=blob, known_as=AUTHORS_FILES.get(blob, ""), stated=dict(read.facts)
    )
    record = Record(
        description=f"imported from {path.name}; how it was seeded is not known", config=read.config, task=read.task,
        vocabulary=read.tokens, seed=0, protocol={}, history=[], imported=imported,
    )  # fmt: skip
    check_vocabulary(record, str(path))
    model = Transformer(read.config)
    check_tensors(dict(read.tensors), model.state_dict(), str(path))
    model.load_state_dict(read.tensors)
    return model.requires_grad_(False).eval(), record


def blob_id(data: bytes) -> str:
    """The id that `git hash-object` gives a file. It identifies the bytes; it does not authenticate them."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
