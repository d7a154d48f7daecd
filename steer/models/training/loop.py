"""The training loop: a protocol and a seed in, a checkpoint folder out.

Everything random in a step is seeded by (seed, step), everything random in an epoch by (seed, epoch). So the whole
state between two epochs is the weights, the optimiser's moments and a few counters, kept in one file that is
replaced atomically: a run that is killed goes on from its last epoch and ends with the same weights.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save
from torch import Tensor
from torch.nn import functional as F

from steer.base.errors import CheckpointError, SteerError
from steer.base.files import write_atomically
from steer.base.json import Json
from steer.models.batch import Batch, collate
from steer.models.checkpoint import Checkpoint, Record, check_tensors, save_checkpoint
from steer.models.decoding import score_all
from steer.models.plain.dropout import Source, dropouts, share_source
from steer.models.plain.transformer import MLP, Attention, Transformer, initialise
from steer.models.record import Epoch
from steer.models.training.protocol import Protocol, Stage
from steer.models.training.state import STATE, read_state
from steer.models.vocabulary import Vocabulary
from steer.tasks import TASKS

LOG = "log.jsonl"
MOMENTS = ("exp_avg", "exp_avg_sq", "step")  # what AdamW keeps for each parameter


@dataclass
class Progress:
    """Where training stands; with the weights and moments it is all that resuming needs."""

    stage: int = 0
    epoch: int = 0  # within the stage
    epochs: int = 0  # in all
    steps: int = 0
    presentations: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class Event:
    """The loop's progress, for a progress bar."""

    stage: Stage
    epoch: int
    step: int  # within the epoch
    steps: int
    loss: float
    validation: float | None


class Trainer:
    def __init__(self, protocol: Protocol, seed: int, device: str = "cpu") -> None:
        self.protocol, self.seed, self.device = protocol, seed, device
        self.task = TASKS[protocol.task]
        self.vocabulary = Vocabulary(self.task.tokens)
        self.counted = self.vocabulary.encode(token for token in self.task.tokens if self.task.counts(token))
        model = Transformer(protocol.model)
        initialise(model, torch.Generator().manual_seed(seed))
        for stage in protocol.stages:  # an MLP that starts silent must change nothing at first when it is switched on
            for mlp in mlps(model, stage.silent):
                torch.nn.init.zeros_(mlp.W_out.weight)
            silent_output(model, stage).zero_()
        self.model = model.to(device)
        self.source: Source = share_source(self.model)
        settings = protocol.optimiser
        self.optimiser = torch.optim.AdamW(
            self.model.parameters(), betas=settings.betas, weight_decay=settings.weight_decay, fused=True
        )
        self.progress = Progress()
        self.history: list[Epoch] = []
        self.before: Json | None = None  # what the weights were trained on before this protocol

    def begin_from(self, start: Checkpoint) -> None:
        """Start from a checkpoint's weights. What it was trained on before stays part of the record."""
        mine, its = vars(self.protocol.model), vars(start.record.config)
        # Positions are computed, not learnt: a model may be trained on with longer prompts.
        differ = [f"{n} {its[n]} (protocol: {mine[n]})" for n in mine if mine[n] != its[n] and n != "max_length"]
        if differ:
            raise CheckpointError(f"{start.name} is another model: {', '.join(differ)}")
        if start.record.data_seed != self.protocol.data_seed:
            raise CheckpointError(f"{start.name} was trained on other episodes: data_seed {start.record.data_seed}")
        self.model.load_state_dict(start.transformer.state_dict())
        before = start.record
        self.before = {"seed": before.seed, "weights_sha256": before.weights_sha256, "protocol": before.protocol}
        self.history = list(before.history)
        last: Epoch = self.history[-1] if self.history else {}
        # Counters go on from there, so that no epoch is drawn twice.
        self.progress.epochs, self.progress.steps = len(self.history), last.get("steps", 0)
        self.progress.presentations, self.progress.seconds = last.get("presentations", 0), last.get("seconds", 0.0)

    def run(self, folder: Path, tell: Callable[[Event], None] = lambda event: None) -> None:
        """Train to the end. State, log and checkpoint are written to the folder after every epoch."""
        stages = self.protocol.stages
        while self.progress.stage < len(stages):
            entry = self.run_epoch(stages[self.progress.stage], tell)
            self.history.append(entry)
            self.save(folder)

    def run_epoch(self, stage: Stage, tell: Callable[[Event], None]) -> Epoch:
        started, at = time.perf_counter(), self.progress
        batches = self.batches(stage)
        last = self.history[-1]["validation_exact"] if self.history else None
        loss_sum, exact = 0.0, 0
        self.model.train()
        self.enter(stage)
        for number, batch in enumerate(batches):
            done = (at.epoch + number / len(batches)) / stage.epochs
            rate = learning_rate(stage, done, at.epoch + (number + 1) / len(batches))
            loss, hits = self.step(batch, rate, stage.noise)
            loss_sum, exact = loss_sum + loss, exact + hits
            tell(Event(stage, at.epoch, number + 1, len(batches), loss_sum / (number + 1), last))
        shown = sum(map(len, batches))
        at.presentations += shown
        at.epochs += 1
        at.seconds += time.perf_counter() - started
        entry: Epoch = {
            "stage": stage.name,
            "epoch": at.epoch + 1,
            "steps": at.steps,
            "presentations": at.presentations,
            "loss": round(loss_sum / len(batches), 5),
            "train_exact": round(exact / shown, 4),
            "validation_exact": round(self.validate(), 4),
            "seconds": round(at.seconds, 1),
        }
        self.advance(stage, exact / shown)
        return entry

    def batches(self, stage: Stage) -> list[Batch]:
        """Every batch of the epoch that comes next, as token ids."""
        drawn = self.task.epoch(stage, self.protocol.data_seed, self.seed, self.progress.epochs)
        return [collate(examples, self.vocabulary) for examples in drawn]

    def enter(self, stage: Stage) -> None:
        """Set what a stage changes in the model: the dropout rate, and which MLPs are silent."""
        for module in dropouts(self.model):
            module.set_rate(self.protocol.model.dropout if stage.dropout is None else stage.dropout)
        for mlp in mlps(self.model, "all"):
            mlp.silent = False
        for mlp in mlps(self.model, stage.silent):
            mlp.silent = True
        with torch.no_grad():  # reset to zero, so that enabling them later changes nothing at first
            for mlp in mlps(self.model, stage.silent):
                mlp.W_out.weight.zero_()
                mlp.W_out.bias.zero_()
            silent_output(self.model, stage).zero_()
            for moment in self.optimiser.state.get(last_cross(self.model).W_O.weight, {}).values():
                if moment.ndim == 2:  # not the count of steps
                    silent_part(moment, self.model, stage).zero_()

    def step(self, batch: Batch, rate: float, noise: float = 0.0) -> tuple[float, int]:
        """One update. Returns the loss, and how many sequences were right before it."""
        self.source.seed(self.seed, self.progress.steps)
        batch = replace(batch, output=noisy(batch.output, noise, (self.seed, self.progress.steps), self.counted))
        if self.device != "cpu":
            torch.manual_seed(hash((self.seed, self.progress.steps)))  # the stock dropout used there
        prompt, output, target = (
            torch.from_numpy(a).to(self.device) for a in (batch.prompt, batch.output, batch.target)
        )
        logits = self.model(prompt, output)
        loss = F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=self.vocabulary.pad)
        if not loss.isfinite():
            raise SteerError(
                f"the loss is {loss.item()} at step {self.progress.steps + 1}; the last epoch's state is kept"
            )
        self.optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.silence_gradients()
        if self.protocol.optimiser.clip is not None:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.protocol.optimiser.clip)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.optimiser.step()
        self.progress.steps += 1
        right = ((logits.argmax(-1) == target) | (target == self.vocabulary.pad)).all(-1).sum()
        return loss.item(), int(right)

    def silence_gradients(self) -> None:
        """Heads that are silent in this stage write nothing yet: their part of W_O stays at zero."""
        stage = self.protocol.stages[self.progress.stage]
        if stage.output_heads is not None:
            silent_output(self.model, stage, gradient=True).zero_()

    def validate(self) -> float:
        """Exact match on the validation episodes, with the stage's silent parts silent."""
        self.model.eval()
        validation = self.task.split(self.task.splits[-2], self.protocol.data_seed)
        return float(score_all(self.model, validation, self.vocabulary).exact.mean())

    def advance(self, stage: Stage, train_exact: float) -> None:
        self.progress.epoch += 1
        reached = stage.until is not None and train_exact >= stage.until
        if reached or self.progress.epoch == stage.epochs:
            self.progress.stage, self.progress.epoch = self.progress.stage + 1, 0

    def save(self, folder: Path) -> None:
        write_atomically(folder / STATE, self._state())
        write_atomically(folder / LOG, "".join(json.dumps(entry) + "\n" for entry in self.history))
        save_checkpoint(folder, self.model, self.record())

    def record(self) -> Record:
        return Record(
            description=self.protocol.description,
            config=self.protocol.model,
            task=self.task.name,
            vocabulary=self.vocabulary.tokens,
            seed=self.seed,
            protocol=self.protocol.model_dump(mode="json") | ({"began_from": self.before} if self.before else {}),
            history=self.history,
        )

    def _state(self) -> bytes:
        tensors = {f"model.{name}": tensor for name, tensor in self.model.state_dict().items()}
        for name, parameter in self.model.named_parameters():
            for moment, value in self.optimiser.state.get(parameter, {}).items():  # none yet for what was silent
                tensors[f"{moment}.{name}"] = value
        state = {"seed": self.seed, "protocol": self.protocol.model_dump(mode="json"), "history": self.history}
        state |= {"progress": vars(self.progress), "before": self.before}
        return save({n: t.detach().cpu().contiguous() for n, t in tensors.items()}, {"steer": json.dumps(state)})

    def resume(self, folder: Path) -> None:
        """Continue from the state that an earlier run left in the folder. The protocol must be the same."""
        state = read_state(folder)
        if (state.seed, state.settings) != (self.seed, self.protocol.model_dump(mode="json")):
            raise CheckpointError(f"{folder} holds a run of another protocol or seed; give the same, or --overwrite")
        tensors = state.tensors
        weights = {name.removeprefix("model."): t for name, t in tensors.items() if name.startswith("model.")}
        check_tensors(weights, self.model.state_dict(), str(state.path))
        self.model.load_state_dict(weights)
        for name, parameter in self.model.named_parameters():
            if f"step.{name}" in tensors:
                self.optimiser.state[parameter] = {m: tensors[f"{m}.{name}"].to(self.device) for m in MOMENTS}
        self.progress, self.history, self.before = Progress(**state.progress), state.history, state.before


def mlps(model: Transformer, whose: str) -> list[MLP]:
    stacks = {"none": [], "decoder": [model.dec], "all": [model.enc, model.dec]}[whose]
    return [module for stack in stacks for module in stack.modules() if isinstance(module, MLP)]


def silent_output(model: Transformer, stage: Stage, gradient: bool = False) -> Tensor:
    """The part of the last cross-attention's W_O (or of its gradient) whose heads are silent in a stage."""
    parameter = last_cross(model).W_O.weight
    whole = parameter.grad if gradient else parameter.detach()
    assert whole is not None
    return silent_part(whole, model, stage)


def silent_part(whole: Tensor, model: Transformer, stage: Stage) -> Tensor:
    heads = model.config.heads if stage.output_heads is None else stage.output_heads
    return whole[:, heads * model.config.d_head :]


def last_cross(model: Transformer) -> Attention:
    block = model.dec[-1]["cross_attn"]  # type: ignore[index]
    assert isinstance(block, Attention)
    return block


def noisy(output: NDArray[np.int64], share: float, key: tuple[int, int], counted: list[int]) -> NDArray[np.int64]:
    """The decoder's input with a share of the scored tokens replaced by random ones of them."""
    if share == 0:
        return output
    rng = np.random.default_rng(key)
    hit = np.isin(output, counted) & (rng.random(output.shape) < share)
    return np.where(hit, rng.choice(counted, output.shape), output)


def learning_rate(stage: Stage, done: float, epochs: float) -> float:
    """Linear from the stage's first rate to its last, after a linear warm-up of some epochs."""
    first, last = stage.lr
    warm = min(1.0, epochs / stage.warmup) if stage.warmup else 1.0
    return (first + (last - first) * done) * warm
