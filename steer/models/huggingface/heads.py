"""An attention module's own projections, cut into heads. No weight is copied.

Where several query heads share a key head, keys and values are spread over the query heads: what one of them sees can
then be edited alone. Shapes: B examples, T queries, S keys, H heads, d head size, D width.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from steer.models.huggingface import parts

Map: TypeAlias = Callable[[Tensor], Tensor]
HEAD_SIZES = ("head_dim", "head_size", "key_value_proj_dim")  # what families call it


def same(x: Tensor) -> Tensor:
    return x


def part(module: nn.Module, path: str) -> Map:
    """The module at a path; without a path, nothing is done."""
    return module.get_submodule(path) if path else same


@dataclass(frozen=True, eq=False)
class Heads:
    module: Any  # the model's own attention module
    row: parts.Attention
    softmax: torch.dtype | None = None  # in which patterns are computed, if not in that of the scores
    cap: float | None = None
    window: int | None = None
    rotary: bool = False

    @cached_property
    def size(self) -> int:
        return next(int(getattr(self.module, name)) for name in HEAD_SIZES if hasattr(self.module, name))

    @cached_property
    def count(self) -> int:
        return weight_of(self.output).shape[1] // self.size

    @property
    def groups(self) -> int:
        """How many query heads share a key head."""
        return int(getattr(self.module, "num_key_value_groups", 1))

    @property
    def scale(self) -> float:
        return float(self.module.scaling)

    @cached_property
    def output(self) -> Any:
        return self.module.get_submodule(self.row.o)

    @cached_property
    def norms(self) -> dict[str, Map]:
        return {"q": part(self.module, self.row.q_norm), "k": part(self.module, self.row.k_norm), "v": same}

    def project(self, read: Tensor, source: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """q of what is read, k and v of the source, each B T H d: the model's projections, each called once."""
        made: dict[str, Tensor] = {}
        projected = []
        for port, x in (("q", read), ("k", source), ("v", source)):
            path = getattr(self.row, port)
            if path not in made:
                made[path] = self.module.get_submodule(path)(x)
            projected.append(self.spread(port, self.norms[port](cut(made[path], self.row.fused, port, self.size))))
        return projected[0], projected[1], projected[2]

    def spread(self, port: str, value: Tensor) -> Tensor:
        """Keys and values as each query head sees them: heads of a group stand side by side."""
        return value if port == "q" or self.groups == 1 else value.repeat_interleave(self.groups, 2)

    def port(self, port: str, read: Tensor, head: int) -> Tensor:
        """One query head's q, k or v of what is read, B T d, by its own rows of the projection."""
        module = self.module.get_submodule(getattr(self.row, port))
        group = head if port == "q" else head // self.groups
        rows = cut(weight_of(module).T, self.row.fused, port, self.size)[..., group, :]  # D d
        value = read @ rows
        if module.bias is not None:
            value = value + cut(module.bias, self.row.fused, port, self.size)[group]
        return self.norms[port](value)

    def join(self, z: Tensor) -> Tensor:
        """What the block writes in all, B T D: all heads' z through the output projection, and its bias."""
        written: Tensor = self.output(z.flatten(2))
        return written

    def columns(self, head: int) -> Tensor:
        """A head's part of the output projection: D d."""
        return weight_of(self.output)[:, head * self.size : (head + 1) * self.size]

    @property
    def bias(self) -> Tensor | None:
        """What the output projection adds, whatever the heads do."""
        bias: Tensor | None = self.output.bias
        return bias


def cut(x: Tensor, fused: str, port: str, size: int) -> Tensor:
    """The part of a projection's outputs (the last axis) that is q, k or v, head by head: … H d."""
    number = "qkv".index(port)
    if fused == "3hd":
        return x.reshape(*x.shape[:-1], 3, -1, size)[..., number, :, :]
    if fused == "h3d":
        return x.reshape(*x.shape[:-1], -1, 3, size)[..., number, :]
    return x.reshape(*x.shape[:-1], -1, size)


def weight_of(module: Any) -> Tensor:
    """A projection's weight, output by input. A Conv1D holds it the other way round."""
    weight: Tensor = module.weight
    return weight.T if type(module).__name__ == "Conv1D" else weight


def rotate(x: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
    """The first features of each vector turned by their token's angles: … d, with cosines and sines of that shape."""
    cos, sin = turn
    turned, rest = x[..., : cos.shape[-1]], x[..., cos.shape[-1] :]
    first, second = turned.chunk(2, -1)
    turned = turned * cos + torch.cat([-second, first], -1) * sin
    return torch.cat([turned, rest.expand(*turned.shape[:-1], -1)], -1)  # a mean is the same for all examples
