"""The network of the toy family: two layers, every step with a hook at its sites."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

WORDS = ("PAD", "GO", "END", "a", "b", "c", "d", "e", "f", "g", "h", "to", "from")
PAD, GO, END = 0, 1, 2
LAYERS, HEADS, WIDTH, SIZE, HIDDEN, LONGEST = 2, 3, 12, 4, 10, 24


class Hook(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x


@dataclass
class State:
    ids: Tensor
    stream: Tensor | None = None
    q: Tensor | None = None
    k: Tensor | None = None
    v: Tensor | None = None
    pattern: Tensor | None = None
    z: Tensor | None = None


class Layer(nn.Module):
    def __init__(self, beside: bool) -> None:
        super().__init__()
        self.beside = beside
        self.ln1, self.ln2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.wq, self.wk, self.wv = (nn.Linear(WIDTH, HEADS * SIZE) for _ in range(3))
        self.wo = nn.Linear(HEADS * SIZE, WIDTH)
        self.w1, self.w2 = nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, WIDTH)
        for name in ("pre", "q", "k", "scores", "pattern", "v", "z", "mid", "mlp", "post"):
            setattr(self, name, Hook())

    def project(self, state: State) -> None:
        state.stream = self.pre(state.stream)
        normed = self.ln1(state.stream)
        state.q, state.k, state.v = (w(normed).unflatten(-1, (HEADS, SIZE)) for w in (self.wq, self.wk, self.wv))

    def attend(self, state: State) -> None:
        q, k = self.q(state.q), self.k(state.k)
        scores = torch.einsum("bthd,bshd->bhts", q, k) / math.sqrt(SIZE)
        future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        state.pattern = self.pattern(self.scores(scores.masked_fill(future, -torch.inf)).softmax(-1))

    def mix(self, state: State) -> None:
        state.z = torch.einsum("bhts,bshd->bthd", state.pattern, self.v(state.v))

    def write(self, state: State) -> None:
        attended = state.stream + self.wo(self.z(state.z).flatten(2))
        read = state.stream if self.beside else self.mid(attended)
        state.stream = self.post((attended if self.beside else read) + self.mlp(self.made(read)))

    def made(self, stream: Tensor) -> Tensor:
        return self.w2(torch.relu(self.w1(self.ln2(stream))))


class Toy(nn.Module):
    def __init__(self, beside: bool) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(len(WORDS), WIDTH), nn.Embedding(LONGEST, WIDTH)
        self.tok, self.pos, self.final, self.logits = Hook(), Hook(), Hook(), Hook()
        self.layers = nn.ModuleList(Layer(beside) for _ in range(LAYERS))
        self.norm, self.unembed = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, len(WORDS))

    def forward(self, ids: Tensor) -> None:
        self.run(State(ids))

    def run(self, state: State, start: str = "embed", stop: str | None = None) -> State:
        names = step_names()
        for name in names[names.index(start) : names.index(stop) if stop else None]:
            layer, _, step = name.rpartition(".")
            (getattr(self.layers[int(layer)], step) if layer else getattr(self, f"_{step}"))(state)
        return state

    def _embed(self, state: State) -> None:
        tok = self.tok(self.tokens(state.ids))
        state.stream = tok + self.pos(self.positions.weight[: state.ids.shape[1]].expand_as(tok))

    def _norm(self, state: State) -> None:
        self.logits(self.unembed(self.final(self.norm(state.stream))))


def step_names() -> list[str]:
    inner = [f"{n}.{step}" for n in range(LAYERS) for step in ("project", "attend", "mix", "write")]
    return ["embed", *inner, "norm"]


def random_toy(beside: bool, seed: int = 8) -> Toy:
    """Every tensor random, attention far from uniform; of the first seeds the one whose answers differ most."""
    generator = torch.Generator().manual_seed(seed)
    module = Toy(beside).double()
    for name, parameter in module.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        gain = 1.0 * (name.endswith("weight") and parameter.ndim == 1)
        parameter.data = gain + noise * (0.4 if parameter.ndim == 1 else 1.6 / WIDTH**0.5)
    module.unembed.bias.data[[PAD, GO]] -= 30.0
    return module.requires_grad_(False).eval()
