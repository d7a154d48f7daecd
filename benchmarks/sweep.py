"""Sweeps side by side: steer, plain PyTorch hooks, plain nnsight, and pyvene where it is installed.

    python benchmarks/sweep.py            # all three sweeps, then how time grows; about four minutes on two cores
    python benchmarks/sweep.py --episodes 2000 --rounds 5          # closer to a paper's numbers; over half an hour

1. K sweep: keep-only-one over all encoder heads into one cross-attention head's K, attention accuracy.
2. Chain: layer-0 heads -> an encoder head's V -> the cross-attention head's K.
3. Full ablation: each head's z mean-ablated in turn, every run to the logits, exact match.

The other sides are written the way a researcher writes them: one full forward pass for each head. All sides must give
the same numbers, which is checked before any ratio is printed. Sides take turns, because machines are noisy: read the
ratios, not the seconds. Weights are random (the time does not depend on them). Peak memory is that of a command of
its own for each side of the K sweep.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from other_sides import (
    ALL_HEADS,
    OUTPUT_HEAD,
    PAIRING_HEAD,
    Numbers,
    chain_sweep,
    full_sweep,
    hook_forward,
    k_sweep,
    nnsight_forward,
    pyvene_forward,
)
from peak import peak_kilobytes

from steer.experiments.api import build_recipe
from steer.experiments.one import run_experiment
from steer.models.checkpoint import Checkpoint, Record
from steer.models.plain.config import ModelConfig
from steer.models.plain.transformer import Transformer, initialise
from steer.recipe.load import Loaded
from steer.tasks.compositional.episode import Episode


def make_checkpoint() -> Checkpoint:
    model = Transformer(ModelConfig())
    initialise(model, torch.Generator().manual_seed(0))
    return Checkpoint(
        model.requires_grad_(False), Record(config=ModelConfig(), seed=0, protocol={}, history=[]), "bench"
    )


# The same questions as recipes.

ATTENTION = [{"name": "attention-accuracy", "heads": f"dec-cross-1.{OUTPUT_HEAD}"}]
FROZEN = f"dec-cross-1.{OUTPUT_HEAD}.q"


def k_recipe(count: int, sources: str = "enc-self-*.*") -> Loaded:
    return build_recipe(
        kind="keep-only-one", target=f"dec-cross-1.{OUTPUT_HEAD}.k", sources=sources, freeze=FROZEN,
        episodes={"split": "train", "count": count}, measures=ATTENTION,
    )  # fmt: skip


def chain_recipe(count: int) -> Loaded:
    return build_recipe(
        kind="chained-patch", sources="enc-self-0.*", freeze=FROZEN, measures=ATTENTION,
        chain=[f"enc-self-1.{PAIRING_HEAD}.v", f"dec-cross-1.{OUTPUT_HEAD}.k"],
        episodes={"split": "train", "count": count},
    )  # fmt: skip


def steer_sweep(recipe: Loaded, checkpoint: Checkpoint) -> Numbers:
    rows = run_experiment(recipe, checkpoint).rows
    return [row.value for row in rows if row.position is None and not row.end]


def steer_full(checkpoint: Checkpoint, count: int) -> Numbers:
    """A head at a time, all of them sharing one clean run: one plan with a run for each head."""
    from steer.anatomy.nodes import Site
    from steer.engine.engine import Engine
    from steer.engine.session import Inputs, Session
    from steer.measures.answers import exact_match
    from steer.plan.plan import CLEAN, Edit, Mean, Run, make_plan

    reads = (checkpoint.names.layout.logits,)
    edits = {name: Edit(Site(checkpoint.names.head(name), "z"), Mean()) for name in ALL_HEADS}
    runs = [Run(name, (edit,), reads, condition=name) for name, edit in edits.items()]
    right = dict.fromkeys(ALL_HEADS, 0.0)
    for found in Session(Engine(checkpoint.model), make_plan(Run(CLEAN), runs), Inputs(chosen_episodes(count))):
        hits, _ = exact_match(found.values[reads[0]], found.batch.target, checkpoint.vocabulary.pad)
        right[found.run.name] += float(hits.sum())
    return [hits / count for hits in right.values()]


def chosen_episodes(count: int) -> list[Episode]:
    """The episodes that a recipe with this count means."""
    from steer.tasks.compositional.selection import Episodes, select

    return select(Episodes(split="train", count=count), 0)


def sides(kind: str, checkpoint: Checkpoint, count: int) -> dict[str, Callable[[], Numbers]]:
    episodes = chosen_episodes(count)
    by_hand = {"k": k_sweep, "chain": chain_sweep, "full": full_sweep}[kind]
    mine = {
        "k": lambda: steer_sweep(k_recipe(count), checkpoint),
        "chain": lambda: steer_sweep(chain_recipe(count), checkpoint),
        "full": lambda: steer_full(checkpoint, count),
    }[kind]
    forwards = {"plain hooks": hook_forward, "plain nnsight": nnsight_forward}
    if importlib.util.find_spec("pyvene"):
        forwards["pyvene"] = pyvene_forward
    return {"steer": mine} | {n: partial(by_hand, f, checkpoint, episodes) for n, f in forwards.items()}


def timed(work: Callable[[], Numbers]) -> tuple[float, Numbers]:
    started = time.perf_counter()
    numbers = work()
    return time.perf_counter() - started, numbers


def tell(text: str) -> None:
    """What is being done, on the error stream: the tables alone can be kept."""
    print(f"  … {text}", file=sys.stderr, flush=True)


def compare(kind: str, checkpoint: Checkpoint, count: int, rounds: int) -> None:
    times: dict[str, list[float]] = {}
    for turn in range(rounds):
        answers = {}
        for name, work in sides(kind, checkpoint, count).items():
            tell(f"{kind} sweep, round {turn + 1} of {rounds}: {name}")
            seconds, answers[name] = timed(work)
            times.setdefault(name, []).append(seconds)
        for name, numbers in answers.items():
            # Float32 sums in another order may tip an arg-max in a few of thousands of steps.
            np.testing.assert_allclose(numbers, answers["steer"], atol=2e-3, err_msg=f"{kind}: {name} disagrees")
    print(f"\n{kind} sweep, {count:,} episodes (same numbers on all sides)")
    for name, taken in times.items():
        ratio = statistics.median(b / a for a, b in zip(times["steer"], taken, strict=True))
        print(f"  {name:15} {statistics.median(taken):8.2f} s   {ratio:6.2f} x steer's time", flush=True)


def growth(checkpoint: Checkpoint) -> None:
    print("\nhow steer's K sweep grows")
    base = 0.0
    for count in (250, 500, 1_000, 2_000):
        tell(f"{count:,} episodes")
        seconds = min(timed(lambda: steer_sweep(k_recipe(count), checkpoint))[0] for _ in range(2))  # noqa: B023
        base = base or seconds
        print(f"  {count:5,} episodes, 16 sources: {seconds / base:5.2f} x the time of 250", flush=True)
    for pattern, number in (("enc-self-0.0", 1), ("enc-self-0.*", 8), ("enc-self-*.*", 16)):
        tell(f"{number} sources")
        recipe = k_recipe(1_000, pattern)
        seconds = min(timed(lambda: steer_sweep(recipe, checkpoint))[0] for _ in range(2))  # noqa: B023
        print(f"  1,000 episodes, {number:2} sources: {seconds / base:5.2f} x the time of 250 episodes, 16 sources")


def peak(name: str, count: int) -> None:
    sides("k", make_checkpoint(), count)[name]()
    print(f"  {name:15} {peak_kilobytes() / 2**20:6.2f} GiB", flush=True)


def memory(count: int) -> None:
    print(f"\npeak memory of a K sweep over {count:,} episodes (a command each, PyTorch itself included)", flush=True)
    for name in ("steer", "plain hooks", "plain nnsight"):
        tell(f"memory of {name}")
        command = [sys.executable, __file__, "--peak", name, "--episodes", str(count)]
        subprocess.run(command, check=True)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--episodes", type=int, default=250)
    options.add_argument("--rounds", type=int, default=2)
    options.add_argument("--peak", help=argparse.SUPPRESS)  # one side of the memory table, in this very process
    options.add_argument("--only", choices=("k", "chain", "full", "growth", "memory"))
    chosen = options.parse_args()
    if chosen.peak:
        peak(chosen.peak, chosen.episodes)
        return
    checkpoint = make_checkpoint()
    for kind in ("k", "chain", "full"):
        if chosen.only in (None, kind):
            compare(kind, checkpoint, chosen.episodes, chosen.rounds)
    if chosen.only in (None, "growth"):
        growth(checkpoint)
    if chosen.only in (None, "memory"):
        memory(chosen.episodes)


if __name__ == "__main__":
    main()
