"""Paths and means as the authors' code has them, done by hand: MLPs that follow, a swap along a chain, padding."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
import torch
from by_hand import Trial, exchange_positions, put, written_at
from by_hand_net import ids
from by_hand_task import items
from small import ask, checkpoint, mass, net_of, of_arity, table, trials, values
from torch import Tensor

from steer.base.errors import SteerError
from steer.results.result import Result

MODEL = checkpoint(5)
NET = net_of(MODEL)
HEAD = "dec-cross-1.1"
EPISODES = of_arity(2, 8)
MADE = trials(NET, EPISODES)
OTHERS = of_arity(1, 5, 40) + of_arity(2, 4, 60)  # that give means: in no order of length


def stream_through(trial: Trial, port: str, given: dict[str, Tensor], ablated: Iterable[str] | None) -> Tensor:
    """What a port reads: given writes, ablated ones (None: all others), clean ones; MLPs follow the changed stream."""
    net, off = trial.net, None if ablated is None else set(ablated)

    def write(source: str) -> Tensor:
        if source in given:
            return given[source]
        if "mlp" in source:
            return net.read(source, net.stream(source, write))
        site = written_at(source)
        return trial.ablated(site) if off is None or source in off else trial.clean[site]

    return net.read(port, net.stream(port, write))


def looked_at(found: list[tuple[Trial, dict[str, object]]]) -> list[list[float]]:
    pairs = zip(EPISODES, found, strict=True)
    return [mass(trial.run(edits)[f"{HEAD}.pattern"], e.prompt, e.answer) for e, (trial, edits) in pairs]


MASS = [{"name": "attention-mass", "heads": HEAD}]


def near(result: Result, condition: str, lines: list[list[float]]) -> None:
    assert values(result, measure="attention-mass")[condition] == pytest.approx(table(lines), abs=1e-10)


@pytest.mark.parametrize("mode", ["keep-only-one", "ablate-only-one"])
def test_mlps_follow_the_changed_stream(mode: str):
    keys = {"kind": mode, "target": f"{HEAD}.k", "sources": ["enc-self-0.1", "enc.tok", "enc-mlp-1"]}
    result = ask(MODEL, EPISODES, **keys, ablation={"mlps": "recomputed"}, measures=MASS)
    for source in keys["sources"]:
        found = []
        for trial in MADE:
            site = written_at(source)
            if mode == "keep-only-one":
                new = stream_through(trial, f"{HEAD}.k", {source: trial.clean[site]}, None)
            else:
                new = stream_through(trial, f"{HEAD}.k", {source: trial.ablated(site)}, ())
            found.append((trial, {f"{HEAD}.k": put(new)}))
        near(result, source, looked_at(found))
    other = ask(MODEL, EPISODES, **keys, measures=MASS)
    assert values(other)["enc.tok"] != pytest.approx(values(result)["enc.tok"], abs=1e-4)


def test_a_chain_in_which_mlps_follow():
    chain, source = ["enc-self-1.0.v", f"{HEAD}.k"], "enc-self-0.2"
    keys = {"kind": "chained-patch", "sources": source, "chain": chain, "measures": MASS}
    result = ask(MODEL, EPISODES, **keys, ablation={"mlps": "recomputed"})
    found = []
    for trial in MADE:
        first = stream_through(trial, chain[0], {source: trial.clean[written_at(source)]}, None)
        passed = trial.run({chain[0]: put(first)})["enc-self-1.0.out"]
        found.append((trial, {chain[1]: put(stream_through(trial, chain[1], {"enc-self-1.0": passed}, None))}))
    near(result, source, looked_at(found))


def test_positions_exchanged_and_passed_on_along_a_chain():
    ports, chain = ["enc-self-0.1.v", "enc-self-0.2.v"], ["enc-self-1.0.v", f"{HEAD}.k"]
    off = ["enc-self-0.0", "enc-self-1.1", "enc-self-2.*"]
    keys = {"kind": "chained-swap", "ports": ports, "tokens": [1, 3], "chain": chain, "ablate": off}
    keys |= {"episodes": {"arity": 2, "count": 100}, "ablation": {"mlps": "recomputed"}}
    against = [{"name": "attention-mass", "heads": HEAD, "against": "counterfactual"}]
    result = ask(MODEL, EPISODES, **keys, measures=[*MASS, *against])
    gone = [*off[:2], *(f"enc-self-2.{n}" for n in range(NET.heads))]
    for name, exchanged in (("path kept, nothing exchanged", False), ("after", True)):
        found, other = [], []
        for e, trial in zip(EPISODES, MADE, strict=True):
            start = trial.run(exchange_positions(ports)(trial)) if exchanged else trial.clean
            given = {node: start[f"{node}.out"] for node in ("enc-self-0.1", "enc-self-0.2")}
            first = stream_through(trial, chain[0], given, gone)
            passed = trial.run({chain[0]: put(first)})["enc-self-1.0.out"]
            last = stream_through(trial, chain[1], {"enc-self-1.0": passed}, gone)
            pattern = trial.run({chain[1]: put(last)})[f"{HEAD}.pattern"]
            one, two = (
                next(p[2] for p in items(e.prompt)[1:] if p[:2] == (s, "=")) for s in (e.prompt[0], e.prompt[2])
            )
            swap = {one: two, two: one}
            found.append(mass(pattern, e.prompt, e.answer))
            other.append(mass(pattern, e.prompt, [swap[c] for c in e.answer]))
        assert values(result, against="answer")[name] == pytest.approx(table(found), abs=1e-10)
        assert values(result, against="counterfactual")[name] == pytest.approx(table(other), abs=1e-10)


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"chain": ["enc-self-0.0.v"]}, "enc-self-0.1 does not feed enc-self-0.0.v directly"),
        ({"ablate": ["enc-self-0.1"]}, "enc-self-0.1 is part of the path"),
        ({"ablate": ["dec-cross-0.1"]}, "dec-cross-0.1 feeds no port of the chain directly"),
        ({"ports": "dec-cross-0.1.q"}, "does not read the prompt's positions"),
    ],
)
def test_what_is_wrong_with_a_chained_swap(keys: dict[str, object], says: str):
    told = {"kind": "chained-swap", "ports": "enc-self-0.1.v", "tokens": [1, 3], "chain": [f"{HEAD}.k"]}
    with pytest.raises(SteerError, match=says):
        ask(MODEL, of_arity(2, 6), **told | {"episodes": {"arity": 2}, "measures": MASS} | keys)


# Means of other prompts, padding and all


def test_means_that_count_padding():
    """Batches of three in the order of the split, each as wide as its longest prompt; one mean over all columns."""
    keys = {"kind": "ablate-set", "nodes": "enc-self-1.1", "ablation": {"over": "padded", "reference": "train"}}
    result = ask(MODEL, EPISODES, OTHERS, **keys, tensors="enc-self-1.1.z", measures=[{"name": "token-accuracy"}])
    total, count = torch.zeros(NET.weights["enc.1.self_attn.W_V.weight"].shape[0] // NET.heads), 0
    for start in range(0, len(OTHERS), 3):
        part = OTHERS[start : start + 3]
        width = max(len(e.prompt) for e in part)
        for e in part:
            real = torch.arange(width) < len(e.prompt)
            z = padded_z(ids((*e.prompt, *["PAD"] * (width - len(e.prompt)))), real)
            total, count = total + z.sum(0), count + width
    assert {len(e.prompt) for e in OTHERS[:3]} != {len(OTHERS[0].prompt)}
    found = result.tensors["set ablated/enc-self-1.1.z"]
    for row, e in enumerate(EPISODES):
        wanted = (total / count).expand(len(e.prompt), -1)
        torch.testing.assert_close(found[row][: len(e.prompt)], wanted, rtol=0, atol=1e-10)


def padded_z(prompt: Tensor, real: Tensor) -> Tensor:
    """z of enc-self-1.1 at every column of a padded prompt: padding looks at real tokens, and is not looked at."""
    weights = NET.weights
    stream = weights["enc_embed.table.weight"][prompt] + NET.positions(len(prompt), weights["unembed.weight"].shape[1])
    for layer in (0, 1):
        name = f"enc.{layer}.self_attn"
        normed = NET.norm(f"{name}.ln", stream)
        q, k, v = (NET.linear(f"{name}.W_{port}", normed).unflatten(-1, (NET.heads, -1)) for port in "QKV")
        scores = torch.einsum("ihd,jhd->hij", q, k) / q.shape[-1] ** 0.5
        pattern = scores.masked_fill(~real, -torch.inf).softmax(-1)
        z = torch.einsum("hij,jhd->ihd", pattern, v)
        if layer == 1:
            return z[:, 1]
        stream = stream + NET.linear(f"{name}.W_O", z.flatten(1))
        inner = NET.linear(f"enc.{layer}.mlp.W_in", NET.norm(f"enc.{layer}.mlp.ln", stream))
        stream = stream + NET.linear(f"enc.{layer}.mlp.W_out", torch.nn.functional.gelu(inner))
    raise AssertionError


def test_padding_counts_only_in_means_of_other_prompts():
    for ablation in ({"over": "padded"}, {"over": "padded", "value": "zero", "reference": "train"}):
        with pytest.raises(SteerError, match="give a split as reference"):
            ask(MODEL, EPISODES, kind="ablate-set", nodes="enc-self-0.1", ablation=ablation, measures=MASS)
