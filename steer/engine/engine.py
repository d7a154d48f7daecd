"""Runs a plan over many episodes, batch by batch.

The clean run comes first and leaves behind what the plan's runs start from and draw on; with mean ablation its
sums over all batches give the reference. Then every batch goes through the plan's runs. What the clean run leaves is
kept with the batch while it fits into the budget, also for other plans over the same episodes, and computed again when
it does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache

import torch
from torch import Tensor

from steer.anatomy.names import Shape
from steer.base.errors import SteerError
from steer.engine.ablation import Means, Reference
from steer.engine.backends.local import Change, Tracer
from steer.engine.values import Bench
from steer.models.batch import collate
from steer.models.checkpoint import Checkpoint
from steer.models.decoding import write_greedily
from steer.models.plain.config import ModelConfig
from steer.models.plain.transformer import State
from steer.models.vocabulary import PAD
from steer.plan.plan import (
    Ablated,
    Plan,
    Put,
    Rebuild,
    Recorded,
    Run,
    hook_order,
    start_paths,
    stop_after,
    stream_path,
    writer_path,
)
from steer.recipe.schema import Ablation
from steer.tasks.task import Example

BATCH = 250
BUDGET = 1 << 30  # bytes of clean activations kept in memory
EMBEDDINGS = tuple(f"{stack}_embed.{what}" for stack in ("enc", "dec") for what in ("tok", "pos"))
Values = dict[str, Tensor]


@dataclass(frozen=True)
class Part:
    """One batch: which episodes of the caller's list it holds, and their tokens."""

    number: int
    rows: list[int]
    prompt: Tensor  # B S
    output: Tensor  # B T
    kept: Values = field(default_factory=dict, init=False, compare=False, repr=False)  # of its clean run

    def state(self) -> State:
        return State(self.prompt, self.output)

    def real(self, path: str) -> Tensor:
        return (self.prompt if of_encoder(path) else self.output) != PAD


def of_encoder(path: str) -> bool:
    return path.startswith(("enc", "memory"))


class Engine:
    """A checkpoint ready to run plans."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.model = checkpoint.model
        self.shape = checkpoint.shape
        self.task, self.vocabulary, self.scoring = checkpoint.task, checkpoint.vocabulary, checkpoint.scoring
        self.order = hook_order(self.shape)
        self.tracer = Tracer(self.model)
        self.device = self.model.unembed.weight.device
        self._parts: dict[tuple[tuple[Example, ...], int], list[Part]] = {}

    def parts(self, episodes: Sequence[Example], batch: int = BATCH) -> list[Part]:
        """Episodes of like length together, so that little is padded. The same episodes give the same batches."""
        key = (tuple(episodes), batch)
        if key not in self._parts:
            self._parts[key] = self._make_parts(episodes, batch)
        return self._parts[key]

    def _make_parts(self, episodes: Sequence[Example], batch: int) -> list[Part]:
        by_length = sorted(range(len(episodes)), key=lambda row: len(episodes[row].prompt))
        parts = []
        count = -(-len(episodes) // batch)
        for number in range(count):  # of even size
            rows = by_length[number * len(episodes) // count : (number + 1) * len(episodes) // count]
            tokens = collate([episodes[row] for row in rows], self.vocabulary)
            prompt, output = (torch.from_numpy(a).to(self.device) for a in (tokens.prompt, tokens.output))
            parts.append(Part(number, rows, prompt, output))
        return parts

    def clean(self, part: Part, paths: Iterable[str], keep: bool = False) -> Values:
        """One forward pass without edits, as far as the last hook that is wanted and not kept from an earlier one."""
        wanted = self.sort(paths)
        missing = [path for path in wanted if path not in part.kept]
        found: Values = {}
        if missing:
            state, start = part.state(), "enc.embed"
            if "memory" in part.kept and not any(map(of_encoder, missing)):
                state.memory, start = part.kept["memory"], "dec.embed"
            found = self.tracer.run(state, start, stop_after(self.shape, missing), {}, missing, self.order)
        values = {path: part.kept[path] if path in part.kept else found[path] for path in wanted}
        if keep and self._has_room(part, found):
            part.kept.update(found)
        return values

    def _has_room(self, part: Part, found: Values) -> bool:
        """Is there room for more? If not, the clean runs of other episodes make it."""
        new = _size(found)
        groups = [parts for parts in self._parts.values() if all(one is not part for one in parts)]
        while groups and self._held + new > BUDGET:
            for other in groups.pop(0):
                other.kept.clear()
        return self._held + new <= BUDGET

    @property
    def _held(self) -> int:
        return sum(_size(part.kept) for parts in self._parts.values() for part in parts)

    def sort(self, paths: Iterable[str]) -> list[str]:
        chosen = set(paths)
        return [path for path in self.order if path in chosen]

    def means(self, paths: Iterable[str], parts: Sequence[Part]) -> Means:
        """The mean of each hook over these episodes."""
        wanted, means = self.sort(paths), Means(self.model.config.max_length)
        for part in parts:
            means.add(self.clean(part, wanted), {path: part.real(path) for path in wanted})
        return means

    def gradients(
        self, part: Part, paths: Iterable[str], metric: Callable[[Tensor], Tensor],
        enter: Callable[[str, Tensor], Tensor] = lambda path, value: value,
    ) -> dict[str, tuple[Tensor, Tensor]]:  # fmt: skip
        """The value at each hook, and the gradient there of a number computed from the logits.

        `enter` may change the embeddings that go in (hook and value in, value out).
        """
        wanted = self.sort(paths)
        # The weights are frozen; a graph starts where the embeddings enter.
        grow = {path: [lambda v, met, path=path: enter(path, v).detach().requires_grad_()] for path in EMBEDDINGS}
        with torch.enable_grad():
            found = self.tracer.run(part.state(), "enc.embed", None, grow, [*wanted, "logits"], self.order)
            gradients = torch.autograd.grad(metric(found["logits"]), [found[path] for path in wanted])
        return {path: (found[path].detach(), g) for path, g in zip(wanted, gradients, strict=True)}

    def run(self, run: Run, bench: Bench) -> Values:
        """One run of a plan; what it reads is kept on the bench for the runs that come after it."""
        state = State(bench.state.prompt, bench.state.output)
        for name, path in start_paths(self.shape, run).items():
            setattr(state, name, bench.clean[path])
        changes: dict[str, list[Change]] = {}
        for edit in run.edits:
            changes.setdefault(edit.site.path, []).append(bench.change(edit))
        paths = list(dict.fromkeys(site.path for site in run.reads))
        current = [edit for edit in run.edits if isinstance(edit, Rebuild) and edit.base == "current"]
        met = [stream_path(self.shape, edit.site) for edit in current]  # streams that such edits build on
        try:
            found = self.tracer.run(state, run.start, run.stop, changes, [*paths, *met], self.order)
        except SteerError as error:
            raise SteerError(f"run {run.name!r} failed {error}") from error
        if run.condition is None:
            bench.recorded[run.name] = found
        return found


class Session:
    """One plan over one list of episodes."""

    def __init__(
        self, engine: Engine, plan: Plan, parts: Sequence[Part], ablation: Ablation, seed: int = 0,
        reference: Sequence[Part] | None = None, tell: Callable[[float], None] = lambda done: None,
        counterparts: Sequence[Example] = (),
    ) -> None:  # fmt: skip
        self.engine, self.plan, self.parts, self.tell = engine, plan, parts, tell
        self.counterparts = counterparts
        ablated = ablated_paths(plan, engine.shape)
        own_mean = reference is None and (ablation.value, ablation.over) == ("mean", "position")
        if ablated and own_mean and sum(len(part.rows) for part in parts) == 1:
            raise SteerError("the mean over one episode is that episode: nothing would be ablated")
        if ablation.value == "resample" and any(len(part.rows) < 2 for part in parts):
            raise SteerError("resample needs at least two episodes in every batch")
        self.cached = engine.sort({*plan.cached, *(ablated if ablation.value == "resample" else ())})
        averaged = ablated if ablation.value == "mean" else []
        with torch.no_grad():
            means = self._clean_pass(averaged) if reference is None else engine.means(averaged, reference)
        self.reference = Reference(ablation, means, hook_sizes(engine.model.config, ablated), seed)

    def _clean_pass(self, averaged: list[str]) -> Means:
        """The clean run of every batch: its means, and what is kept of it while it fits into the budget."""
        means = Means(self.engine.model.config.max_length)
        for part in self.parts:
            values = self.engine.clean(part, {*self.cached, *averaged}, keep=True)
            means.add({path: values[path] for path in averaged}, {path: part.real(path) for path in averaged})
            self._told(part.number + 1)
        return means

    @torch.no_grad()
    def results(self) -> Iterator[tuple[Part, str, Values]]:
        """Every (batch, condition, what was read), batch by batch: the clean condition, then the plan's."""
        runs = self.plan.runs
        for done, part in enumerate(self.parts):
            clean = self.engine.clean(part, self.cached)
            if self.plan.clean_condition is not None:
                yield part, self.plan.clean_condition, {site.path: clean[site.path] for site in self.plan.reads}
            bench = self.bench(part, clean)
            for number, run in enumerate(runs):
                found = self.engine.run(run, bench)
                self._told(len(self.parts) + done * len(runs) + number + 1)
                if run.condition is not None:
                    yield part, run.condition, found

    def _told(self, forwards: int) -> None:
        self.tell(forwards / (len(self.parts) * self.plan.forwards))

    def bench(self, part: Part, clean: Values) -> Bench:
        like = self.engine.model.unembed.weight

        def ablated(path: str) -> Tensor:
            return self.reference.value(path, clean, part.real(path), like, part.number)

        other = self.counterpart(part)
        return Bench(self.engine.model, self.engine.shape, clean, cache(ablated), {}, part.state(), other)

    def counterpart(self, part: Part) -> Values:
        """The clean run on the counterparts of a batch, with the same tokens in the decoder."""
        if not self.plan.borrowed:
            return {}
        tokens = collate([self.counterparts[row] for row in part.rows], self.engine.vocabulary)
        prompt = torch.from_numpy(tokens.prompt).to(self.engine.device)
        return self.engine.clean(Part(part.number, part.rows, prompt, part.output), self.plan.borrowed)

    @torch.no_grad()
    def generate(self, condition: str, part: Part) -> Tensor:
        """Greedy answers with a condition's interventions on at every step: token ids, padded.

        "Clean" means the clean run on the tokens written so far, so a frozen site follows the model's own answer.
        """
        runs = condition_runs(self.plan, condition)
        wanted = {*(self.cached if runs else ()), "logits"}
        # The encoder does not see what is written: its part of the clean run is computed once.
        encoder = self.engine.clean(part, {*filter(of_encoder, wanted), "memory"})

        def next_logits(output: Tensor) -> Tensor:
            now = Part(part.number, part.rows, part.prompt, output)
            now.kept.update(encoder)
            values = self.engine.clean(now, wanted)
            bench = self.bench(now, values)
            for run in runs:
                values = self.engine.run(run, bench)
            return values["logits"][:, -1]

        return write_greedily(part.prompt, next_logits, self.engine.vocabulary, self.engine.task.longest_answer)


def _size(values: Values) -> int:
    return sum(value.nbytes for value in values.values())


def hook_sizes(config: ModelConfig, paths: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """The sizes of hooks' values behind episode and token: heads and d_head, or d_model."""
    return {path: (config.heads, config.d_head) if path.endswith(".z") else (config.d_model,) for path in paths}


def ablated_paths(plan: Plan, shape: Shape) -> list[str]:
    """The hooks whose ablation value the plan needs."""
    paths: set[str] = set()
    for run in plan.runs:
        for edit in run.edits:
            if isinstance(edit, Put):
                paths |= {edit.site.path} if isinstance(edit.value, Ablated) else set()
            else:
                nodes = shape.sources(edit.site) if edit.base == "ablated" else []
                nodes = [*nodes, *(node for node, origin in edit.changes if isinstance(origin, Ablated))]
                paths |= {writer_path(node) for node in nodes}
    return [path for path in hook_order(shape) if path in paths]


def condition_runs(plan: Plan, condition: str) -> list[Run]:
    """The run of a condition after the runs whose records it draws on; none for the clean condition."""
    by_name = {run.name: run for run in plan.runs}
    wanted = [run for run in plan.runs if run.condition == condition]
    found: list[Run] = []
    while wanted:
        run = wanted.pop()
        found.insert(0, run)
        changes = [c for edit in run.edits if isinstance(edit, Rebuild) for c in edit.changes]
        wanted += [by_name[origin.run] for _, origin in changes if isinstance(origin, Recorded)]
    return found
