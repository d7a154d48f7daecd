"""Checkpoints: a folder with `model.safetensors` (weights) and `checkpoint.json` (everything else).

Nothing is pickled. Reading checks the vocabulary and the names and shapes of all tensors, and gathers every fault
before it says no. Shipped checkpoints are found by name, others by path.
"""

from __future__ import annotations

import hashlib
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from steer.circuit import Circuit, read_circuit, with_roles
from steer.errors import CheckpointError
from steer.files import write_atomically
from steer.model.config import ModelConfig
from steer.model.transformer import Transformer
from steer.names import Shape
from steer.shipped import RECORD, locate
from steer.task.vocabulary import TOKENS
from steer.version import __version__

WEIGHTS = "model.safetensors"
SHOWN = 8  # faults of one kind spelled out before the rest are only counted


class Record(BaseModel):
    """What `checkpoint.json` says about the weights beside it."""

    model_config = ConfigDict(extra="forbid")

    format: Literal[1] = 1
    description: str = ""
    config: ModelConfig
    vocabulary: tuple[str, ...] = TOKENS
    seed: int
    protocol: dict[str, Any]  # as resolved, so that a run can be repeated from its checkpoint
    history: list[dict[str, Any]]  # one entry for each epoch
    accuracy: dict[str, Any] | None = None  # exact match on the held-out episodes
    weights_sha256: str = ""
    version: str = __version__

    @property
    def data_seed(self) -> int:
        """The seed of the episodes that this model was trained and held out on."""
        seed = self.protocol.get("data_seed", 0)
        if not isinstance(seed, int):
            raise CheckpointError(f"{RECORD}: protocol.data_seed must be a number, not {seed!r}")
        return seed


class Checkpoint:
    """A model ready to be studied, with its record."""

    def __init__(self, model: Transformer, record: Record, name: str, circuit: Circuit | None = None) -> None:
        self.model = model.eval()
        self.record = record
        self.name = name
        self.circuit = circuit

    @cached_property
    def shape(self) -> Shape:
        sizes = self.record.config
        return with_roles(Shape(sizes.encoder_layers, sizes.decoder_layers, sizes.heads), self.circuit, Path(self.name))


def load_checkpoint(
    name: str, device: str = "cpu", dtype: torch.dtype = torch.float32, circuit: bool = True
) -> Checkpoint:
    """The model and, unless it is not asked for, the circuit that is known of it."""
    folder = locate(name)
    record = read_record(folder)
    path = folder / WEIGHTS
    try:
        data = path.read_bytes()
        tensors = load(data)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path}: cannot be read as safetensors ({error})") from error
    model = Transformer(record.config)
    check_tensors(tensors, model.state_dict(), str(path))
    if hashlib.sha256(data).hexdigest() != record.weights_sha256:
        raise CheckpointError(f"{path}: these are not the weights that {RECORD} describes (their SHA-256 differs)")
    model.load_state_dict(tensors)
    model.requires_grad_(False)
    known = read_circuit(folder, record.weights_sha256) if circuit else None
    return Checkpoint(model.to(device=device, dtype=dtype), record, folder.name, known)


def read_record(folder: Path) -> Record:
    path = folder / RECORD
    try:
        record = Record.model_validate_json(path.read_text(encoding="utf-8"))
    except ValidationError as error:
        faults = [f"{path}: {'.'.join(map(str, e['loc'])) or 'file'}: {e['msg']}" for e in error.errors()]
        raise CheckpointError(*faults) from error
    except (OSError, UnicodeDecodeError) as error:
        raise CheckpointError(f"{path}: cannot be read ({error})") from error
    if record.vocabulary != TOKENS:
        raise CheckpointError(f"{path}: was trained on another vocabulary: {' '.join(record.vocabulary)}")
    return record


def check_tensors(found: dict[str, Tensor], expected: dict[str, Tensor], place: str) -> None:
    """Every tensor there, none more, each of its shape and kind; else one error with all that is wrong."""
    missing, extra = sorted(expected.keys() - found.keys()), sorted(found.keys() - expected.keys())
    wrong = [
        f"{name} is {_describe(found[name])}, expected {_describe(expected[name])}"
        for name in sorted(expected.keys() & found.keys())
        if _describe(found[name]) != _describe(expected[name])
    ]
    kinds = (("missing tensors", missing), ("unexpected tensors", extra), ("wrong tensors", wrong))
    faults = [f"{place}: {len(names)} {kind}: {_some(names)}" for kind, names in kinds if names]
    if not faults:  # else a tensor may be of a kind that cannot be asked
        faults = [f"{place}: {name} holds NaN or infinity" for name, t in found.items() if not t.isfinite().all()]
    if faults:
        raise CheckpointError(*faults)


def save_checkpoint(folder: Path, model: Transformer, record: Record) -> None:
    """Weights first, record last: until the record is replaced the old one still says what it said."""
    data = save({name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()})
    record = record.model_copy(update={"weights_sha256": hashlib.sha256(data).hexdigest()})
    write_atomically(folder / WEIGHTS, data)
    write_atomically(folder / RECORD, record.model_dump_json(indent=1) + "\n")


def _describe(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"


def _some(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
