"""The header of a safetensors file: which tensors it holds, read before any of them is loaded."""

from __future__ import annotations

import json
from typing import BinaryIO

from steer.base.errors import CheckpointError
from steer.base.json import Json

MAX_BYTES = 10_000_000
DTYPES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}  # others go by their own name


def read_header(file: BinaryIO, place: str) -> tuple[dict[str, str], int]:
    """Dtype and shape of each tensor by name (`float32[20, 16]`), and the offset at which their values begin."""
    length = int.from_bytes(file.read(8), "little")
    try:
        if length > MAX_BYTES:
            raise ValueError
        header = json.loads(file.read(length).decode())
        return {name: _describe(header[name]) for name in header if name != "__metadata__"}, 8 + length
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise CheckpointError(f"{place}: cannot be read as safetensors (it does not begin with a header)") from error


def _describe(entry: Json) -> str:
    return f"{DTYPES.get(entry['dtype'], entry['dtype'])}{[int(size) for size in entry['shape']]}"
