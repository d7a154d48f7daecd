"""How many sequences until the first two questions are learnt, one choice of the protocol changed at a time.

    python benchmarks/takeoff.py          # about half an hour on one core

`attention_first` asks "which colour is A?" and then for the colours of one to three symbols in order. Each variant
trains from scratch on these two stages with the same seeds, until 95 % of an epoch's answers are right or the limit is
reached. The figure to read is the ratio to the protocol as it is; times are not compared.
"""

from __future__ import annotations

import argparse
import statistics

import torch

from steer.models.training.load import load_protocol
from steer.models.training.loop import Trainer
from steer.models.training.protocol import Protocol

STAGES = 2
VARIANTS: dict[str, list[str]] = {
    "as it is": [],
    "position scale 1": ["model.position_scale=1"],
    "position scale 4": ["model.position_scale=4"],
    "weight decay 0": ["optimiser.weight_decay=0"],
    "weight decay 0.1": ["optimiser.weight_decay=0.1"],
    "dropout 0.1": ["stages.0.dropout=0.1", "stages.1.dropout=0.1"],
    "with MLPs, d_ff 512": ["stages.0.silent=none", "stages.1.silent=none"],
    "with MLPs, d_ff 128": ["stages.0.silent=none", "stages.1.silent=none", "model.d_ff=128"],
    "betas 0.9, 0.999": ["optimiser.betas=[0.9, 0.999]"],
}


def learnt_after(protocol: Protocol, seed: int, limit: int) -> list[int | None]:
    """Sequences shown in each stage until it was learnt; None where the limit came first."""
    trainer = Trainer(protocol, seed)
    found: list[int | None] = []
    for stage in protocol.stages:
        shown = 0
        while shown < limit:
            before = trainer.progress.presentations
            entry = trainer.run_epoch(stage, lambda event: None)
            shown += trainer.progress.presentations - before
            if entry["train_exact"] >= (stage.until or 1.0):
                found.append(shown)
                break
        else:
            return [*found, *[None] * (len(protocol.stages) - len(found))]
    return found


def told(counts: list[int | None], base: float | None) -> str:
    """Median and range in thousands, and the ratio to the protocol as it is."""
    reached = [count for count in counts if count is not None]
    if len(reached) < len(counts):
        return f"{len(reached)} of {len(counts)} seeds in time"
    middle = statistics.median(reached)
    ratio = f"{middle / base:.2f}x" if base else ""
    return f"{middle / 1000:.0f}k ({min(reached) / 1000:.0f} to {max(reached) / 1000:.0f}) {ratio:>6}"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--limit", type=int, default=150_000, help="sequences in a stage before it is given up")
    options.add_argument("--only", nargs="*", choices=list(VARIANTS), default=list(VARIANTS))
    chosen = options.parse_args()
    torch.set_num_threads(1)
    base: list[float | None] = [None] * STAGES
    for name in chosen.only:
        protocol = load_protocol("attention_first", None, VARIANTS[name])
        short = protocol.model_copy(update={"stages": protocol.stages[:STAGES]})
        counts = [learnt_after(short, seed, chosen.limit) for seed in range(chosen.seeds)]
        columns = [list(column) for column in zip(*counts, strict=True)]
        if name == "as it is":
            base = [statistics.median(column) if None not in column else None for column in columns]
        cells = [told(column, middle) for column, middle in zip(columns, base, strict=True)]
        print(
            f"{name:22}" + "".join(f"{s.name:>8}: {cell:30}" for s, cell in zip(short.stages, cells, strict=True)),
            flush=True,
        )


if __name__ == "__main__":
    main()
