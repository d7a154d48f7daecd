"""Checks of a wired model on some examples, each against another way to the same numbers.

`forward` is the referee; the identities are what the family's row promises; the rest is what any model must do: rows
of a batch do not see one another, nothing sees padding, a decoder does not see what comes later.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn.functional import pad

from steer.anatomy.nodes import Node, Site
from steer.models.huggingface import fold
from steer.models.huggingface.blocks import AttentionBlock
from steer.models.huggingface.findings import Finding, Worst
from steer.models.huggingface.model import HuggingFaceModel
from steer.models.huggingface.parts import BATCH_TOLERANCE, IDENTITIES, TOLERANCE, Identity
from steer.models.huggingface.passes import met_on
from steer.models.huggingface.referee import own_forward, parts_of
from steer.models.huggingface.steps import path_of
from steer.models.protocol import Batch, Reading
from steer.tasks.task import ANSWER, Example

MORE = 3  # columns of padding that are put behind a batch


def tolerance_of(model: HuggingFaceModel, table: Mapping[str, float] = TOLERANCE) -> float:
    return table[str(model.like.dtype).removeprefix("torch.")]


def forward(model: HuggingFaceModel, batch: Batch) -> Finding:
    """Every step against the model's own forward pass; the place is the first step that parts."""
    values, worst = met_on(model, batch), Worst(tolerance_of(model))
    parts = [(rows, part, own_forward(model, part)) for rows, part in parts_of(model, batch)]
    for hook in (hook for hook in values if hook in parts[0][2]):
        sequence = _sequence(model, hook)
        for rows, part, wanted in parts:
            value, own = _by_query(hook, values[hook][rows]), _by_query(hook, wanted[hook])
            keys = _real_keys(model, hook, batch, rows) if part is not batch and hook.endswith(".pattern") else None
            value = value[batch.real[sequence][rows]]
            worst.see(_step(model, hook), value if keys is None else value[:, :, keys], own[part.real[sequence]])
    return worst.finding("forward", "every step is the model's own forward pass")


def _by_query(hook: str, value: Tensor) -> Tensor:
    """B T …: the heads of a pattern stand behind its queries, those of other values side by side."""
    return value.transpose(1, 2) if hook.endswith(".pattern") else value.flatten(2)


def _real_keys(model: HuggingFaceModel, hook: str, batch: Batch, rows: list[int]) -> Tensor:
    block = model.module.block(hook.rpartition(".")[0])
    assert isinstance(block, AttentionBlock)
    return batch.real[_sequences(model)[block.keys]][rows[0]]


def _step(model: HuggingFaceModel, hook: str) -> str:
    """The step that has computed what a hook holds, and the hook."""
    path, _, name = hook.rpartition(".")
    made = {"pattern": "attend", "z": "mix", "out": "compute" if path.endswith("mlp") else "write"}
    if name in made:
        return f"{path}.{made[name]} ({hook})"
    return f"before {path}.project ({hook})" if name == "resid" else hook


def _sequence(model: HuggingFaceModel, hook: str) -> str:
    """Whose tokens a hook has its values at: its name begins with the stack; the ends of stacks have their own."""
    sequences, stack = _sequences(model), re.split(r"[._]", hook)[0]
    return sequences["enc" if hook == "memory" else stack if stack in sequences else "dec"]


def _sequences(model: HuggingFaceModel) -> dict[str, str]:
    return {stream.name: stream.sequence for stream in model.layout.streams}


def identities(model: HuggingFaceModel, batch: Batch) -> Iterator[Finding]:
    """What the row says must hold."""
    met = met_on(model, batch)
    values = Reading(model, met)
    for name in model.row.identities:
        worst = Worst(tolerance_of(model))
        HOLDS[name](model, batch, values, worst)
        yield worst.finding(name, IDENTITIES[name])


def _streams(model: HuggingFaceModel, batch: Batch, values: Reading, worst: Worst) -> None:
    layout = model.layout
    for port in (*(_first_ports(model)), layout.logits):
        stream = model.folded(port, lambda node: values[layout.written(node)])
        real = batch.real[layout.sequence(layout.stream(port))]
        worst.see(str(port), stream, values[layout.stream(port)], real)


def _first_ports(model: HuggingFaceModel) -> Iterator[Site]:
    """A port of each block: all heads of a block read the same."""
    for block in model.layout.blocks:
        yield from model.layout.inputs(block.nodes[0])


def _ports(model: HuggingFaceModel, batch: Batch, values: Reading, worst: Worst) -> None:
    layout = model.layout
    for port in (site for node in layout.nodes for site in layout.inputs(node)):
        read = model.read(port, values[layout.stream(port)], batch)
        worst.see(str(port), read, values[port], batch.real[layout.sequence(port)])


def _heads(model: HuggingFaceModel, batch: Batch, values: Reading, worst: Worst) -> None:
    for block in model.layout.blocks:
        if block.heads:
            total = fold.total(model.module, block, lambda node: values[Site(node, "out")])
            real = batch.real[model.layout.sequence(Site(block.nodes[0], "z"))]
            worst.see(path_of(block), total, values.hooks[f"{path_of(block)}.out"], real)


def _patterns(model: HuggingFaceModel, batch: Batch, values: Reading, worst: Worst) -> None:
    for head in model.layout.heads:
        pattern, seen = values[Site(head, "pattern")], visible(model, batch, head)
        real = batch.real[model.layout.sequence(Site(head, "q"))]
        worst.see(str(head), (pattern * seen).sum(-1), torch.ones_like(pattern[..., 0]), real)


def visible(model: HuggingFaceModel, batch: Batch, head: Node) -> Tensor:
    """What a query may look at: real tokens, and in the decoder's own sequence none that come later. B T S."""
    layout = model.layout
    queries, keys = batch.real[layout.sequence(Site(head, "q"))], batch.real[layout.looks_at(head)]
    block = layout.block(head)
    seen = keys[:, None, :].expand(-1, queries.shape[1], -1)
    is_causal = dict(block.reads)["k"] == block.writes == layout.streams[-1].name
    return seen.tril() if is_causal else seen


def _readout(model: HuggingFaceModel, batch: Batch, values: Reading, worst: Worst) -> None:
    readout, final = model.readout, values[model.layout.streams[-1].read_as]
    logits = model.module.capped(final @ readout.rows.T + readout.bias)
    worst.see("logits", logits, values[model.layout.logits], batch.real[model.layout.answer])


def shares(model: HuggingFaceModel, batch: Batch) -> Finding:
    """What each node writes along a token's direction, every norm frozen: together the logit, before it is capped."""
    layout, readout, values = model.layout, model.readout, Reading(model, met_on(model, batch))
    token = len(readout.rows) // 2
    directions = model.directions(values, readout.rows[token].expand_as(values[layout.streams[-1].read_as]))
    writers = [node for node in layout.nodes if layout.reaches_logits(node)]
    written = [(values[layout.written(node)] * directions.of[node]).sum(-1) for node in writers]
    whole = sum(written, start=directions.constant + readout.bias[token])
    worst = Worst(tolerance_of(model))
    real = batch.real[layout.answer]
    worst.see("logits", model.module.capped(whole), values[layout.logits][..., token], real)
    return worst.finding("shares", "the nodes' shares sum to the logit")


Holds = Callable[[HuggingFaceModel, Batch, Reading, Worst], None]
HOLDS: dict[Identity, Holds] = {
    "streams": _streams, "ports": _ports, "heads": _heads, "patterns": _patterns, "readout": _readout,
}  # fmt: skip


def alone(model: HuggingFaceModel, examples: Sequence[Example]) -> Finding:
    """Each example by itself, without padding, and in a batch with the others."""
    together = logits_at_steps(model, model.encode(examples, list(range(len(examples)))))
    worst = Worst(tolerance_of(model, BATCH_TOLERANCE))
    for row in range(len(examples)):
        batch = model.encode(examples, [row])
        if not all(bool(real.all()) for real in batch.real.values()):
            worst.fail(f"example {row}: a token of its own is taken for padding")
        single = logits_at_steps(model, batch)
        worst.see(f"example {row}", together[row, : single.shape[1]], single[0])
    return worst.finding("single", "a batch gives what each example gives by itself")


def padded(model: HuggingFaceModel, examples: Sequence[Example]) -> Finding:
    """The same batch with more padding behind it."""
    batch = model.encode(examples, list(range(len(examples))))
    tokens = {name: pad(ids, (0, MORE), value=model.pad) for name, ids in batch.tokens.items()}
    real = {name: pad(mask, (0, MORE), value=False) for name, mask in batch.real.items()}
    worst = Worst(tolerance_of(model, BATCH_TOLERANCE))
    wider = logits_at_steps(model, replace(batch, tokens=tokens, real=real))
    worst.see(f"{MORE} columns more", wider, logits_at_steps(model, batch), _steps_that_count(model, batch))
    return worst.finding("padded", "padding changes nothing")


def mates(model: HuggingFaceModel, examples: Sequence[Example]) -> Finding:
    """The same example beside another one, and beside itself."""
    worst = Worst(tolerance_of(model, BATCH_TOLERANCE))
    for row in range(len(examples)):
        beside, twice = (
            logits_at_steps(model, model.encode(examples, [row, other])) for other in ((row + 1) % len(examples), row)
        )
        steps = min(beside.shape[1], twice.shape[1])
        real = _steps_that_count(model, model.encode(examples, [row]))[0][:steps]
        worst.see(f"example {row}", beside[0, :steps][real], twice[0, :steps][real])
    return worst.finding("mates", "the others of a batch change nothing")


def _steps_that_count(model: HuggingFaceModel, batch: Batch) -> Tensor:
    return batch.at(ANSWER, batch.real[model.layout.answer])


def logits_at_steps(model: HuggingFaceModel, batch: Batch) -> Tensor:
    return batch.at(ANSWER, met_on(model, batch)["logits"])


def causal(model: HuggingFaceModel, batch: Batch) -> Iterator[Finding]:
    """Another last token: earlier logits stay, its own change."""
    answer = model.layout.answer
    ids, real = batch.tokens[answer], batch.real[answer]
    last = (real * torch.arange(ids.shape[1], device=ids.device)).amax(1, keepdim=True)
    other = ids.scatter(1, last, (ids.gather(1, last) + 1) % len(model.readout.rows))
    before = met_on(model, batch)["logits"]
    after = met_on(model, replace(batch, tokens={**batch.tokens, answer: other}))["logits"]
    earlier = real & (torch.arange(ids.shape[1], device=ids.device) < last)
    worst = Worst(tolerance_of(model))
    worst.see(f"{answer}", after, before, earlier)
    yield worst.finding("causal", "a later token changes no earlier logits")
    moved = (after - before).gather(1, last[..., None].expand(-1, -1, after.shape[-1])).abs().amax((1, 2)).min().item()
    yield Finding(
        "heard", "another token changes the logits behind it", moved, 0.0, answer, is_effect=True, of=len(ids)
    )
