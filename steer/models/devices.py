"""Checks, before any work starts, that a device exists."""

from __future__ import annotations

import torch

from steer.base.errors import SteerError


def check_device(name: str) -> None:
    try:
        if torch.empty(1, device=name).is_meta:
            raise RuntimeError("a device without values")
    except (RuntimeError, AssertionError) as error:
        have = ["cpu", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]
        raise SteerError(f"no device named {name!r} here; there is {', '.join(have)}") from error
