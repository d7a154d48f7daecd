"""The model and every kind of experiment done by hand: from the weights, and from the recipe's words.

One episode at a time, so that nothing is ever padded, and head by head. Nothing of `steer` is used but the names of a
checkpoint's tensors and the list of tokens: no plan, no engine, no forward pass of the model's own. Sites have the
names that recipes give them. An intervention is a function for a site: its value and what was seen before it go in,
the new value comes out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise

import torch
from torch import Tensor

from steer.task.vocabulary import TOKENS

Values = dict[str, Tensor]  # site -> T d (attention: T S)
Edits = Mapping[str, Callable[[Tensor, Values], Tensor]]
BLOCKS = {"enc-self": "self_attn", "dec-self": "self_attn", "dec-cross": "cross_attn"}
STACKS = {"enc": ("enc-self", "enc-mlp"), "dec": ("dec-self", "dec-cross", "dec-mlp")}  # what a layer is made of


def ids(tokens: Iterable[str]) -> Tensor:
    return torch.tensor([TOKENS.index(token) for token in tokens])


@dataclass(frozen=True, eq=False)
class Net:
    """A model's tensors and sizes."""

    weights: Mapping[str, Tensor]
    encoder_layers: int
    decoder_layers: int
    heads: int
    position_scale: float

    def linear(self, name: str, x: Tensor) -> Tensor:
        return x @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def norm(self, name: str, x: Tensor) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        spread = (centred**2).mean(-1, keepdim=True)
        return centred / (spread + 1e-5).sqrt() * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]

    @cache  # noqa: B019 (a handful of nets)
    def positions(self, length: int, width: int) -> Tensor:
        """Sines and cosines by turns. The model keeps its table in single precision."""
        angle = [[place / 1e4 ** (n // 2 * 2 / width) for n in range(width)] for place in range(length)]
        waves = [[math.cos(a) if n % 2 else math.sin(a) for n, a in enumerate(line)] for line in angle]
        return (self.position_scale * torch.tensor(waves, dtype=torch.float64)).float().to(self.kind)

    @property
    def kind(self) -> torch.dtype:
        return self.weights["unembed.weight"].dtype

    def part(self, matrix: str, head: int, axis: int) -> Tensor:
        """One head's share of a matrix (or of a bias): the heads stand one after the other."""
        whole = self.weights[matrix]
        size = whole.shape[axis] // self.heads
        return whole.narrow(axis, head * size, size)

    def project(self, port: str, normed: Tensor) -> Tensor:
        """A head's q, k or v of a stream that LayerNorm has seen."""
        block, head, letter = place(port)
        name = f"{block}.W_{letter.upper()}"
        return normed @ self.part(f"{name}.weight", head, 0).T + self.part(f"{name}.bias", head, 0)

    def write(self, head_name: str, z: Tensor) -> Tensor:
        block, head, _ = place(head_name)
        return z @ self.part(f"{block}.W_O.weight", head, 1).T

    def mlp(self, name: str, stream: Tensor) -> Tensor:
        block = f"{name[:3]}.{name.rpartition('-')[2]}.mlp"
        inner = self.linear(f"{block}.W_in", self.norm(f"{block}.ln", stream))
        inner = inner * 0.5 * (1 + torch.erf(inner / math.sqrt(2)))  # GELU
        return self.linear(f"{block}.W_out", inner)

    def read(self, port: str, stream: Tensor) -> Tensor:
        """What a head's port (or an MLP) makes of the stream that it reads."""
        if "mlp" in port:
            return self.mlp(port, stream)
        norm = "ln_enc" if crosses(port) else f"{place(port)[0]}.ln"
        return self.project(port, self.norm(norm, stream))

    def blocks(self, stack: str) -> list[str]:
        layers = self.encoder_layers if stack == "enc" else self.decoder_layers
        return [f"{kind}-{layer}" for layer in range(layers) for kind in STACKS[stack]]

    def members(self, block: str) -> list[str]:
        return [block] if "mlp" in block else [f"{block}.{head}" for head in range(self.heads)]

    def before(self, port: str) -> list[str]:
        """The blocks that have written into the stream when a port (or an MLP) reads it."""
        if crosses(port):
            return self.blocks("enc")
        own = port if "mlp" in port else port.partition(".")[0]
        blocks = self.blocks(own[:3])
        return blocks[: blocks.index(own)]

    def sources(self, port: str) -> list[str]:
        stack = "enc" if crosses(port) else port[:3]
        return [f"{stack}.tok", f"{stack}.pos", *(m for block in self.before(port) for m in self.members(block))]

    def stream(self, port: str, write: Callable[[str], Tensor]) -> Tensor:
        """The stream that a port reads: what every source writes, and the biases of the attention blocks."""
        blocks = [block for block in self.before(port) if "mlp" not in block]
        biases = [self.weights[f"{place(f'{block}.0')[0]}.W_O.bias"] for block in blocks]
        return sum((write(source) for source in self.sources(port)), start=torch.zeros(())) + sum(biases)


def place(name: str) -> tuple[str, int, str]:
    """`dec-cross-1.2.k` -> the block's name among the tensors, the head, the port."""
    kind, _, rest = name.rpartition("-")
    layer, head, port = [*rest.split("."), ""][:3]
    return f"{kind[:3]}.{layer}.{BLOCKS[kind]}", int(head), port


def crosses(port: str) -> bool:
    """Keys and values of cross-attention are read from the encoder's end."""
    return port.startswith("dec-cross") and port[-2:] in (".k", ".v")


def forward(net: Net, prompt: Tensor, output: Tensor, edits: Edits) -> Values:
    """A forward pass of one episode; gives the value of every site."""
    seen: Values = {}

    def meet(site: str, value: Tensor) -> Tensor:
        seen[site] = edits[site](value, seen) if site in edits else value
        return seen[site]

    def embed(stack: str, tokens: Tensor) -> Tensor:
        found = net.weights[f"{stack}_embed.table.weight"][tokens]
        return meet(f"{stack}.tok", found) + meet(f"{stack}.pos", net.positions(*found.shape))

    def attend(block: str, stream: Tensor, looked_at: Tensor | None, hidden: Tensor | None) -> Tensor:
        name = place(f"{block}.0")[0]
        normed = net.norm(f"{name}.ln", stream)
        keys = normed if looked_at is None else looked_at
        total = stream + net.weights[f"{name}.W_O.bias"]
        for head in net.members(block):
            q = meet(f"{head}.q", net.project(f"{head}.q", normed))
            k, v = (meet(f"{head}.{port}", net.project(f"{head}.{port}", keys)) for port in "kv")
            scores = q @ k.T / math.sqrt(q.shape[-1])
            scores = meet(f"{head}.scores", scores if hidden is None else scores.masked_fill(hidden, -math.inf))
            pattern = meet(f"{head}.pattern", scores.exp() / scores.exp().sum(-1, keepdim=True))
            total = total + meet(f"{head}.out", net.write(head, meet(f"{head}.z", pattern @ v)))
        return total

    stream = embed("enc", prompt)
    for n in range(net.encoder_layers):
        stream = attend(f"enc-self-{n}", meet(f"enc-resid-{n}.pre", stream), None, None)
        stream = meet(f"enc-resid-{n}.mid", stream)
        stream = meet(f"enc-resid-{n}.post", stream + meet(f"enc-mlp-{n}", net.mlp(f"enc-mlp-{n}", stream)))
    memory = meet("enc.memory", net.norm("ln_enc", stream))
    stream = embed("dec", output)
    future = torch.ones(len(output), len(output), dtype=torch.bool).triu(1)
    for n in range(net.decoder_layers):
        stream = attend(f"dec-self-{n}", meet(f"dec-resid-{n}.pre", stream), None, future)
        stream = attend(f"dec-cross-{n}", meet(f"dec-resid-{n}.mid", stream), memory, None)
        stream = meet(f"dec-resid-{n}.cross", stream)
        stream = meet(f"dec-resid-{n}.post", stream + meet(f"dec-mlp-{n}", net.mlp(f"dec-mlp-{n}", stream)))
    meet("logits", net.linear("unembed", meet("dec.final", net.norm("ln_dec", stream))))
    return seen


# Experiments


@dataclass
class Trial:
    """One episode at hand: its tokens, its clean run, what stands in for ablated values, and its counterpart."""

    net: Net
    prompt: Tensor
    output: Tensor  # SOS, then what has been said
    stand_in: Callable[[str, Tensor], Tensor] = lambda site, clean: torch.zeros_like(clean)
    other: Tensor | None = None  # the counterpart's prompt
    clean: Values = field(init=False)

    def __post_init__(self) -> None:
        self.clean = self.run({})

    def run(self, edits: Edits) -> Values:
        return forward(self.net, self.prompt, self.output, edits)

    def ablated(self, site: str) -> Tensor:
        return self.stand_in(site, self.clean[site])


Condition = Callable[[Trial], Edits]


def written_at(node: str) -> str:
    """The site that holds what a node adds to the stream."""
    return node if "mlp" in node or "." not in node.rpartition("-")[2] or node[3] == "." else f"{node}.out"


def put(value: Tensor, places: Sequence[int] = ()) -> Callable[[Tensor, Values], Tensor]:
    """A site's value replaced, at some places of the sequence (from 1) or everywhere."""

    def change(old: Tensor, seen: Values) -> Tensor:
        rows = [row for row in range(len(old)) if not places or row + 1 in places]
        new = old.clone()
        new[rows] = value[rows]
        return new

    return change


def rebuilt(trial: Trial, port: str, clean: Iterable[str], given: Mapping[str, Tensor] | None = None) -> Tensor:
    """What a port reads when these of its sources are clean, some are given, and all others are ablated."""
    kept, given = set(clean), given or {}

    def write(source: str) -> Tensor:
        if source in given:
            return given[source]
        site = written_at(source)
        return trial.clean[site] if source in kept else trial.ablated(site)

    return trial.net.read(port, trial.net.stream(port, write))


def frozen(trial: Trial, sites: Iterable[str]) -> Edits:
    return {site: put(trial.clean[site]) for site in sites}


def keep_only_one(
    targets: Sequence[str], source: str | None, places: Sequence[int] = (), freeze: Sequence[str] = ()
) -> Condition:
    """All direct sources of the targets are ablated but one (None: all of them)."""
    kept = [] if source is None else [source]
    return lambda trial: {**frozen(trial, freeze), **{t: put(rebuilt(trial, t, kept), places) for t in targets}}


def ablate_only_one(
    targets: Sequence[str], source: str | None, places: Sequence[int] = (), freeze: Sequence[str] = ()
) -> Condition:
    """One direct source of the targets is ablated (None: all of them)."""

    def edits(trial: Trial) -> Edits:
        left = {t: [s for s in trial.net.sources(t) if s != source and source is not None] for t in targets}
        return {**frozen(trial, freeze), **{t: put(rebuilt(trial, t, left[t]), places) for t in targets}}

    return edits


def chained(chain: Sequence[str], first: Condition, others: str, freeze: Sequence[str] = ()) -> Condition:
    """What reaches the last port through the chain; `first` is what is done to its first port."""

    def edits(trial: Trial) -> Edits:
        now: Edits = {**frozen(trial, freeze), **first(trial)}
        for port, after in pairwise(chain):
            node = port if "mlp" in port else port.rpartition(".")[0]
            passed = trial.run(now)[written_at(node)]
            left = [s for s in trial.net.sources(after) if others == "clean"]
            now = {**frozen(trial, freeze), after: put(rebuilt(trial, after, left, {node: passed}))}
        return now

    return edits


def unchanged(port: str) -> Condition:
    """The first port of a chain as it is."""
    return lambda trial: {port: put(trial.clean[port])}


def ablate(nodes: Iterable[str], places: Sequence[int] = (), freeze: Sequence[str] = ()) -> Condition:
    """These nodes ablated in the whole forward pass."""
    sites = [f"{node}.z" if written_at(node) != node else node for node in nodes]
    return lambda trial: {**{s: put(trial.ablated(s), places) for s in sites}, **frozen(trial, freeze)}


def exchange_positions(ports: Sequence[str], places: Sequence[int] = (), freeze: Sequence[str] = ()) -> Condition:
    """The first and the third token's position embeddings exchanged, as these ports see them."""

    def edits(trial: Trial) -> Edits:
        position = trial.clean["enc.pos"]
        exchanged = position.clone()
        exchanged[0], exchanged[2] = position[2], position[0]

        def seen_so(port: str) -> Callable[[Tensor, Values], Tensor]:
            def change(old: Tensor, seen: Values) -> Tensor:
                stream = seen[stream_site(trial.net, port)] + (exchanged - position)
                return put(trial.net.read(port, stream), places)(old, seen)

            return change

        return {**{port: seen_so(port) for port in ports}, **frozen(trial, freeze)}

    return edits


def stream_site(net: Net, port: str) -> str:
    """Where the stream that an encoder's port, or a key or value of cross-attention, reads can be seen."""
    if crosses(port):
        return f"enc-resid-{net.encoder_layers - 1}.post"
    layer = port.partition(".")[0].rpartition("-")[2]
    return f"enc-resid-{layer}.{'mid' if 'mlp' in port else 'pre'}"


def borrow(sites: Iterable[str], places: Sequence[int] = (), freeze: Sequence[str] = ()) -> Condition:
    """These sites have the values of the run on the counterpart prompt, with the same tokens said so far."""

    def edits(trial: Trial) -> Edits:
        assert trial.other is not None
        theirs = forward(trial.net, trial.other, trial.output, {})
        return {**frozen(trial, freeze), **{site: put(theirs[site], places) for site in sites}}

    return edits


def nothing(trial: Trial) -> Edits:
    return {}


def say(trial: Trial, condition: Condition, longest: int = 6) -> list[str]:
    """The answer that the model writes itself, the condition's interventions on at every step; EOS closes it."""
    said: list[str] = []
    while len(said) < longest and "EOS" not in said:
        now = Trial(trial.net, trial.prompt, ids(["SOS", *said]), trial.stand_in, trial.other)
        said.append(TOKENS[int(now.run(condition(now))["logits"][-1].argmax())])
    return said


# What stands in for ablated values


def means(trials: Sequence[Trial], over: str = "position") -> Callable[[str, Tensor], Tensor]:
    """The mean of a site over episodes: at each position over those that reach it, or over all tokens."""
    known: dict[str, tuple[list[Tensor], Tensor]] = {}

    def table(site: str) -> tuple[list[Tensor], Tensor]:
        values = [trial.clean[site] for trial in trials]
        at = [torch.stack([v[p] for v in values if len(v) > p]).mean(0) for p in range(max(map(len, values)))]
        return at, torch.cat(values).mean(0)

    def stand_in(site: str, clean: Tensor) -> Tensor:
        if site not in known:
            known[site] = table(site)
        at, pooled = known[site]
        return torch.stack([at[p] if over == "position" and p < len(at) else pooled for p in range(len(clean))])

    return stand_in


def of_donor(donor: Trial) -> Callable[[str, Tensor], Tensor]:
    """Another episode's values, read round and round where it is the shorter one."""
    return lambda site, clean: donor.clean[site][torch.arange(len(clean)) % len(donor.clean[site])]
