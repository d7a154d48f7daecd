"""Files of `torch.save`: a zip with a pickle and the raw bytes of its tensors, read without PyTorch's loader.

Members are read by their exact names, and only if they are not compressed: nothing can grow when it is read.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from io import BytesIO
from math import prod
from typing import Any
from zipfile import ZIP_STORED, BadZipFile, ZipFile

import torch
from torch import Tensor

from steer.base.errors import SteerError
from steer.models.importing.pickled import Made, Named, Stored, read_pickle

MAX_BYTES = 64_000_000
MAGIC = b"PK\x03\x04"
PICKLE = "/data.pkl"
REBUILD, STORAGE = "torch._utils._rebuild_tensor_v2", "torch.FloatStorage"
BYTES = 4  # of a float32


@dataclass(frozen=True)
class Archive:
    place: str
    folder: str  # in which all members stand
    members: Mapping[str, bytes]

    def unpickle(self, names: Collection[str], reasons: Mapping[str, str]) -> Any:
        return read_pickle(self.members[self.folder + PICKLE], self.place, names, reasons)

    def tensor(self, made: object, key: str) -> Tensor:
        """The tensor that a pickle describes: dense float32, inside its storage."""
        place = f"{self.place}: {key}"
        storage, offset, sizes, strides = _described(made, place)
        flat = self._storage(storage, place)
        numbers = (offset, *sizes, *strides)
        if len(sizes) != len(strides) or any(type(number) is not int or number < 0 for number in numbers):
            raise SteerError(f"{place}: its sizes are not whole numbers from 0")
        last = offset + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
        if prod(sizes) > len(flat) or (all(sizes) and last >= len(flat)):
            raise SteerError(f"{place}: reaches outside its storage")
        return flat.as_strided(sizes, strides, offset).clone()

    def _storage(self, stored: object, place: str) -> Tensor:
        reference = stored.reference if isinstance(stored, Stored) else None
        match reference:
            case ("storage", Named(name), str(key), str(), int(size)) if name == STORAGE and key.isdecimal():
                data = self.members.get(f"{self.folder}/data/{key}")
            case _:
                raise SteerError(f"{place}: has no float32 storage")
        if data is None or len(data) != size * BYTES:
            problem = "is not there" if data is None else f"has {len(data):,} bytes, not {size * BYTES:,}"
            raise SteerError(f"{place}: its storage {key:.20} {problem}")
        return torch.frombuffer(bytearray(data), dtype=torch.float32) if data else torch.empty(0)


def _described(made: object, place: str) -> tuple[Any, Any, tuple[Any, ...], tuple[Any, ...]]:
    match made:
        case Made(name, (storage, offset, tuple(sizes), tuple(strides), *_)) if name == REBUILD:
            return storage, offset, sizes, strides
    raise SteerError(f"{place}: is not a tensor")


def read_archive(data: bytes, place: str) -> Archive:
    if not data.startswith(MAGIC):
        raise SteerError(
            f"{place}: not a file of torch.save (a zip; PyTorch before 1.6 wrote others), nor named .safetensors"
        )
    try:
        with ZipFile(BytesIO(data)) as file:
            members = _members(file, place)
    except (BadZipFile, ValueError, RuntimeError, EOFError, OSError, struct.error, OverflowError) as error:
        raise SteerError(f"{place}: the zip is broken or cut short ({error})") from error
    folders = [name.removesuffix(PICKLE) for name in members if name.endswith(PICKLE) and name.count("/") == 1]
    if len(folders) != 1:
        raise SteerError(f"{place}: a zip with {len(folders)} members named */data.pkl; torch.save writes one")
    if members.get(f"{folders[0]}/byteorder", b"little") != b"little":
        raise SteerError(f"{place}: was written on a big-endian machine")
    return Archive(place, folders[0], members)


def _members(file: ZipFile, place: str) -> dict[str, bytes]:
    listed = file.infolist()
    packed = [member.filename for member in listed if member.compress_type != ZIP_STORED]
    if packed:
        raise SteerError(f"{place}: {packed[0]!r:.80} is compressed, which torch.save never does")
    if sum(member.file_size for member in listed) > MAX_BYTES:
        raise SteerError(f"{place}: its members are larger than {MAX_BYTES // 1_000_000} MB together")
    if len({member.filename for member in listed}) < len(listed):
        raise SteerError(f"{place}: two members have the same name")
    return {member.filename: file.read(member) for member in listed}
