"""Checks, before any work starts, that a device exists and a kind of number is known."""

from __future__ import annotations

import torch

from steer.base.errors import SteerError

DTYPES = ("float32", "float64", "bfloat16")


def check_dtype(name: str) -> None:
    if name not in DTYPES:
        raise SteerError(f"--dtype is {', '.join(DTYPES[:-1])} or {DTYPES[-1]}, not {name!r}")


def check_device(name: str) -> None:
    try:
        if torch.empty(1, device=name).is_meta:
            raise RuntimeError("a device without values")
    except (RuntimeError, AssertionError) as error:
        have = ["cpu", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]
        raise SteerError(f"no device named {name!r} here; there is {', '.join(have)}") from error
