"""One worker and two on the same batch, the paper's recipes on five checkpoints: the same numbers, and the ratio.

    python benchmarks/workers.py
    python benchmarks/workers.py --threads          # and one process with all its torch threads
    python benchmarks/workers.py --episodes 60 --recipes 3 --checkpoints 1      # a quick look

Workers have one torch thread each, unless OMP_NUM_THREADS says otherwise. A cluster is open and its workers have loaded
what they need before the clock starts: that takes the same few seconds whatever the batch. Results are written and
drawn by the command's own process, and that is in the time.

The seconds that go by count only on a free machine; what the processor spent on a side, in the command's process and in
the worker that had most to do, counts always. No side can take less than either, nor than their sum over the cores.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from steer.base.shipped import RECIPES
from steer.experiments.cluster import Cluster, opened
from steer.experiments.many import Job, Outcome, run_paths
from steer.results.rows import Row

CHECKPOINTS = ("strict2", "strict1", "seed1", "seed2", "deep")
CORES = len(os.sched_getaffinity(0))
TOLERANCE = 1e-6
Batch = dict[str, list[Row]]


def run_batch(checkpoints: Sequence[str], paths: Sequence[Path], episodes: int, cluster: Cluster | None) -> Batch:
    """Rows by checkpoint and recipe. A recipe whose role a checkpoint lacks has none."""
    found: Batch = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in checkpoints:
            job = Job((f"checkpoint={name}", f"episodes.count={episodes}"), Path(folder) / name)
            for outcome in run_paths(paths, job, 1, lambda done, text: None, cluster):
                found[f"{name}/{outcome.name}"] = rows_of(outcome)
    return found


def rows_of(outcome: Outcome) -> list[Row]:
    unexpected = [fault for fault in outcome.faults if "$" not in fault and "role" not in fault]
    if unexpected:
        raise SystemExit("\n".join(unexpected))
    return outcome.result.rows if outcome.result else []


@dataclass(frozen=True)
class Times:
    seconds: float
    command: float  # processor's seconds
    workers: tuple[float, ...] = ()

    @property
    def least(self) -> float:
        """On free cores."""
        every = (self.command, *self.workers)
        return max(*every, sum(every) / CORES)


def timed(checkpoints: Sequence[str], paths: Sequence[Path], episodes: int, workers: int | None) -> tuple[Times, Batch]:
    """`workers`: None for this process alone, with all its threads."""
    torch.set_num_threads(os.cpu_count() or 1)  # of this process; a worker has its own
    with opened(workers, None) as cluster:
        run_batch(checkpoints, paths[:1], 10, cluster)  # everybody has loaded what it needs
        started, busy, theirs = time.perf_counter(), time.process_time(), computed(cluster)
        found = run_batch(checkpoints, paths, episodes, cluster)
        taken, busy = time.perf_counter() - started, time.process_time() - busy
        return Times(taken, busy, tuple(now - theirs[one] for one, now in computed(cluster).items())), found


def computed(cluster: Cluster | None) -> dict[str, float]:
    """Processor's seconds of each worker."""
    return dict(cluster.client.run(time.process_time)) if cluster is not None else {}


def check_same(one: Batch, other: Batch) -> int:
    """How many numbers were compared; an error if two of them differ."""
    compared = 0
    for name, rows in one.items():
        if len(rows) != len(other[name]):
            raise SystemExit(f"{name}: {len(rows)} rows and {len(other[name])}")
        for mine, theirs in zip(rows, other[name], strict=True):
            for field in ("value", "low", "high"):
                difference = abs(getattr(mine, field) - getattr(theirs, field))
                compared += 1
                if not difference <= TOLERANCE:
                    raise SystemExit(f"{name}: {field} differs by {difference:g}: {mine} and {theirs}")
    return compared


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--episodes", type=int, default=1_000)
    options.add_argument("--recipes", type=int, default=0, help="how many of them; 0: all")
    options.add_argument("--checkpoints", type=int, default=len(CHECKPOINTS))
    options.add_argument("--threads", action="store_true", help="also this process alone, with all its torch threads")
    chosen = options.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    paths = sorted((RECIPES / "paper").glob("*.yaml"))[: chosen.recipes or None]
    names = CHECKPOINTS[: chosen.checkpoints]
    print(
        f"{len(paths)} recipes of the paper on {len(names)} checkpoints, {chosen.episodes:,} episodes each", flush=True
    )
    sides = {"1 worker": 1, "2 workers": 2} | ({"no workers": None} if chosen.threads else {})
    times: dict[str, Times] = {}
    first: Batch = {}
    for side, workers in sides.items():
        times[side], found = timed(names, paths, chosen.episodes, workers)
        first = first or found
        compared = check_same(first, found)
        one, mine = times["1 worker"], times[side]
        print(
            f"  {side:10} {mine.seconds:8.1f} s   {one.seconds / mine.seconds:5.2f} x as fast as one worker   "
            f"computed: command {mine.command:.1f} s, workers {', '.join(f'{each:.1f}' for each in mine.workers)} s, "
            f"so {mine.least:.1f} s on {CORES} free cores ({one.least / mine.least:.2f} x)"
            f"   ({compared:,} numbers the same to {TOLERANCE:g})", flush=True,
        )  # fmt: skip


if __name__ == "__main__":
    main()
