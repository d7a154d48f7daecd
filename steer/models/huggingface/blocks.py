"""Attention and MLP as steps over a model's own modules, with a hook at every site.

Sites stand at the start of the step that depends on them: a pass that edits keys starts at `attend` and does not
project again. Every step takes the model's own projections, norms and activations; attention itself is written out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor, nn

from steer.models.huggingface.heads import Heads, Map, part, rotate
from steer.models.huggingface.parts import Attention, Feedforward
from steer.models.huggingface.state import State, hidden_keys

Step: TypeAlias = Callable[[State], None]


class Hook(nn.Module):
    """A named place in the forward pass: an identity module."""

    def forward(self, x: Tensor) -> Tensor:
        return x


@dataclass(frozen=True, eq=False)
class Around:
    """The norms around a block."""

    pre: Map
    out: Map
    post: Map

    def add(self, stream: Tensor, written: Tensor) -> Tensor:
        """The stream after a block wrote."""
        return self.post(stream + self.out(written))


def around(layer: nn.Module, row: Attention | Feedforward) -> Around:
    return Around(part(layer, row.pre), part(layer, row.out), part(layer, row.post))


class AttentionBlock(nn.Module):
    def __init__(self, stack: str, keys: str, heads: Heads, norms: Around, ports: tuple[str, ...]) -> None:
        super().__init__()
        self.stack, self.keys, self.heads, self.norms = stack, keys, heads, norms
        for name in ("resid", "out", *(port.replace("-", "_") for port in ports if port != "out")):
            self.add_module(name, Hook())
        self.turn: Callable[[State, str], tuple[Tensor, Tensor]] | None = None  # angles, where keys are rotated
        self.made_bias: Callable[[int, int], Tensor] | None = None  # 1 H T S, where scores have a bias

    def steps(self) -> dict[str, Step]:
        return {"project": self.project, "attend": self.attend, "mix": self.mix, "write": self.write}

    def at(self, name: str, value: Tensor) -> Tensor:
        met: Tensor = self.get_submodule(name)(value)
        return met

    def project(self, state: State) -> None:
        state.stream = state.start = self.at("resid", state.stream)
        read = self.norms.pre(state.stream)
        q, k, state.v = self.heads.project(read, read if self.keys == self.stack else state.memory)
        state.q, state.k = self.rotated(state, "q", q), self.rotated(state, "k", k)

    def rotated(self, state: State, port: str, value: Tensor) -> Tensor:
        """What the scores are made of: B T H d."""
        if self.turn is None:
            return value
        cos, sin = self.turn(state, self.stack)
        return rotate(self.at(f"{port}_pre", value), (cos[:, :, None], sin[:, :, None]))

    def attend(self, state: State) -> None:
        q, k = self.at("q", state.q), self.at("k", state.k)
        scores = q.transpose(1, 2) @ k.permute(0, 2, 3, 1) * self.heads.scale  # B H T S
        if self.heads.cap is not None:
            scores = torch.tanh(scores / self.heads.cap) * self.heads.cap
        if self.made_bias is not None:
            bias = self.made_bias(q.shape[1], k.shape[1]).expand(len(q), -1, -1, -1)
            scores = scores + self.at("bias", bias)
        # The least number, not minus infinity: a row of padding that may look nowhere must not become NaN. It has to
        # survive the cast to the softmax's own dtype.
        least = max(torch.finfo(dtype).min for dtype in (self.heads.softmax or scores.dtype, scores.dtype))
        scores = self.at("scores", scores.masked_fill(self.hidden(state), least))
        state.pattern = self.at("pattern", scores.softmax(-1, dtype=self.heads.softmax).to(scores.dtype))

    def hidden(self, state: State) -> Tensor:
        """True where a query may not look: B 1 T S."""
        causal = self.keys == self.stack == "dec"
        key = (self.stack, self.keys, self.heads.window)
        if key not in state.hidden:
            state.hidden[key] = hidden_keys(state.real[self.stack], state.real[self.keys], causal, self.heads.window)
        return state.hidden[key]

    def mix(self, state: State) -> None:
        z = state.pattern @ self.at("v", state.v).transpose(1, 2)  # B H T d
        state.written = z.transpose(1, 2)

    def write(self, state: State) -> None:
        written = self.at("out", self.heads.join(self.at("z", state.written)))
        state.stream = self.norms.add(state.stream, written)


class FeedforwardBlock(nn.Module):
    def __init__(self, chain: tuple[Map, ...], norms: Around, beside: bool) -> None:
        super().__init__()
        self.chain, self.norms, self.beside = chain, norms, beside
        self.resid, self.out, self.post = Hook(), Hook(), Hook()

    def steps(self) -> dict[str, Step]:
        return {"compute": self.compute, "write": self.write}

    def compute(self, state: State) -> None:
        state.stream = self.resid(state.stream)
        state.written = self.of(state.start if self.beside else state.stream)

    def of(self, stream: Tensor) -> Tensor:
        """What the block makes of a stream."""
        value = self.norms.pre(stream)
        for module in self.chain:
            value = module(value)
        return value

    def write(self, state: State) -> None:
        state.stream = self.post(self.norms.add(state.stream, self.out(state.written)))
