"""Where N processes of one thread beat one process of N threads: the same sweep on models of growing width.

    python benchmarks/threads.py
    python benchmarks/threads.py --widths 128 512 --sweeps 2

N is the number of cores. A sweep keeps one head's path at a time (keep-only-one) on models with random weights; only
the sweeps are timed, not what it takes to start. `rows` says whether all sides have the same numbers.

Run it on a free machine. `computed` is the processor's time of the leading thread, which must be near the seconds that
went by. Where it is far below, others had the cores; threads then also spin while they wait for one another.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from typing import Any

import torch

from steer.engine.engine import Engine
from steer.experiments.api import build_recipe
from steer.experiments.one import run_experiment
from steer.models.checkpoint import Checkpoint, Record
from steer.models.plain.config import ModelConfig
from steer.models.plain.transformer import Transformer, initialise

CORES = len(os.sched_getaffinity(0))
TOLERANCE = 1e-6


def made(width: int) -> Checkpoint:
    config = ModelConfig(d_model=width, d_head=width // 8, d_ff=4 * width)
    model = Transformer(config)
    initialise(model, torch.Generator().manual_seed(0))
    return Checkpoint(model.requires_grad_(False), Record(config=config, seed=0, protocol={}, history=[]), "bench")


def work(width: int, sweeps: int, episodes: int) -> None:
    """Sweeps in this very process; waits for a line before it begins, so that all begin at once."""
    checkpoint = made(width)
    measures = [{"name": "attention-accuracy", "heads": "dec-cross-1.0"}]
    keys: dict[str, Any] = {"target": "dec-cross-1.0.k", "sources": "enc-self-1.*", "measures": measures}
    recipe = build_recipe("sweep", kind="keep-only-one", **keys, episodes={"split": "train", "count": episodes})
    run_experiment(recipe, checkpoint, engine=Engine(checkpoint.model))  # what is drawn and compiled once
    print("ready", flush=True)
    sys.stdin.readline()
    started, busy = time.perf_counter(), time.thread_time()  # of the leading thread
    for _ in range(sweeps):
        rows = run_experiment(recipe, checkpoint, engine=Engine(checkpoint.model)).rows
    taken = time.perf_counter() - started, time.thread_time() - busy
    print(json.dumps([*taken, [value for row in rows for value in (row.value, row.low, row.high)]]), flush=True)


def timed(width: int, sweeps: int, episodes: int, processes: int, threads: int) -> tuple[float, float, list[float]]:
    """Seconds until the last process is done, the most that a leading thread computed, and the numbers."""
    words = [sys.executable, __file__, "--work", str(width), str(sweeps // processes), str(episodes)]
    environment = os.environ | {f"{library}_NUM_THREADS": str(threads) for library in ("OMP", "MKL")}
    started = [
        subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        for _ in range(processes)
    ]
    for one in started:
        assert one.stdout is not None
        one.stdout.readline()
    for one in started:
        assert one.stdin is not None
        one.stdin.write("go\n")
        one.stdin.flush()
    found = [json.loads(one.communicate()[0]) for one in started]
    return max(one[0] for one in found), max(one[1] for one in found), found[0][2]


def compare(width: int, sweeps: int, episodes: int) -> None:
    threads = timed(width, sweeps, episodes, 1, CORES)
    processes = timed(width, sweeps, episodes, CORES, 1)
    apart = max(abs(a - b) for a, b in zip(threads[2], processes[2], strict=True))
    same = "the same" if apart <= TOLERANCE else f"differ by {apart:g}"
    print(
        f"  width {width:5}   1 x {CORES} threads {threads[0]:6.1f} s ({threads[1]:5.1f} computed)   "
        f"{CORES} x 1 thread {processes[0]:6.1f} s ({processes[1]:5.1f})   "
        f"{threads[0] / processes[0]:5.2f} x   rows {same}",
        flush=True,
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--widths", type=int, nargs="+", default=[128, 256, 512])
    options.add_argument("--sweeps", type=int, default=2 * CORES, help="in all; a multiple of the number of cores")
    options.add_argument("--episodes", type=int, default=500)
    options.add_argument("--work", type=int, nargs=3, help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.work:
        work(*chosen.work)
        return
    print(f"{chosen.sweeps} sweeps over {chosen.episodes} episodes, {CORES} cores", flush=True)
    for width in chosen.widths:
        compare(width, chosen.sweeps, chosen.episodes)


if __name__ == "__main__":
    main()
