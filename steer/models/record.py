"""A checkpoint's record: `checkpoint.json`, which describes the weights beside it.

No torch here: a recipe is checked against the record alone. Sizes are bounded before a model of these sizes is built.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, replace
from json import dumps
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError
from typing_extensions import TypedDict

from steer.base.errors import CheckpointError, Fault, SteerError, dotted, unknown
from steer.base.files import read_text
from steer.base.json import Json
from steer.base.shipped import DEFAULT_TASK, RECORD
from steer.base.version import __version__
from steer.models.plain.config import ModelConfig
from steer.models.plain.layout import plain_layout
from steer.results.evaluation import Accuracy
from steer.tasks import TASKS

MAX_BYTES = 20_000_000


class Renumbered(BaseModel):
    """Heads have other numbers than in training. (Protocol and history use the numbers of training.)"""

    model_config = ConfigDict(extra="forbid")

    like: str  # whose numbers they have: "the paper's", "seed2's"
    heads: dict[str, tuple[Annotated[int, Field(ge=0)], ...]]  # block -> the trained number of each head, in order
    trained_sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]  # of the weights in the trained order


class Imported(BaseModel):
    """Weights that were trained elsewhere, and the file that they come from."""

    model_config = ConfigDict(extra="forbid")

    file: str
    size: Annotated[int, Field(ge=0)]  # bytes
    blob: Annotated[str, Field(pattern="^[0-9a-f]{40}$")]  # as `git hash-object FILE` says it
    known_as: str = ""  # the published file with this blob; empty if none is known
    # What the file states about its training, or what the user stated; the second name is that of older records.
    stated: Annotated[Json, Field(default_factory=dict, validation_alias=AliasChoices("stated", "told"))]


class CheckpointLine(TypedDict):
    """What `steer ls` says of a checkpoint."""

    name: str
    exact_match: float | None
    layers: list[int]  # of the encoder and of the decoder
    heads: int
    d_model: int
    seed: int
    description: str


class Epoch(TypedDict, total=False):
    """One epoch of training. Older files name the run that an epoch was part of, and count no steps."""

    __pydantic_config__ = ConfigDict(extra="allow")  # type: ignore[misc]

    run: str
    stage: str
    epoch: int  # within the stage
    steps: int  # in all
    presentations: int
    loss: float
    train_exact: float
    validation_exact: float
    seconds: float


class Record(BaseModel):
    """The content of `checkpoint.json`."""

    model_config = ConfigDict(extra="forbid")

    format: Literal[1] = 1
    description: str = ""
    config: ModelConfig
    task: str = DEFAULT_TASK
    vocabulary: tuple[str, ...] = ()  # a token's id is its place; the task's own tokens unless given
    seed: int
    protocol: Json  # as resolved, so that a run can be repeated from its checkpoint
    history: list[Epoch]  # one entry for each epoch
    accuracy: Accuracy | None = None  # exact match on the held-out episodes
    weights_sha256: Annotated[str, Field(pattern="^([0-9a-f]{64})?$")] = ""
    version: str = __version__
    renumbered: Renumbered | None = None
    imported: Imported | None = None

    def model_post_init(self, context: Any) -> None:
        if not self.vocabulary and self.task in TASKS:
            self.vocabulary = TASKS[self.task].tokens

    @property
    def numbering(self) -> str:
        """A note for readers of head numbers; empty if they are as trained."""
        return "" if self.renumbered is None else f"heads renumbered like {self.renumbered.like}"

    @property
    def reading(self) -> str:
        """SHA-256 of how the weights are read, and of which task's episodes: all in the record that changes numbers."""
        config = {key: value for key, value in asdict(self.config).items() if key != "dropout"}
        said = dumps([config, self.task, self.vocabulary, self.data_seed], sort_keys=True)
        return hashlib.sha256(said.encode()).hexdigest()

    def summary(self, name: str) -> CheckpointLine:
        config = self.config
        return CheckpointLine(
            name=name, exact_match=self.accuracy.exact_match if self.accuracy else None,
            layers=[config.encoder_layers, config.decoder_layers], heads=config.heads, d_model=config.d_model,
            seed=self.seed, description=self.description,
        )  # fmt: skip

    @property
    def data_seed(self) -> int:
        """The seed of the episodes that this model was trained and tested on."""
        seed = self.protocol.get("data_seed", 0)
        if not isinstance(seed, int) or not 0 <= seed < 2**63:
            raise CheckpointError(f"{RECORD}: protocol.data_seed must be a whole number from 0, not {seed!r:.40}")
        return seed


def read_record(folder: Path) -> Record:
    path = folder / RECORD
    try:
        record = Record.model_validate_json(read_text(path, MAX_BYTES, CheckpointError))
    except ValidationError as error:
        faults = [
            Fault(str(path), e["loc"], f"{dotted(e['loc']) or 'file'}: {e['msg'].removeprefix('Value error, ')}")
            for e in error.errors()
        ]
        raise CheckpointError(*faults) from error
    check_vocabulary(record, str(path))
    _check_numbers(record, str(path))
    return record


def check_vocabulary(record: Record, place: str) -> None:
    """Raise unless the vocabulary has every token of the task, each once, and the size of the model's."""
    try:
        needed = TASKS[record.task].tokens
    except SteerError as error:
        raise CheckpointError(*(f"{place}: task: {fault}" for fault in error.faults)) from error
    tokens = record.vocabulary
    if tokens[:3] != needed[:3] or not set(needed) <= set(tokens) or len(set(tokens)) < len(tokens):
        raise CheckpointError(f"{place}: was trained on another vocabulary: {' '.join(tokens):.200}")
    said = tokens[: record.config.answer_tokens]
    missing = [token for token in tokens if TASKS[record.task].counts(token) and token not in said]
    if missing:
        raise CheckpointError(f"{place}: config.answers: {len(said)} tokens, without {' '.join(missing):.200}")
    if len(tokens) != record.config.vocabulary:
        raise CheckpointError(
            f"{place}: vocabulary: {len(tokens)} tokens; config.vocabulary {record.config.vocabulary}"
        )


def _check_numbers(record: Record, place: str) -> None:
    """Raise unless every renumbered block exists and lists each head once."""
    blocks = {str(replace(head, head=None)) for head in plain_layout(record.config).heads}
    for block, heads in (record.renumbered.heads if record.renumbered else {}).items():
        if block not in blocks:
            raise CheckpointError(f"{place}: renumbered.heads: {unknown('block', block, sorted(blocks))}")
        if sorted(heads) != list(range(record.config.heads)):
            raise CheckpointError(f"{place}: renumbered.heads.{block}: not each of {record.config.heads} heads once")
