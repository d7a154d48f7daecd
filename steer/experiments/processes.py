"""Work spread over processes, so that losing one process loses nothing else.

If a process is killed, only the thing it was working on is lost, and that is tried once more. When the parent ends, for
whatever reason, its workers end as well.
"""

from __future__ import annotations

import os
import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.resource_tracker import ensure_running
from threading import Thread
from typing import Any, TypeVar

from steer.base.errors import SteerError
from steer.base.log import follow_debugging

TRIES = 2
MOST = 8  # processes that are started unasked
FEWEST = 6  # things to do from which more than one process pays (benchmarks/processes.py)
THREADS = "OMP_NUM_THREADS"
Given = TypeVar("Given")
Made = TypeVar("Made")


def check_jobs(jobs: int | None, workers: int | None, on: str | None) -> None:
    if jobs is not None and jobs < 1:
        raise SteerError(f"--jobs: 1 at least, not {jobs}")
    if jobs is not None and jobs > 1 and (workers is not None or on is not None):
        raise SteerError("--jobs starts processes of its own: leave it out with --workers or --on")


def fitting(things: int, device: str, memory: int) -> int:
    """How many processes pay: one for each thing and core, as far as the machine has the memory that each may take.

    One, where it is not cores that do the work, where whoever started the program chose the number of threads, or
    where there is too little to do apart for what it takes to start a process.
    """
    if device != "cpu" or THREADS in os.environ or things < FEWEST:
        return 1
    return max(1, min(things, cores(), MOST, physical_memory() // memory))


def cores() -> int:
    """That this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def physical_memory() -> int:
    """Bytes; no limit, where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return 1 << 62


def in_processes(
    work: Callable[[Given], Made], things: Sequence[Given], jobs: int
) -> Iterator[tuple[Given, Made | None]]:
    """Each thing with the result of the work on it, as they finish; None if two processes were killed over it."""
    left = deque((thing, TRIES) for thing in things)
    idle: list[Worker] = []
    busy: dict[Connection, tuple[Worker, Given, int]] = {}
    try:
        while left or busy:
            while left and len(busy) < jobs:
                worker = idle.pop() if idle else Worker(work, max(1, cores() // min(jobs, len(things))))
                thing, tries = left.popleft()
                with suppress(OSError):  # a worker that has died is noticed below
                    worker.pipe.send(thing)
                busy[worker.pipe] = worker, thing, tries
            for pipe in [pipe for pipe in busy if pipe in wait(list(busy))]:
                worker, thing, tries = busy.pop(pipe)
                try:
                    made = pipe.recv()
                    idle.append(worker)
                except (EOFError, OSError):
                    worker.end()
                    if tries > 1:
                        left.append((thing, tries - 1))
                        continue
                    made = None
                yield thing, made
    finally:
        for worker in (*idle, *(worker for worker, _, _ in busy.values())):
            worker.end()


class Worker:
    """A process that works on one thing after another; a pipe brings the things."""

    def __init__(self, work: Callable[[Any], Any], threads: int = 1) -> None:
        context = get_context("spawn")  # fresh: a fork of a process whose torch has threads running can hang
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(work, theirs), daemon=True)
        with undisturbed(), having_threads(threads):
            self.process.start()
        theirs.close()

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


@contextmanager
def undisturbed() -> Iterator[None]:
    """Processes that are started here ignore Ctrl-C: the parent receives it too, and ends them."""
    ensure_running()  # the first start of Python's own helper process would unblock it again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def having_threads(number: int) -> Iterator[None]:
    """Processes that are started here compute with so many threads, unless whoever started the program chose."""
    if THREADS in os.environ:
        yield
        return
    os.environ[THREADS] = str(number)
    try:
        yield
    finally:
        del os.environ[THREADS]


def serve(work: Callable[[Any], Any], pipe: Connection) -> None:
    Thread(target=end_with_parent, daemon=True).start()
    follow_debugging()
    with suppress(EOFError, OSError):
        while True:
            pipe.send(work(pipe.recv()))


def end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
