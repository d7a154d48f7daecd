"""Checkpoints: a folder with `model.safetensors` (weights) and `checkpoint.json` (everything else).

Nothing is pickled. Reading checks the vocabulary and the names and shapes of all tensors, and reports every fault at
once. Shipped checkpoints are found by name, others by path.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor
from torch.overrides import TorchFunctionMode

from steer.anatomy.names import Names
from steer.anatomy.nodes import Node
from steer.base.errors import CheckpointError
from steer.base.files import open_file, write_atomically
from steer.base.log import LOG
from steer.base.shipped import RECORD, locate
from steer.base.shown import Card, Shown
from steer.models.decoding import answers
from steer.models.header import read_header
from steer.models.plain.config import ModelConfig
from steer.models.plain.family import make_names
from steer.models.plain.heads import reorder_heads
from steer.models.plain.model import PlainModel
from steer.models.plain.transformer import Transformer
from steer.models.record import Record, read_record
from steer.models.scoring import Scoring
from steer.models.vocabulary import Vocabulary
from steer.results.circuit import Circuit, read_circuit
from steer.results.provenance import Weights
from steer.tasks import TASKS
from steer.tasks.task import Example, Task

__all__ = [
    "Checkpoint", "Record", "Transformer", "check_tensors", "compare_tensors", "describe_tensors", "load_checkpoint",
    "read_record", "save_checkpoint",
]  # fmt: skip
WEIGHTS = "model.safetensors"
SHOWN = 8  # names that a message lists; the rest are counted


class Checkpoint(Shown):
    """A model of the plain family ready to be studied (a `Subject`), with its record."""

    def __init__(
        self, transformer: Transformer, record: Record, name: str, circuit: Circuit | None = None,
        task: Task | None = None, names: Names | None = None,
    ) -> None:  # fmt: skip
        """`task`: the one that is put to it, if it is not the one that it was trained on.

        `names`: made from record and circuit unless given.
        """
        self.transformer = transformer.eval()
        self.record = record
        self.name = name
        self.circuit = circuit
        self.task = task or TASKS[record.task]
        self.names = names or make_names(record, circuit, Path(name))

    def card(self) -> Card:
        config, accuracy = self.record.config, self.record.accuracy
        size = f"{config.encoder_layers}+{config.decoder_layers} layers, {config.heads} heads, d_model {config.d_model}"
        pairs = [
            ("about", self.record.description),
            ("task", self.task.name),
            ("weights", self.record.weights_sha256[:12]),
        ]
        pairs += [] if accuracy is None else [("held-out exact match", f"{accuracy.exact_match:.1%}")]
        roles = self.circuit.roles if self.circuit else {}
        pairs += [(f"${role}", ", ".join(heads)) for role, heads in roles.items()]
        return Card(f"checkpoint {self.name}: {size}", pairs)

    def about(self, task: Task) -> Checkpoint:
        return Checkpoint(self.transformer, self.record, self.name, self.circuit, task, self.names)

    def examine(self, examples: Sequence[Example]) -> None:
        """Its steps are its forward pass: there is nothing to compare."""

    @cached_property
    def model(self) -> PlainModel:
        """The transformer as an engine takes it."""
        return PlainModel(self.transformer, self.vocabulary)

    @property
    def data_seed(self) -> int:
        return self.record.data_seed

    @cached_property
    def vocabulary(self) -> Vocabulary:
        return Vocabulary(self.record.vocabulary)

    @property
    def weights(self) -> Weights:
        """Which weights these are, for a result's provenance."""
        return Weights(self.name, self.record.weights_sha256, self.record.numbering, config=self.record.reading)

    @property
    def device(self) -> torch.device:
        return self.transformer.unembed.weight.device

    @cached_property
    def scoring(self) -> Scoring:
        return Scoring(self.task, self.vocabulary, self.device)

    def reordered(self, order: Mapping[Node, Sequence[int]]) -> Transformer:
        """A copy of the model whose head h of a block is the head `order[block][h]` of this one."""
        return reorder_heads(self.transformer, order)

    def answers(self, examples: Sequence[Example]) -> Iterator[tuple[str, ...]]:
        """The model's own answers, by greedy decoding."""
        return answers(self.transformer, examples, self.vocabulary, self.task.longest_answer)


def load_checkpoint(
    name: str, device: str = "cpu", dtype: torch.dtype = torch.float32, circuit: bool = True
) -> Checkpoint:
    """A checkpoint by name or path and, with `circuit`, the circuit in its folder."""
    folder = locate(name)
    record = read_record(folder)
    path = folder / WEIGHTS
    data = read_weights(path, record.config)
    try:
        tensors = load(data)
    except (SafetensorError, KeyError, ValueError) as error:
        raise CheckpointError(f"{path}: cannot be read as safetensors ({error})") from error
    model = Transformer(record.config)
    check_tensors(tensors, model.state_dict(), str(path))
    if weights_hash(data) != record.weights_sha256:
        raise CheckpointError(f"{path}: these are not the weights that {RECORD} describes (their SHA-256 differs)")
    model.load_state_dict(tensors)
    model.requires_grad_(False)
    LOG.debug("%s: weights %s, %s on %s", folder, record.weights_sha256[:12], dtype, device)
    known = read_circuit(folder, record.weights_sha256) if circuit else None
    names = make_names(record, known, folder)
    return Checkpoint(model.to(device=device, dtype=dtype), record, folder.resolve().name, known, names=names)


class Uninitialised(TorchFunctionMode):
    """Modules whose weights are not drawn: on the meta device that alone would import all of torch's compiler."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = kwargs or {}
        if getattr(func, "__module__", "") == "torch.nn.init":
            return named["tensor"] if "tensor" in named else args[0]
        return func(*args, **named)


def read_weights(path: Path, config: ModelConfig) -> bytes:
    """The file's bytes, after its header and its length were compared with the tensors of such a model.

    Nothing large is read or built before that: the comparison is with a model without values.
    """
    with torch.device("meta"), Uninitialised():
        expected = Transformer(config).state_dict()
    with open_file(path, CheckpointError) as file:
        tensors, length = read_header(file, str(path))
        compare_tensors(tensors, describe_tensors(expected), str(path))
        size = os.fstat(file.fileno()).st_size
        wanted = length + sum(tensor.nbytes for tensor in expected.values())
        if size != wanted:
            raise CheckpointError(f"{path}: cannot be read as safetensors ({size:,} bytes, its header says {wanted:,})")
        file.seek(0)
        return file.read()


def check_tensors(tensors: dict[str, Tensor], expected: dict[str, Tensor], place: str) -> None:
    """Check names, shapes, dtypes and finiteness of all tensors; report every mismatch in one error."""
    compare_tensors(describe_tensors(tensors), describe_tensors(expected), place)
    broken = sorted(name for name, tensor in tensors.items() if not tensor.isfinite().all())
    if broken:
        raise CheckpointError(f"{place}: NaN or infinity in {_some(broken)}")


def compare_tensors(described: dict[str, str], expected: dict[str, str], place: str) -> None:
    """Raise unless the same tensors are in both. Each maps a name to a description (`float32[20, 16]`)."""
    missing, extra = sorted(expected.keys() - described.keys()), sorted(described.keys() - expected.keys())
    wrong = [
        f"{name} is {described[name]}, expected {expected[name]}"
        for name in sorted(expected.keys() & described.keys())
        if described[name] != expected[name]
    ]
    kinds = (("missing tensors", missing), ("unexpected tensors", extra), ("wrong tensors", wrong))
    faults = [f"{place}: {len(names)} {kind}: {_some(names)}" for kind, names in kinds if names]
    if faults:
        raise CheckpointError(*faults)


def save_checkpoint(folder: Path, model: Transformer, record: Record) -> None:
    """Weights first, record last: a crash in between leaves the old record in place."""
    data = weights_data(model)
    record = record.model_copy(update={"weights_sha256": weights_hash(data)})
    write_atomically(folder / WEIGHTS, data)
    write_atomically(folder / RECORD, record.model_dump_json(indent=1) + "\n")


def weights_data(model: Transformer) -> bytes:
    """The weights as a file holds them."""
    return save({name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()})


def weights_hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def describe_tensors(tensors: dict[str, Tensor]) -> dict[str, str]:
    """Each tensor's kind and shape: `float32[20, 16]`."""
    return {name: f"{str(t.dtype).removeprefix('torch.')}{list(t.shape)}" for name, t in tensors.items()}


def _some(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
