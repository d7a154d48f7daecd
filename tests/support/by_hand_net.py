"""The model by hand, from its weights alone.

One episode at a time, so that nothing is ever padded, and head by head. Nothing of `steer` is used but the names of a
checkpoint's tensors and the list of tokens. Sites have the names that recipes give them. An intervention is a function
for a site: its value and what was seen before it go in, the new value comes out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from steer.tasks.compositional.vocabulary import TOKENS

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
