"""Training throughput: steer's trainer against the same architecture on `torch.nn.Transformer`.

    python benchmarks/train.py            # about a minute on one core

Both sides run the paper's sizes, dropout 0.1, batches of 25 of the 10,000 training episodes and AdamW. The reference
is what one would write first: stock layers, stock dropout, episodes in random order, padded to the longest of the
batch. The two take turns so that a noisy machine treats them alike; the figure to read is the ratio.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from steer.base.dice import Dice
from steer.base.shipped import DEFAULT_TASK
from steer.models.batch import Batch, collate
from steer.models.plain.config import ModelConfig
from steer.models.plain.transformer import sinusoids
from steer.models.training.loop import Trainer
from steer.models.training.protocol import Protocol, protocol_for
from steer.models.vocabulary import PAD, Vocabulary
from steer.tasks import TASKS
from steer.tasks.compositional.splits import make_splits
from steer.tasks.compositional.vocabulary import TOKENS


class Reference(nn.Module):
    """The paper's model from PyTorch's own parts."""

    positions: Tensor

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.transformer = nn.Transformer(
            config.d_model, config.heads, config.encoder_layers, config.decoder_layers, config.d_ff, config.dropout,
            activation="gelu", batch_first=True, norm_first=True,
        )  # fmt: skip
        self.source = nn.Embedding(config.vocabulary, config.d_model)
        self.target = nn.Embedding(config.vocabulary, config.d_model)
        self.unembed = nn.Linear(config.d_model, config.vocabulary)
        self.dropout = nn.Dropout(config.dropout)
        self.register_buffer("positions", sinusoids(config))

    def forward(self, prompt: Tensor, output: Tensor) -> Tensor:
        source = self.dropout(self.source(prompt) + self.positions[: prompt.shape[1]])
        target = self.dropout(self.target(output) + self.positions[: output.shape[1]])
        future = torch.ones(output.shape[1], output.shape[1], dtype=torch.bool).triu(1)
        padding = prompt == PAD
        hidden = self.transformer(
            source, target, tgt_mask=future, src_key_padding_mask=padding, memory_key_padding_mask=padding
        )
        logits: Tensor = self.unembed(hidden)
        return logits


def paper_protocol() -> Protocol:
    """The paper's sizes, and stages that say which of the task's episodes are shown."""
    made: Protocol = protocol_for(TASKS[DEFAULT_TASK])()
    return made


def reference_step(protocol: Protocol) -> Callable[[Batch], None]:
    model = Reference(protocol.model).train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=protocol.optimiser.betas)

    def step(batch: Batch) -> None:
        prompt, output, target = map(torch.from_numpy, (batch.prompt, batch.output, batch.target))
        logits = model(prompt, output)
        loss = F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=PAD)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()

    return step


def reference_batches(size: int = 25) -> Iterator[Batch]:
    episodes = Dice(0, "reference").shuffled(make_splits().train)
    while True:
        yield from (collate(episodes[i : i + size], Vocabulary(TOKENS)) for i in range(0, len(episodes), size))


def steer_batches(protocol: Protocol) -> Iterator[Batch]:
    for epoch in range(1_000):
        drawn = TASKS[protocol.task].epoch(protocol.stages[0], 0, 0, epoch)
        yield from (collate(examples, Vocabulary(TOKENS)) for examples in drawn)


def examples_per_second(step: Callable[[Batch], object], batches: Iterator[Batch], steps: int) -> float:
    shown, started = 0, time.perf_counter()
    for batch, _ in zip(batches, range(steps), strict=False):
        step(batch)
        shown += len(batch)
    return shown / (time.perf_counter() - started)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=6)
    options.add_argument("--steps", type=int, default=40, help="steps of each side in a round")
    options.add_argument("--threads", type=int, default=1)
    chosen = options.parse_args()
    torch.set_num_threads(chosen.threads)
    protocol = paper_protocol()
    trainer = Trainer(protocol, seed=0)
    trainer.model.train()
    sides: dict[str, tuple[Callable[[Batch], object], Iterator[Batch]]] = {
        "steer": (lambda batch: trainer.step(batch, 1e-3), steer_batches(protocol)),
        "torch.nn.Transformer": (reference_step(protocol), reference_batches()),
    }
    speeds: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(chosen.rounds + 1):  # the first round warms up
        print(f"  … training steps, round {turn} of {chosen.rounds}", file=sys.stderr, flush=True)
        for name, (step, batches) in sides.items():
            speed = examples_per_second(step, batches, chosen.steps)
            if turn:
                speeds[name].append(speed)
    ratios = [a / b for a, b in zip(*speeds.values(), strict=True)]
    for name, values in speeds.items():
        print(f"{name:22} {statistics.median(values):7.0f} examples/s (median of {len(values)} rounds)")
    print(f"{'ratio':22} {statistics.median(ratios):7.2f} (from {min(ratios):.2f} to {max(ratios):.2f})")


if __name__ == "__main__":
    main()
