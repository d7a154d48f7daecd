"""Processes of this machine that do whole experiments, where a cluster's workers do parts of them. It needs no Dask."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from steer.base.errors import Fault
from steer.experiments.cluster import LOST, Failure, Finished, Tell
from steer.experiments.orders import Order, begin
from steer.experiments.processes import TRIES, in_processes
from steer.experiments.work import PoisonedError, Work


@dataclass(frozen=True)
class Pool:
    """Takes orders as a cluster does."""

    jobs: int

    def run(self, orders: Sequence[Work], tell: Tell = lambda work, done: None) -> Iterator[tuple[Work, Finished]]:
        for order, came in in_processes(do_whole, orders, self.jobs):
            yield order, pickle.loads(came) if came else Failure((Fault("", (), LOST.format(TRIES)),))


def do_whole(work: Work) -> bytes:
    """What came of it, as bytes: tensors then go by value, and not as files that a process must stay alive for."""
    try:
        return pickle.dumps(begin(replace(work, whole=True) if isinstance(work, Order) else work))
    except PoisonedError as error:
        return pickle.dumps(Failure(error.faults, error.traceback))
