"""A result's tensors on disk. Each is read when it is used; torch is imported only then."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from steer.base.errors import SteerError
from steer.base.files import write_atomically
from steer.results.labelled import Axes

if TYPE_CHECKING:
    from torch import Tensor

TENSORS = "tensors.safetensors"


class StoredTensors(Mapping[str, "Tensor"]):
    """The tensors of a file by name."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def names(self) -> tuple[str, ...]:
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(self.path, framework="numpy") as file:
                return tuple(file.keys())
        except (SafetensorError, OSError) as error:
            raise SteerError(f"{self.path}: cannot be read ({error})") from error

    @cached_property
    def axes(self) -> Axes | None:
        """What their axes mean; None where an earlier version wrote them."""
        from safetensors import safe_open

        if not self.names:
            return None
        with safe_open(self.path, framework="numpy") as file:
            said = (file.metadata() or {}).get("steer")
        try:
            return None if said is None else Axes.from_json(json.loads(said), str(self.path))
        except ValueError as error:
            raise SteerError(f"{self.path}: does not say what its axes mean as `steer run` does") from error

    def __getitem__(self, name: str) -> Tensor:
        from safetensors import safe_open

        if name not in self.names:
            raise KeyError(name)
        with safe_open(self.path, framework="pt") as file:
            return file.get_tensor(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


def write_tensors(tensors: Mapping[str, Tensor], path: Path, axes: Axes | None = None) -> None:
    """Write tensors to a file, unless they were read from it. Without tensors, the file is removed."""
    if isinstance(tensors, StoredTensors) and tensors.path.resolve() == path.resolve():
        return
    if not tensors:
        path.unlink(missing_ok=True)
        return
    from safetensors.torch import save

    said = None if axes is None else {"steer": json.dumps(axes.to_json())}
    write_atomically(path, save({name: tensor.contiguous() for name, tensor in tensors.items()}, said))
