"""The other sides of `sweep.py`: sweeps as a researcher writes them, through hooks, nnsight or pyvene.

One full forward pass for each head; a rebuilt stream is summed from all its parts each time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from steer.engine.backends.mounting import NNsight
from steer.measures.attention import attention_accuracy
from steer.models.batch import collate
from steer.models.checkpoint import Checkpoint
from steer.models.plain.transformer import Attention, Transformer
from steer.models.vocabulary import PAD, Vocabulary
from steer.tasks.compositional.episode import Episode
from steer.tasks.compositional.vocabulary import COLOURS, TOKENS

HEADS, D_HEAD = 8, 16
OUTPUT_HEAD, PAIRING_HEAD = 5, 1
BATCH = 250
COUNTED = torch.tensor([token in COLOURS for token in TOKENS])  # the tokens of an answer that are scored
Numbers = list[float]
Forward = Callable[
    [Transformer, Tensor, Tensor, dict[str, Callable[[Tensor], Tensor]], Sequence[str]], dict[str, Tensor]
]


# What a researcher writes: a forward pass with edits and reads, through hooks or through nnsight.


def hook_forward(model, prompt, output, edits, reads):  # type: ignore[no-untyped-def]
    found: dict[str, Tensor] = {}

    def watch(name: str):  # type: ignore[no-untyped-def]
        def hook(module, inputs, value):  # type: ignore[no-untyped-def]
            value = edits[name](value) if name in edits else value
            found[name] = value
            return value

        return hook

    handles = [model.get_submodule(name).register_forward_hook(watch(name)) for name in {*edits, *reads}]
    model(prompt, output)
    for handle in handles:
        handle.remove()
    return found


def nnsight_forward(model, prompt, output, edits, reads):  # type: ignore[no-untyped-def]
    traced, found = NNsight(model), {}
    wanted = [name for name, _ in model.named_modules() if name in {*edits, *reads}]
    order = [name for step in ("enc_embed", "enc.", "memory", "dec") for name in wanted if name.startswith(step)]
    order += [name for name in wanted if name == "logits"]

    def visit() -> None:
        for name in order:
            hook = traced.get(name)
            if name in edits:
                hook.output = edits[name](hook.output)
            found[name] = hook.output

    with traced.trace(prompt, output):
        visit()
    return found


def pyvene_forward(model, prompt, output, edits, reads):  # type: ignore[no-untyped-def]
    import re

    import pyvene

    def component(name: str) -> str:
        return re.sub(r"\.(\d+)\.", r"[\1].", name) + ".output"

    def change(edit):  # type: ignore[no-untyped-def]
        return lambda base, source: edit(base)

    asked = [{"component": component(n), "intervention": change(e)} for n, e in edits.items()]  # type: ignore[no-untyped-call]
    asked += [
        {"component": component(n), "intervention": pyvene.CollectIntervention()} for n in reads if n not in edits
    ]
    wrapped = pyvene.IntervenableModel(asked, model=model)
    (_, collected), _ = wrapped(base={"prompt": prompt, "output": output}, unit_locations=None, return_dict=False)
    return dict(zip([n for n in reads if n not in edits], collected, strict=True))


def batches(episodes: Sequence[Episode]) -> list[tuple[Tensor, Tensor, Tensor]]:
    found = []
    for start in range(0, len(episodes), BATCH):
        tokens = collate(episodes[start : start + BATCH], Vocabulary(TOKENS))
        found.append(tuple(torch.from_numpy(a) for a in (tokens.prompt, tokens.output, tokens.target)))
    return found  # type: ignore[return-value]


def masked_means(forward: Forward, model: Transformer, data, names: Sequence[str]) -> dict[str, Tensor]:  # type: ignore[no-untyped-def]
    """The mean of each hook at each position, over all batches."""
    sums: dict[str, Tensor] = {}
    counts = {"enc": torch.zeros(64), "dec": torch.zeros(64)}
    for prompt, output, _ in data:
        found = forward(model, prompt, output, {}, names)
        for stack, ids in (("enc", prompt), ("dec", output)):
            counts[stack][: ids.shape[1]] += (ids != PAD).sum(0)
        for name in names:
            value, real = found[name], (prompt if name.startswith("enc") else output) != PAD
            masked = value * real.reshape(*real.shape, *[1] * (value.ndim - 2))
            sums.setdefault(name, torch.zeros(64, *value.shape[2:]))[: value.shape[1]] += masked.sum(0)
    return {
        name: total / counts[name[:3]].clamp(min=1).reshape(-1, *[1] * (total.ndim - 1)) for name, total in sums.items()
    }


def encoder_parts(model: Transformer, values: dict[str, Tensor], layers: int) -> dict[str, Tensor]:
    """What each part of the encoder writes into the stream."""
    parts = {name: values[name] for name in ("enc_embed.tok", "enc_embed.pos")}
    for layer in range(layers):
        weight = block(model, f"enc.{layer}.self_attn").W_O.weight.view(-1, HEADS, D_HEAD)
        for head in range(HEADS):
            parts[f"{layer}.{head}"] = values[f"enc.{layer}.self_attn.z"][..., head, :] @ weight[:, head].T
        parts[f"mlp{layer}"] = values[f"enc.{layer}.mlp.out"]
    return parts


def stream(model: Transformer, parts: dict[str, Tensor], layers: int) -> Tensor:
    biases = [block(model, f"enc.{layer}.self_attn").W_O.bias for layer in range(layers)]
    total = torch.zeros(())
    for part in (*parts.values(), *biases):
        total = total + part
    return total


def block(model: Transformer, name: str) -> Attention:
    found = model.get_submodule(name)
    assert isinstance(found, Attention)
    return found


def sources(layers: int) -> list[str]:
    names = ["enc_embed.tok", "enc_embed.pos"]
    return names + [f"enc.{n}.{what}" for n in range(layers) for what in ("self_attn.z", "mlp.out")]


def put(head: int, part: Tensor) -> Callable[[Tensor], Tensor]:
    def edit(value: Tensor) -> Tensor:
        value = value.clone()
        value[:, :, head] = part
        return value

    return edit


def rows_of(linear: torch.nn.Linear, head: int, x: Tensor) -> Tensor:
    rows = slice(head * D_HEAD, (head + 1) * D_HEAD)
    return x @ linear.weight[rows].T + linear.bias[rows]


def attended(forward: Forward, model: Transformer, batch, values: dict[str, Tensor], parts: dict[str, Tensor]):  # type: ignore[no-untyped-def]
    """How often the output head looks at the next token with its K made from these parts and its Q frozen."""
    (prompt, output, target), name = batch, "dec.1.cross_attn"
    key = rows_of(block(model, name).W_K, OUTPUT_HEAD, model.ln_enc(stream(model, parts, 2)))
    query = values[f"{name}.q"][:, :, OUTPUT_HEAD]
    edits = {f"{name}.k": put(OUTPUT_HEAD, key), f"{name}.q": put(OUTPUT_HEAD, query)}
    pattern = forward(model, prompt, output, edits, [f"{name}.pattern"])[f"{name}.pattern"]
    right, counted = attention_accuracy(pattern[:, OUTPUT_HEAD], prompt, target), COUNTED[target]
    return float((right * counted).sum()), float(counted.sum())


@torch.no_grad()
def k_sweep(forward: Forward, checkpoint: Checkpoint, episodes: Sequence[Episode]) -> Numbers:
    """One full forward pass a head; the rebuilt stream is summed from all its parts each time."""
    model, data, numbers = checkpoint.transformer, batches(episodes), []
    means = masked_means(forward, model, data, sources(2))
    reads = [*sources(2), "dec.1.cross_attn.q"]
    clean = [forward(model, prompt, output, {}, reads) for prompt, output, _ in data]
    for kept in [f"{layer}.{head}" for layer in range(2) for head in range(HEADS)]:
        hits = count = 0.0
        for (prompt, output, target), values in zip(data, clean, strict=True):
            ablated = {name: means[name][: prompt.shape[1]].expand_as(values[name]) for name in sources(2)}
            parts = encoder_parts(model, ablated, 2) | {kept: encoder_parts(model, values, 2)[kept]}
            right, counted = attended(forward, model, (prompt, output, target), values, parts)
            hits, count = hits + right, count + counted
        numbers.append(hits / count)
    return numbers


@torch.no_grad()
def chain_sweep(forward: Forward, checkpoint: Checkpoint, episodes: Sequence[Episode]) -> Numbers:
    model, data, numbers = checkpoint.transformer, batches(episodes), []
    means = masked_means(forward, model, data, sources(2))
    pairing = block(model, "enc.1.self_attn")
    clean = [forward(model, prompt, output, {}, [*sources(2), "dec.1.cross_attn.q"]) for prompt, output, _ in data]
    for kept in [f"0.{head}" for head in range(HEADS)]:
        hits = count = 0.0
        for (prompt, output, target), values in zip(data, clean, strict=True):
            ablated = {name: means[name][: prompt.shape[1]].expand_as(values[name]) for name in sources(2)}
            first = encoder_parts(model, ablated, 1) | {kept: encoder_parts(model, values, 1)[kept]}
            value = rows_of(pairing.W_V, PAIRING_HEAD, pairing.ln(stream(model, first, 1)))
            edits = {"enc.1.self_attn.v": put(PAIRING_HEAD, value)}
            changed = forward(model, prompt, output, edits, ["enc.1.self_attn.z"])
            name = f"1.{PAIRING_HEAD}"
            second = encoder_parts(model, ablated, 2)
            second |= {name: encoder_parts(model, values | changed, 2)[name]}
            right, counted = attended(forward, model, (prompt, output, target), values, second)
            hits, count = hits + right, count + counted
        numbers.append(hits / count)
    return numbers


ALL_HEADS = [f"enc-self-{n}.{h}" for n in range(2) for h in range(HEADS)] + [
    f"dec-{kind}-{n}.{h}" for n in range(2) for kind in ("self", "cross") for h in range(HEADS)
]


@torch.no_grad()
def full_sweep(forward: Forward, checkpoint: Checkpoint, episodes: Sequence[Episode]) -> Numbers:
    model, data, numbers = checkpoint.transformer, batches(episodes), []
    hooks = [f"{n[:3]}.{n.split('-')[2][0]}.{n.split('-')[1]}_attn.z" for n in ALL_HEADS]
    means = masked_means(forward, model, data, list(dict.fromkeys(hooks)))
    for name, hook in zip(ALL_HEADS, hooks, strict=True):
        head, right = int(name[-1]), 0
        for prompt, output, target in data:
            size = (prompt if hook.startswith("enc") else output).shape[1]
            logits = forward(model, prompt, output, {hook: put(head, means[hook][:size, head])}, ["logits"])["logits"]
            right += int(((logits.argmax(-1) == target) | (target == PAD)).all(-1).sum())
        numbers.append(right / len(episodes))
    return numbers
