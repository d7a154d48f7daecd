"""Sweeps side by side: steer, plain PyTorch hooks, plain nnsight, and pyvene where it is installed.

    python benchmarks/sweep.py            # all three sweeps, then how time grows; some minutes on two cores

1. K sweep: keep-only-one over all encoder heads into one cross-attention head's K, attention accuracy.
2. Chain: layer-0 heads -> an encoder head's V -> the cross-attention head's K.
3. Full ablation: each head's z mean-ablated in turn, every run to the logits, exact match.

The other sides are written the way a researcher writes them: one full forward pass for each head. All sides must give
the same numbers, which is checked before any ratio is printed. Sides take turns, because machines are noisy: read the
ratios, not the seconds. Weights are random (the time does not depend on them). Peak memory is that of a process of
its own for each side of the K sweep.
"""

from __future__ import annotations

import argparse
import importlib.util
import multiprocessing
import resource
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
from nnsight import NNsight
from torch import Tensor

from steer.api import build_recipe
from steer.experiment import run_experiment
from steer.library import Loaded
from steer.measure.attention import attention_accuracy
from steer.model.batch import collate
from steer.model.checkpoint import Checkpoint, Record
from steer.model.config import ModelConfig
from steer.model.transformer import Attention, Transformer, initialise
from steer.task.episode import Episode
from steer.task.vocabulary import PAD_ID

HEADS, D_HEAD = 8, 16
OUTPUT_HEAD, PAIRING_HEAD = 5, 1
BATCH = 250
Numbers = list[float]
Forward = Callable[
    [Transformer, Tensor, Tensor, dict[str, Callable[[Tensor], Tensor]], Sequence[str]], dict[str, Tensor]
]


def make_checkpoint() -> Checkpoint:
    model = Transformer(ModelConfig())
    initialise(model, torch.Generator().manual_seed(0))
    return Checkpoint(
        model.requires_grad_(False), Record(config=ModelConfig(), seed=0, protocol={}, history=[]), "bench"
    )


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
    order = sorted(order, key=lambda name: order.index(name)) + [name for name in wanted if name == "logits"]

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
        tokens = collate(episodes[start : start + BATCH])
        found.append(tuple(torch.from_numpy(a) for a in (tokens.prompt, tokens.output, tokens.target)))
    return found  # type: ignore[return-value]


def masked_means(forward: Forward, model: Transformer, data, names: Sequence[str]) -> dict[str, Tensor]:  # type: ignore[no-untyped-def]
    """The mean of each hook at each position, over all batches."""
    sums: dict[str, Tensor] = {}
    counts = {"enc": torch.zeros(64), "dec": torch.zeros(64)}
    for prompt, output, _ in data:
        found = forward(model, prompt, output, {}, names)
        for stack, ids in (("enc", prompt), ("dec", output)):
            counts[stack][: ids.shape[1]] += (ids != PAD_ID).sum(0)
        for name in names:
            value, real = found[name], (prompt if name.startswith("enc") else output) != PAD_ID
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


@torch.no_grad()
def k_sweep(forward: Forward, checkpoint: Checkpoint, episodes: Sequence[Episode]) -> Numbers:
    """One full forward pass a head; the rebuilt stream is summed from all its parts each time."""
    model, data, numbers = checkpoint.model, batches(episodes), []
    means = masked_means(forward, model, data, sources(2))
    cross = block(model, "dec.1.cross_attn")
    reads = [*sources(2), "dec.1.cross_attn.q"]
    clean = [forward(model, prompt, output, {}, reads) for prompt, output, _ in data]
    for kept in [f"{layer}.{head}" for layer in range(2) for head in range(HEADS)]:
        hits = count = 0.0
        for (prompt, output, target), values in zip(data, clean, strict=True):
            ablated = {name: means[name][: prompt.shape[1]].expand_as(values[name]) for name in sources(2)}
            parts = encoder_parts(model, ablated, 2) | {kept: encoder_parts(model, values, 2)[kept]}
            key = rows_of(cross.W_K, OUTPUT_HEAD, model.ln_enc(stream(model, parts, 2)))
            query = values["dec.1.cross_attn.q"][:, :, OUTPUT_HEAD]
            edits = {"dec.1.cross_attn.k": put(OUTPUT_HEAD, key), "dec.1.cross_attn.q": put(OUTPUT_HEAD, query)}
            pattern = forward(model, prompt, output, edits, ["dec.1.cross_attn.pattern"])["dec.1.cross_attn.pattern"]
            right, counted = attention_accuracy(pattern[:, OUTPUT_HEAD], prompt, target)
            hits, count = hits + float((right * counted).sum()), count + float(counted.sum())
        numbers.append(hits / count)
    return numbers


@torch.no_grad()
def chain_sweep(forward: Forward, checkpoint: Checkpoint, episodes: Sequence[Episode]) -> Numbers:
    model, data, numbers = checkpoint.model, batches(episodes), []
    means = masked_means(forward, model, data, sources(2))
    cross, pairing = block(model, "dec.1.cross_attn"), block(model, "enc.1.self_attn")
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
            key = rows_of(cross.W_K, OUTPUT_HEAD, model.ln_enc(stream(model, second, 2)))
            query = values["dec.1.cross_attn.q"][:, :, OUTPUT_HEAD]
            edits = {"dec.1.cross_attn.k": put(OUTPUT_HEAD, key), "dec.1.cross_attn.q": put(OUTPUT_HEAD, query)}
            pattern = forward(model, prompt, output, edits, ["dec.1.cross_attn.pattern"])["dec.1.cross_attn.pattern"]
            right, counted = attention_accuracy(pattern[:, OUTPUT_HEAD], prompt, target)
            hits, count = hits + float((right * counted).sum()), count + float(counted.sum())
        numbers.append(hits / count)
    return numbers


ALL_HEADS = [f"enc-self-{n}.{h}" for n in range(2) for h in range(HEADS)] + [
    f"dec-{kind}-{n}.{h}" for n in range(2) for kind in ("self", "cross") for h in range(HEADS)
]


@torch.no_grad()
def full_sweep(forward: Forward, checkpoint: Checkpoint, episodes: Sequence[Episode]) -> Numbers:
    model, data, numbers = checkpoint.model, batches(episodes), []
    hooks = [f"{n[:3]}.{n.split('-')[2][0]}.{n.split('-')[1]}_attn.z" for n in ALL_HEADS]
    means = masked_means(forward, model, data, list(dict.fromkeys(hooks)))
    for name, hook in zip(ALL_HEADS, hooks, strict=True):
        head, right = int(name[-1]), 0
        for prompt, output, target in data:
            size = (prompt if hook.startswith("enc") else output).shape[1]
            logits = forward(model, prompt, output, {hook: put(head, means[hook][:size, head])}, ["logits"])["logits"]
            right += int(((logits.argmax(-1) == target) | (target == PAD_ID)).all(-1).sum())
        numbers.append(right / len(episodes))
    return numbers


# The same questions as recipes.

ATTENTION = [{"name": "attention-accuracy", "heads": f"dec-cross-1.{OUTPUT_HEAD}"}]
FROZEN = f"dec-cross-1.{OUTPUT_HEAD}.q"


def k_recipe(count: int) -> Loaded:
    return build_recipe(
        kind="keep-only-one", target=f"dec-cross-1.{OUTPUT_HEAD}.k", sources="enc-self-*.*", freeze=FROZEN,
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
    ends = ("nothing ablated", "nothing ablated before the chain", "everything ablated")
    return [row["value"] for row in rows if row["position"] == "all" and row["condition"] not in ends]


def steer_full(checkpoint: Checkpoint, count: int) -> Numbers:
    """A head at a time, all of them sharing one clean run: one plan with a run for each head."""
    from steer.engine.engine import Engine, Session
    from steer.measure.answers import exact_match
    from steer.measured import LOGITS
    from steer.names import Site
    from steer.plan import Ablated, Put, make_plan, make_run
    from steer.recipe import Ablation

    engine = Engine(checkpoint)
    shape = engine.shape
    puts = {name: Put(Site(shape.one_head(name), "z"), Ablated()) for name in ALL_HEADS}
    runs = [make_run(shape, name, [edit], [LOGITS], name) for name, edit in puts.items()]
    chosen = chosen_episodes(count)
    session = Session(engine, make_plan(shape, [LOGITS], runs), engine.parts(chosen), Ablation())
    right = dict.fromkeys(ALL_HEADS, 0.0)
    for part, condition, values in session.results():
        target = torch.from_numpy(collate([chosen[row] for row in part.rows]).target)
        right[condition] += float(exact_match(values["logits"], target)[0].sum())
    return [hits / count for hits in right.values()]


def chosen_episodes(count: int) -> list[Episode]:
    """The episodes that a recipe with this count means."""
    from steer.recipe import Episodes
    from steer.selection import select

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


def compare(kind: str, checkpoint: Checkpoint, count: int, rounds: int) -> None:
    times: dict[str, list[float]] = {}
    for _ in range(rounds):
        answers = {}
        for name, work in sides(kind, checkpoint, count).items():
            seconds, answers[name] = timed(work)
            times.setdefault(name, []).append(seconds)
        for name, numbers in answers.items():
            # Float32 sums in another order may tip an arg-max in a few of thousands of steps.
            np.testing.assert_allclose(numbers, answers["steer"], atol=2e-3, err_msg=f"{kind}: {name} disagrees")
    print(f"\n{kind} sweep, {count:,} episodes (same numbers on all sides)")
    for name, taken in times.items():
        ratio = statistics.median(b / a for a, b in zip(times["steer"], taken, strict=True))
        print(f"  {name:15} {statistics.median(taken):8.2f} s   {ratio:6.2f} x steer's time")


def growth(checkpoint: Checkpoint) -> None:
    print("\nhow steer's K sweep grows")
    base = 0.0
    for count in (500, 1_000, 2_000, 4_000):
        seconds = min(timed(lambda: steer_sweep(k_recipe(count), checkpoint))[0] for _ in range(2))  # noqa: B023
        base = base or seconds
        print(f"  {count:5,} episodes, 16 sources: {seconds / base:5.2f} x the time of 500")
    for pattern, number in (("enc-self-0.0", 1), ("enc-self-0.*", 8), ("enc-self-*.*", 16)):
        recipe = k_recipe(2_000)
        changed = build_recipe(**(recipe.recipe.model_dump() | {"sources": [pattern]}))
        seconds = min(timed(lambda: steer_sweep(changed, checkpoint))[0] for _ in range(2))  # noqa: B023
        print(f"  2,000 episodes, {number:2} sources: {seconds / base:5.2f} x the time of 500 episodes, 16 sources")


def peak(kind: str, name: str, count: int) -> None:
    sides(kind, make_checkpoint(), count)[name]()
    print(f"  {name:15} {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:6.2f} GiB")


def memory(count: int) -> None:
    print(f"\npeak memory of a K sweep over {count:,} episodes (a process each, PyTorch itself included)")
    for name in ("steer", "plain hooks", "plain nnsight"):
        process = multiprocessing.get_context("spawn").Process(target=peak, args=("k", name, count))
        process.start()
        process.join()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--episodes", type=int, default=2_000)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--only", choices=("k", "chain", "full", "growth", "memory"))
    chosen = options.parse_args()
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
