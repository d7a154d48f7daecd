"""Work of a cluster that goes wrong on purpose: what stands here runs on its workers, in place of the real thing."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np

from steer.experiments import orders
from steer.experiments.work import AbsentError

REAL, BEGIN = orders.gather, orders.begin
WORD = "sabotaged"  # in the name of a recipe that something happens to


def killing(order: Any, *given: Any, **named: Any) -> Any:
    """Kill -9 in the middle of a part: as often as the recipe's name says (`sabotaged_1`), each noted in a file."""
    name, _, times = order.name.rpartition("_")
    notes = Path(order.home) / "killed"
    if name == WORD and len(list(notes.iterdir())) < int(times):
        (notes / f"{os.getpid()}").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return REAL(order, *given, **named)


def raising(order: Any, begun: Any, part: Any, *given: Any, **named: Any) -> Any:
    def work() -> Any:
        if order.name.startswith(WORD) and 1 in part.shard:
            raise ZeroDivisionError("a shard went wrong")
        return REAL(order, begun, part, *given, **named)

    return orders.guarded(order, work)


def greedy(order: Any, *given: Any, **named: Any) -> Any:
    """Takes more memory than a worker may have."""
    if order.name.startswith(WORD):
        taken = []
        for _ in range(12):  # 2.4 GB, if nobody ends it before
            taken.append(np.ones(25_000_000))
            time.sleep(0.3)
    return REAL(order, *given, **named)


def unseeing(order: Any, parcel: Any = None) -> Any:
    """As if the model's folder were not there."""
    if parcel is None:
        raise AbsentError(order.checkpoint)
    return BEGIN(order, parcel)


def slow(order: Any, *given: Any, **named: Any) -> Any:
    """Waits, the first time, until somebody has seen that it is at work."""
    notes = Path(order.home) / "killed"
    if not (notes / "begun").exists():
        (notes / "begun").touch()
        time.sleep(60)
    return REAL(order, *given, **named)


def kept() -> list[tuple[int, int]]:
    """Of the process that this runs in: the models that it has, as objects, and its torch threads."""
    import torch

    return [(id(subject), torch.get_num_threads()) for subject, _ in orders.SUBJECTS.values()]
