"""How time and memory grow: a K sweep, an activation-patch sweep and a discovery, against episodes, layers and heads.

    python benchmarks/growth.py
    python benchmarks/growth.py --only k --most 1000        # a quick look

Every line is a process of its own (peak memory is then its own). Sweeps are on models with random weights: their time
does not depend on them. A discovery's does (random weights have no circuit, and the search is over at once), so it
is on shipped checkpoints. `doubled` is the processor's time over that of half as many episodes: 2 is linear. Other
work on the machine changes it little, unlike the seconds that go by.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from typing import Any

import torch
from peak import peak_kilobytes

from steer.discover.sought import on_own_task
from steer.discover.trace import THRESHOLD
from steer.engine.engine import Engine
from steer.experiments.api import build_recipe
from steer.experiments.one import run_experiment
from steer.models.checkpoint import Checkpoint, Record, load_checkpoint
from steer.models.plain.config import ModelConfig
from steer.models.plain.transformer import Transformer, initialise
from steer.results.evidence import SearchSettings

EPISODES = (250, 500, 1_000, 2_000, 4_000, 8_000, 10_000)
SEARCHED = (60, 120, 240)  # a discovery takes at most 500 of each kind, and is judged on twice as many
SIZES = ((2, 8), (4, 8), (2, 16))  # layers of each stack, heads of each block
TRAINED = {2: "strict1", 3: "deep"}  # by layers of each stack
MEMORY = 1 << 30  # of a run, so that the budget is full from some thousand episodes on


def made(layers: int, heads: int) -> Checkpoint:
    config = ModelConfig(encoder_layers=layers, decoder_layers=layers, heads=heads)
    model = Transformer(config)
    initialise(model, torch.Generator().manual_seed(0))
    return Checkpoint(model.requires_grad_(False), Record(config=config, seed=0, protocol={}, history=[]), "bench")


def keys_of(kind: str) -> dict[str, Any]:
    if kind == "k":
        measures = [{"name": "attention-accuracy", "heads": "dec-cross-1.0"}]
        return {"kind": "keep-only-one", "target": "dec-cross-1.0.k", "sources": "enc-self-*.*", "measures": measures}
    sites = ["enc-self-*.*.z", "dec-self-*.*.z", "dec-cross-*.*.z"]
    measures = [{"name": "logit-difference", "against": "counterfactual", "steps": "all"}]
    return {"kind": "activation-patch", "variable": "index-in-question", "sites": sites, "measures": measures}


def work(kind: str, count: int, layers: int, heads: int) -> None:
    """One line, in this very process."""
    checkpoint = load_checkpoint(TRAINED[layers]) if kind == "discovery" else made(layers, heads)
    engine = Engine(checkpoint.model, MEMORY // 4, MEMORY)
    started, busy = time.perf_counter(), time.process_time()
    if kind == "discovery":
        on_own_task(checkpoint).circuit(SearchSettings(episodes=count, threshold=THRESHOLD), engine=engine)
    else:
        recipe = build_recipe(kind, **keys_of(kind), episodes={"split": "train", "arity": 2, "count": count})
        run_experiment(recipe, checkpoint, engine=engine)
    taken = {"seconds": time.perf_counter() - started, "processor": time.process_time() - busy}
    print(json.dumps({**taken, "kilobytes": peak_kilobytes()}))


def measured(kind: str, count: int, layers: int = 2, heads: int = 8) -> dict[str, float]:
    command = [sys.executable, __file__, "--work", kind, str(count), str(layers), str(heads)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def told(found: dict[str, float]) -> str:
    return f"{found['seconds']:9.1f} s, {found['processor']:8.1f} s of a core   {found['kilobytes'] / 2**20:6.2f} GiB"


def by_episodes(kind: str, most: int) -> None:
    print(f"\n{kind}: episodes, 2 + 2 layers, 8 heads", flush=True)
    busy: dict[int, float] = {}
    for count in (one for one in (SEARCHED if kind == "discovery" else EPISODES) if one <= most):
        found = measured(kind, count)
        busy[count] = found["processor"]
        half = f"{busy[count] / busy[count // 2]:8.2f}" if count // 2 in busy else " " * 8
        print(f"  {count:6,} {told(found)}   doubled {half}", flush=True)


def by_size(kind: str) -> None:
    sizes = [(layers, 8) for layers in TRAINED] if kind == "discovery" else SIZES
    count = SEARCHED[0] if kind == "discovery" else EPISODES[0]
    print(f"\n{kind}: layers of each stack and heads of each block, {count} episodes", flush=True)
    for layers, heads in sizes:
        found = measured(kind, count, layers, heads)
        print(f"  {layers} layers, {heads:2} heads {told(found)}", flush=True)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", choices=("k", "patch", "discovery"))
    options.add_argument("--most", type=int, default=EPISODES[-1], help="episodes")
    options.add_argument("--work", nargs=4, help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.work:
        kind, *numbers = chosen.work
        work(kind, *map(int, numbers))
        return
    for kind in ("k", "patch", "discovery"):
        if chosen.only in (None, kind):
            by_episodes(kind, chosen.most)
            by_size(kind)


if __name__ == "__main__":
    main()
