"""What a worker can be asked to do, as it travels, and what it may answer. Nothing here knows who sends it.

Models travel by path (which weights a worker finds there is compared with what others found), or as a parcel of files
where the path is not shared.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from steer.base.errors import Fault, SteerError
from steer.base.files import is_there
from steer.base.memory import MEMORY
from steer.base.version import __version__
from steer.plan.cut import Cut
from steer.results.result import Result

Parcel = dict[str, bytes]  # the files of a model's folder by name
LARGEST_PARCEL = 2_000_000_000  # bytes


@dataclass(frozen=True, kw_only=True)
class Work(ABC):
    """Something to do on a model."""

    name: str
    device: str = "cpu"
    dtype: str = "float32"
    memory: int = MEMORY
    home: str = field(default_factory=os.getcwd)  # that names of files are relative to
    in_folder: bool = False  # the model is a folder of somebody's own: it may have to be sent
    version: str = __version__

    @property
    @abstractmethod
    def checkpoint(self) -> str: ...

    @abstractmethod
    def begin(self, parcel: Parcel | None) -> Begun:
        """What a worker does first; for much work, all there is."""

    @property
    def model_folder(self) -> Path | None:
        """Where the model is, if it is a folder of somebody's own."""
        place = Path(self.home) / self.checkpoint.rpartition(":")[2]
        return place if is_there(place) and place.is_dir() else None


@dataclass(frozen=True)
class Begun:
    """What is known of an experiment once it was looked at: its hash, and the parts that it is cut into; or, where one
    part is all there is, its result; or that the result is known."""

    content: str
    weights: str  # which weights were there
    cut: Cut | None = None
    result: Result | None = None
    made: Any = None  # what work gives that is no recipe


class AbsentError(Exception):
    """The model's folder is not where the worker looks: it must be sent."""


class PoisonedError(Exception):
    """Work that cannot be done, wherever: faults and traceback as text, because not every error travels."""

    def __init__(self, faults: tuple[Fault, ...], traceback: str = "") -> None:
        super().__init__(faults, traceback)
        self.faults, self.traceback = faults, traceback


def parcel_of(folder: Path) -> Parcel:
    files = [path for path in sorted(folder.iterdir()) if path.is_file()]
    size = sum(path.stat().st_size for path in files)
    if size > LARGEST_PARCEL:
        text = f"{size / 1e9:.1f} GB are too much to send to workers: put it on a path that they share"
        raise SteerError(f"{folder}: {text}")
    return {path.name: path.read_bytes() for path in files}
