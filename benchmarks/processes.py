"""`steer run` on several recipes: one process with one thread, one with all threads, and processes of one thread.

    python benchmarks/processes.py
    python benchmarks/processes.py --episodes 100 --recipes 2 4       # a quick look

Whole commands are timed, with what it takes to start Python and import torch in every process, on small models (the
shipped ones). Their numbers must be the same. The ratio is to one process with all threads.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from steer.base.shipped import RECIPES

CORES = len(os.sched_getaffinity(0))
SIDES = {"1 process, 1 thread": (1, 1), f"1 process, {CORES} threads": (1, CORES), f"{CORES} processes": (CORES, 1)}
TOLERANCE = 1e-6
Numbers = dict[str, list[tuple[str, float, float, float]]]


def timed(paths: Sequence[Path], episodes: int, jobs: int, threads: int) -> tuple[float, Numbers]:
    with tempfile.TemporaryDirectory() as folder:
        words = [*map(str, paths), f"episodes.count={episodes}", "checkpoint=seed1", "--out", folder, "--json"]
        command = [sys.executable, "-m", "steer", "run", *words, "--quiet", "--jobs", str(jobs)]
        started = time.perf_counter()
        done = subprocess.run(
            command, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": str(threads)}
        )
        taken = time.perf_counter() - started
    if done.returncode:
        raise SystemExit(done.stderr)
    found = json.loads(done.stdout)
    return taken, {one["name"]: numbers_of(one["rows"]) for one in (found if isinstance(found, list) else [found])}


def numbers_of(rows: Sequence[dict[str, object]]) -> list[tuple[str, float, float, float]]:
    return [(str(row["condition"]), *(float(str(row[name])) for name in ("value", "low", "high"))) for row in rows]  # type: ignore[misc]


def check_same(one: Numbers, other: Numbers) -> None:
    for name, rows in one.items():
        for mine, theirs in zip(rows, other[name], strict=True):
            if any(abs(a - b) > TOLERANCE for a, b in zip(mine[1:], theirs[1:], strict=True)):
                raise SystemExit(f"{name}: {mine} and {theirs}")


def compare(paths: Sequence[Path], episodes: int) -> None:
    print(f"\n{len(paths)} recipes, {episodes:,} episodes each", flush=True)
    first: Numbers = {}
    times: dict[str, float] = {}
    for side, (jobs, threads) in SIDES.items():
        times[side], found = timed(paths, episodes, jobs, threads)
        first = first or found
        check_same(first, found)
    whole = times[f"1 process, {CORES} threads"]
    for side, taken in times.items():
        print(f"  {side:22} {taken:7.1f} s   {whole / taken:5.2f} x", flush=True)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--recipes", type=int, nargs="+", default=[2, 4, 8])
    options.add_argument("--episodes", type=int, nargs="+", default=[100, 1_000])
    chosen = options.parse_args()
    paths = sorted((RECIPES / "paper").glob("*.yaml"))
    for episodes in chosen.episodes:
        for count in chosen.recipes:
            compare(paths[:count], episodes)


if __name__ == "__main__":
    main()
