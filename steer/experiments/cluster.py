"""Work spread over the workers of a Dask cluster: one that starts and ends with the command, or one that runs already.

The only file that knows Dask. It cuts nothing and merges nothing (`plan/cut.py` and `experiment.py` do): it hands out
the parts of each experiment, those of a stage when all of the stage before are merged. When a worker dies, what it was
doing and what it still held is done again by another; when the same part kills one after another, its recipe is given
up, and the others go on. When the scheduler goes, what is finished is kept and the rest is handed out once more.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from queue import Empty, SimpleQueue
from typing import Any, TypeAlias

from steer.base.errors import Fault, SteerError
from steer.base.log import LOG
from steer.experiments import orders as work
from steer.experiments.processes import undisturbed
from steer.experiments.work import AbsentError, Begun, PoisonedError, Work, parcel_of

INSTALL = "--workers and --on need Dask, which is not installed: pip install 'steer-interp[dask]'"
LIMIT = "auto"  # memory of a worker of a local cluster: its share of the machine's
MOST = 256  # workers of a local cluster
TRIES = 2  # workers of a local cluster that may be lost over one part
PATIENCE = 60.0  # seconds to wait for a scheduler that has gone to come back
LOST = "the worker that ran it was ended from outside, {} times over (is memory short?)"
Say = Callable[[str], None]
Future: TypeAlias = Any  # Dask's, whose types are not read


@dataclass(frozen=True)
class Failure:
    faults: tuple[Fault, ...]
    traceback: str = ""


@dataclass
class Doing:
    """An experiment on its way."""

    order: Work
    since: float = field(default_factory=time.perf_counter)
    futures: dict[str, Future] = field(default_factory=dict)  # by key
    stages: dict[str, str] = field(default_factory=dict)  # of each future, what is done
    begun: Begun | None = None
    parcel: Future = None  # the future of its model's files, where they must be sent
    parts: int = 0
    done: int = 0


Finished = Begun | Failure  # a `Begun` with its result, or one whose result is known
Tell = Callable[[Work, float], None]


class Cluster:
    """`address`: of a running scheduler; empty: a local cluster of `workers` processes."""

    def __init__(self, workers: int, address: str = "", say: Say = lambda text: None) -> None:
        self.address, self.say = address, say
        self.local = None if address else _local(workers)
        self.client = self._connected()
        say(f"dashboard: {self.client.dashboard_link}")

    def close(self) -> None:
        with suppress(Exception):  # a scheduler that has gone cannot be told goodbye
            self.client.close(timeout=5)
        if self.local is not None:
            self.local.close(timeout=10)

    def _connected(self, patience: float = 10.0) -> Any:
        from distributed import Client

        try:
            return Client(self.local or self.address, timeout=patience, set_as_default=False)
        except (OSError, ValueError, TypeError) as error:
            reason = next(iter(str(error).splitlines()), type(error).__name__)
            raise SteerError(f"--on {self.address}: no scheduler answers there ({reason[:200]})") from error

    def run(self, orders: Sequence[Work], tell: Tell = lambda order, done: None) -> Iterator[tuple[Work, Finished]]:
        """Each order with what came of it, as they finish."""
        left = list(orders)
        while left:
            try:
                for order, finished in Round(self.client, left, tell):
                    left = [one for one in left if one is not order]
                    yield order, finished
            except SchedulerLostError:
                LOG.debug("the scheduler has gone; %d experiments are left", len(left))
                self._find_again(len(orders) - len(left), len(orders))

    def _find_again(self, done: int, total: int) -> None:
        """Wait for the scheduler to come back."""
        self.say("the scheduler has gone: waiting for it to come back")
        with suppress(Exception):
            self.client.close(timeout=1)
        try:
            self.client = self._connected(PATIENCE)
        except SteerError as error:
            raise SteerError(*error.faults, f"{done} of {total} results were finished and are kept") from error


class SchedulerLostError(Exception):
    pass


class Round:
    """Orders handed out to one scheduler, until all are done or it goes."""

    def __init__(self, client: Any, orders: Sequence[Work], tell: Tell) -> None:
        self.client, self.tell = client, tell
        self.ended: SimpleQueue[tuple[Doing, str]] = SimpleQueue()
        self.doing = [Doing(order) for order in orders]

    def __iter__(self) -> Iterator[tuple[Work, Finished]]:
        for one in self.doing:
            self.submit(one, "begin", work.begin, one.order)
        try:
            while self.doing:
                one, key = self._next()
                finished = self._after(one, key) if one in self.doing else None
                if finished is not None:
                    self._drop(one)
                    yield one.order, finished
        finally:
            for one in list(self.doing):
                self._drop(one)

    def _next(self) -> tuple[Doing, str]:
        """The next future that has ended; looks after the scheduler while it waits."""
        while True:
            try:
                return self.ended.get(timeout=1)
            except Empty:
                states = {future.status for one in self.doing for future in one.futures.values()}
                if self.client.status not in ("running", "newly-created") or "cancelled" in states:
                    raise SchedulerLostError from None

    def submit(self, one: Doing, name: str, function: Callable[..., Any], *given: Any, **named: Any) -> Any:
        key = f"{name}-{one.order.name}-{time.monotonic_ns()}"  # Dask shows what stands before the first hyphen
        one.stages[key] = name
        one.futures[key] = self.client.submit(function, *given, **named, key=key)
        return self._await(one, key)

    def _await(self, one: Doing, key: str) -> Any:
        one.futures[key].add_done_callback(lambda _: self.ended.put((one, key)))
        return one.futures[key]

    def _drop(self, one: Doing) -> None:
        self.doing.remove(one)
        with suppress(Exception):
            self.client.cancel(list(one.futures.values()))

    def _after(self, one: Doing, key: str) -> Finished | None:
        """What an experiment comes to when one of its futures has ended; None: it goes on."""
        if key not in one.futures:  # of an earlier beginning
            return None
        future = one.futures[key]
        match future.status:
            case "finished":
                return self._went_well(one, key, future)
            case "error":
                return self._went_wrong(one, future.exception())
            case "lost" | "pending":  # with the worker that had done it, and it is being done again
                self._await(one, key)
                return None
            case _:
                raise SchedulerLostError

    def _went_well(self, one: Doing, key: str, future: Any) -> Finished | None:
        match one.stages[key]:
            case "begin":
                one.begun = begun = future.result()
                if begun.cut is None:
                    return begun
                self._hand_out(one, begun)
            case "gather":
                one.done += 1
                self.tell(one.order, one.done / (one.parts + 1))
            case "finish":
                assert one.begun is not None
                return replace(one.begun, cut=None, result=future.result())
        return None

    def _went_wrong(self, one: Doing, error: BaseException) -> Finished | None:
        from distributed import KilledWorker

        match error:
            case AbsentError() if one.parcel is None:
                return self._send(one)
            case PoisonedError():
                return Failure(error.faults, error.traceback)
            case KilledWorker():
                return Failure((Fault("", (), LOST.format(error.allowed_failures + 1)),))
            case _:
                return Failure((Fault("", (), f"{type(error).__name__}: {error}"),))

    def _send(self, one: Doing) -> Failure | None:
        """The model's files go once to each worker that needs them, and the experiment begins again."""
        folder = one.order.model_folder
        assert folder is not None
        try:
            one.parcel = self.client.scatter(parcel_of(folder), hash=True)
        except SteerError as error:
            return Failure(error.faults)
        one.futures.clear()
        one.done = 0
        self.submit(one, "begin", work.begin, one.order, one.parcel)
        return None

    def _hand_out(self, one: Doing, begun: Begun) -> None:
        """The parts of an experiment: first the sums behind its means, then its runs, then its rows."""
        assert begun.cut is not None
        order, cut, own = one.order, begun.cut, {"parcel": one.parcel}
        one.parts = len(cut.parts)
        known = replace(begun, cut=None)
        first = [self.submit(one, "average", work.average, order, known, shards, **own) for shards in cut.first]
        averages = self.submit(one, "merge", work.merge_averages, first) if first else None
        parts = [self.submit(one, "gather", work.gather, order, known, part, averages, **own) for part in cut.parts]
        self.submit(one, "finish", work.finish, order, known, parts, time.perf_counter() - one.since, **own)


def _local(workers: int) -> Any:
    """A cluster of this machine: processes of one thread that share its cores."""
    try:
        import dask
        from distributed import LocalCluster
    except ImportError as error:
        raise SteerError(INSTALL) from error
    with dask.config.set(settings(workers)), undisturbed():
        return LocalCluster(
            n_workers=workers, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address="127.0.0.1:0",
            memory_limit=LIMIT, silence_logs=logging.CRITICAL,
        )  # fmt: skip


def settings(workers: int) -> Mapping[str, Any]:
    """A worker at a time on each part (so that no part is blamed for another's end), killed before memory runs out,
    and with its share of the cores, unless whoever started the program chose how many threads."""
    threads = os.environ.get("OMP_NUM_THREADS") or max(1, (os.cpu_count() or 1) // workers)
    environment = {f"{library}_NUM_THREADS": threads for library in ("OMP", "MKL", "OPENBLAS")}
    memory = {"target": False, "spill": False, "pause": False, "terminate": 0.95}
    return {
        "distributed.scheduler.allowed-failures": TRIES - 1,
        "distributed.scheduler.worker-saturation": 1.0,
        **{f"distributed.worker.memory.{name}": share for name, share in memory.items()},
        **{f"distributed.nanny.pre-spawn-environ.{name}": number for name, number in environment.items()},
    }


@contextmanager
def opened(workers: int | None, address: str | None, say: Say = lambda text: None) -> Iterator[Cluster | None]:
    """The cluster that a command's options ask for; None if they ask for none."""
    if workers is None and address is None:
        yield None
        return
    if workers is not None and address is not None:
        raise SteerError("--workers starts a cluster, --on uses one: give one of them")
    if workers is not None and not 1 <= workers <= MOST:
        raise SteerError(f"--workers: from 1 to {MOST} processes of this machine, not {workers:,}")
    if address == "":
        raise SteerError("--on: the address of a scheduler, such as tcp://HOST:8786, not nothing")
    try:
        import distributed  # noqa: F401
    except ImportError as error:
        raise SteerError(INSTALL) from error
    cluster = Cluster(workers or 0, address or "", say)
    try:
        yield cluster
    finally:
        cluster.close()
