"""Directions and subspaces on disk: safetensors with the numbers, and as metadata what they are of.

A direction is one row of features at a site, with the length that it was found with; a subspace is several. No torch
here: a recipe that names a file is checked without loading a model.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError

from steer.base.errors import ConfigError, SteerError
from steer.base.files import read_file, write_atomically
from steer.base.shown import Card, Shown, counted
from steer.base.yaml import Strict

MOST = 256_000_000  # bytes: far more than rows of any model's features need
ROWS, ABOUT = "rows", "steer"  # the tensor, and the key of what is said about it
Floats: TypeAlias = NDArray[np.float64]
Way: TypeAlias = Literal["difference", "principal", "probe", "sae", "align", "random"]


class About(Strict):
    """What a direction or subspace is, and how it was found."""

    format: Literal[1] = 1
    way: Way
    site: Annotated[str, Field(description="whose features they are; empty: not bound to a site")] = ""
    words: Annotated[str, Field(description="what was compared, for people")] = ""
    checkpoint: str = ""
    sha256: Annotated[str, Field(description="of the checkpoint's weights")] = ""
    task: str = ""
    examples: int = 0
    seed: int = 0
    scores: Annotated[dict[str, float], Field(description="held-out accuracy and the like", default_factory=dict)]


@dataclass(frozen=True, eq=False, repr=False)
class Direction(Shown):
    """Rows of features: one for a direction, several for a subspace."""

    rows: Floats  # k D
    about: About

    def card(self) -> Card:
        about = ((name, str(value)) for name, value in self.about.model_dump().items() if name != "format" and value)
        return Card(f"direction: {counted(len(self.rows), 'row')} of {self.size} features", list(about))

    @property
    def sha256(self) -> str:
        """Of the numbers alone: the same direction is the same question."""
        return digest(self.rows)

    @property
    def size(self) -> int:
        return int(self.rows.shape[1])

    @property
    def rank(self) -> int:
        """How many dimensions the rows span."""
        return int(np.linalg.matrix_rank(self.rows)) if len(self.rows) else 0

    @property
    def basis(self) -> Floats:
        """Orthonormal rows that span the same subspace."""
        return np.linalg.qr(self.rows.T)[0].T if len(self.rows) else self.rows


def digest(numbers: Floats) -> str:
    return hashlib.sha256(np.ascontiguousarray(numbers).tobytes()).hexdigest()


def random_like(direction: Direction, seed: int) -> Direction:
    """As many rows of the same lengths, each in a direction drawn at random."""
    rng = np.random.default_rng((seed, *direction.rows.shape))
    drawn = rng.standard_normal(direction.rows.shape)
    lengths = np.linalg.norm(direction.rows, axis=1, keepdims=True)
    rows = drawn / np.linalg.norm(drawn, axis=1, keepdims=True) * lengths
    return Direction(rows, About(way="random", site=direction.about.site, seed=seed, scores={}))


def filed(named: Mapping[str, Direction]) -> dict[str, Direction]:
    """By names that are names of files."""
    return {re.sub(r"[^\w.-]+", "_", name).strip("_"): direction for name, direction in named.items()}


def write_direction(direction: Direction, path: Path) -> None:
    from safetensors.numpy import save

    about = direction.about.model_dump_json()
    write_atomically(path, save({ROWS: np.ascontiguousarray(direction.rows)}, {ABOUT: about}))


def read_direction(path: Path) -> Direction:
    """A file that `steer direction` or `steer align` wrote."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    data = read_file(path, MOST, ConfigError)
    try:
        tensors, metadata = load(data), _metadata(data)
        about = About.model_validate_json(metadata[ABOUT])
        rows = tensors[ROWS].astype(np.float64)
    except (SafetensorError, ValidationError, KeyError, ValueError, TypeError) as error:
        raise ConfigError(f"{path}: is no file of a direction, as `steer direction` writes it") from error
    if rows.ndim != 2 or not rows.shape[1]:
        raise ConfigError(f"{path}: {ROWS} has the shape {rows.shape}; rows of features are needed")
    if not np.isfinite(rows).all():
        raise ConfigError(f"{path}: {ROWS} holds numbers that are not finite")
    return Direction(rows, about)


def direction_hash(path: Path) -> str:
    """Of the numbers in a file; empty for one that cannot be read, which is said when the recipe is lowered."""
    try:
        return read_direction(path).sha256
    except SteerError:
        return ""


def _metadata(data: bytes) -> dict[str, str]:
    """What a safetensors file says beside its tensors: the header is JSON behind its own length."""
    length = int.from_bytes(data[:8], "little")
    metadata: dict[str, str] = json.loads(data[8 : 8 + length]).get("__metadata__", {})
    return metadata
