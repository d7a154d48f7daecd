"""How much memory a run may take, as people write it: `8G`."""

from __future__ import annotations

import re

from steer.base.errors import SteerError

MEMORY = 4 << 30  # bytes; a fixed number, so that the same recipe is cut into the same batches everywhere
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def parse_memory(text: str) -> int:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:I?B)?", text.strip().upper())
    size = int(float(match[1]) * UNITS[match[2]]) if match else 0
    if not 1 << 20 <= size < 1 << 50:
        raise SteerError(f"--memory is a size such as 8G or 500M, not {text!r}")
    return size


def memory_text(amount: int) -> str:
    """The same in the largest unit of which it is at least one."""
    unit = next((unit for unit in "TGMK" if amount >= UNITS[unit]), "")
    return f"{amount / UNITS[unit]:.3g}{unit}"
