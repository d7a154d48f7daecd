"""A Hugging Face model as a sequence of named steps over its own submodules, wired by its family's row.

The hooks hang beside the model, not in it: nothing of the model is changed, and its own forward pass stays what it
was, to be compared with (see `referee`).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor, nn

from steer.anatomy.layout import Block, Layout
from steer.models.huggingface.blocks import AttentionBlock, FeedforwardBlock, Hook, Step, around
from steer.models.huggingface.heads import Heads, Map, part
from steer.models.huggingface.parts import Row, Stack
from steer.models.huggingface.state import State, positions
from steer.models.huggingface.steps import path_of


class Embedding(nn.Module):
    """What the embeddings write: tokens, and positions where there is a table of them."""

    def __init__(self, model: nn.Module, row: Stack) -> None:
        super().__init__()
        self.row, self.stack = row, [model.get_submodule(row.path)]  # in a list: the model's, not a part of this
        self.tok, self.pos = Hook(), Hook()

    def forward(self, ids: Tensor, real: Tensor) -> Tensor:
        written = self.tok(self.written_tokens(ids))
        if self.row.positions:
            written = written + self.pos(self.written_positions(ids, real).expand_as(written))
        return self.norm(written)

    def written_tokens(self, ids: Tensor) -> Tensor:
        stack, row = self.stack[0], self.row
        value: Tensor = stack.get_submodule(row.tokens)(ids)
        return value * getattr(stack, row.scale) if row.scale else value

    def written_positions(self, ids: Tensor, real: Tensor) -> Tensor:
        take = self.row.positions_take
        given: Any = positions(real) if take == "ids" else ids if take == "tokens" else ids.shape
        value: Tensor = self.stack[0].get_submodule(self.row.positions)(given)
        return value

    @property
    def norm(self) -> Map:
        """The norm of the embeddings' sum."""
        return part(self.stack[0], self.row.embedding_norm)


class Wired(nn.Module):
    def __init__(self, model: Any, row: Row, layout: Layout) -> None:
        super().__init__()
        self.model, self.row, self.layout = model, row, layout
        for name, stack in row.stacks.items():
            self.add_module(f"{name}_embed", Embedding(model, stack))
            layers: dict[int, nn.ModuleDict] = {}
            for block in layout.blocks:
                if block.writes == name and block.layer is not None:
                    name_of_part = path_of(block).rpartition(".")[2]
                    layers.setdefault(block.layer, nn.ModuleDict())[name_of_part] = self._wire(block, stack)
            self.add_module(name, nn.ModuleList(layers.values()))
        self.memory, self.final, self.logits = Hook(), Hook(), Hook()

    def _wire(self, block: Block, stack: Stack) -> nn.Module:
        layer = self._layers(stack)[block.layer or 0]
        if not block.heads:
            chain = tuple(part(layer, path) for path in stack.mlp.chain)
            return FeedforwardBlock(chain, around(layer, stack.mlp), block.beside)
        keys = dict(block.reads)["k"]
        crossed = keys != block.writes
        attention = stack.cross_attention if crossed else stack.self_attention
        assert attention is not None
        module = layer.get_submodule(attention.path)
        heads = self._heads(module, attention, crossed)
        made = AttentionBlock(block.writes, keys, heads, around(layer, attention), block.ports)
        made.turn = self.turn if heads.rotary else None
        made.made_bias = partial(self.bias, stack) if "bias" in block.ports else None
        return made

    def _layers(self, stack: Stack) -> nn.ModuleList:
        layers = self.model.get_submodule(stack.path).get_submodule(stack.layers)
        assert isinstance(layers, nn.ModuleList)
        return layers

    def _heads(self, module: Any, attention: Any, crossed: bool) -> Heads:
        row, config = self.row, self.model.config
        says = {"": None, "config": getattr(config, "sliding_window", None)}
        return Heads(
            module, attention, torch.float32 if row.softmax32 else None,
            getattr(module, row.score_cap) if row.score_cap else None,
            None if crossed else says.get(row.window, getattr(module, "sliding_window", None)),
            bool(row.rotary) and not crossed,
        )  # fmt: skip

    def block(self, path: str) -> AttentionBlock | FeedforwardBlock:
        module = self.get_submodule(path)
        assert isinstance(module, AttentionBlock | FeedforwardBlock)
        return module

    def embedding(self, stack: str) -> Embedding:
        module = self.get_submodule(f"{stack}_embed")
        assert isinstance(module, Embedding)
        return module

    def forward(self, state: State) -> Tensor:
        return self.run(state).logits

    @property
    def windows(self) -> set[int]:
        """How far back tokens may look, where that is limited."""
        windows = [block.heads.window for block in self.modules() if isinstance(block, AttentionBlock)]
        return {window for window in windows if window is not None}

    @cached_property
    def hooks(self) -> dict[str, Hook]:
        return {name: module for name, module in self.named_modules() if isinstance(module, Hook)}

    def run(self, state: State, start: str | None = None, stop: str | None = None) -> State:
        """Take the steps from `start` up to, not including, `stop`. Changes the state and returns it."""
        steps = self.steps()
        names = list(steps)
        for name in names[names.index(start) if start else 0 : names.index(stop) if stop else None]:
            steps[name](state)
        return state

    def steps(self) -> dict[str, Step]:
        """Every step of a forward pass by name, in order."""
        return dict(self._steps())

    def _steps(self) -> Iterator[tuple[str, Step]]:
        for name in self.row.stacks:
            yield f"{name}.embed", partial(self._embed, name)
            layers = self.get_submodule(name)
            assert isinstance(layers, nn.ModuleList)
            for number, layer in enumerate(layers):
                assert isinstance(layer, nn.ModuleDict)
                for block_name, block in layer.items():
                    assert isinstance(block, AttentionBlock | FeedforwardBlock)
                    yield from ((f"{name}.{number}.{block_name}.{s}", take) for s, take in block.steps().items())
            yield f"{name}.norm", partial(self._end, name)

    def _embed(self, name: str, state: State) -> None:
        state.stream = self.embedding(name)(state.tokens[name], state.real[name])

    def _end(self, name: str, state: State) -> None:
        final = self.final_norm(name)(state.stream)
        if name == "enc":
            state.memory = self.memory(final)
        else:
            state.logits = self.logits(self.capped(self.raw_logits(self.final(final))))

    def final_norm(self, name: str) -> Any:
        stack = self.row.stacks[name]
        return part(self.model.get_submodule(stack.path), stack.final)

    def raw_logits(self, final: Tensor) -> Tensor:
        """Logits before they are capped."""
        logits: Tensor = self.model.get_submodule(self.row.head)(final * self.head_scale)
        return logits + self.head_bias if self.head_bias is not None else logits

    def capped(self, logits: Tensor) -> Tensor:
        cap = getattr(self.model.config, self.row.logit_cap) if self.row.logit_cap else None
        return logits if cap is None else torch.tanh(logits / cap) * cap

    @property
    def head_scale(self) -> float:
        config = self.model.config
        scaled = bool(self.row.head_scale) and getattr(config, self.row.head_scale)
        return float(config.d_model) ** -0.5 if scaled else 1.0

    @property
    def head_bias(self) -> Tensor | None:
        """What is added to the logits: V."""
        return getattr(self.model, self.row.head_bias)[0] if self.row.head_bias else None

    def bias(self, stack: Stack, queries: int, keys: int) -> Tensor:
        """The relative bias of a stack's scores, 1 H T S: made by its first layer, used by all."""
        maker: Any = self._layers(stack)[0].get_submodule(stack.bias)
        made: Tensor = maker.compute_bias(queries, keys)
        return made

    def turn(self, state: State, stack: str) -> tuple[Tensor, Tensor]:
        """The angles of a stack's tokens: cosines and sines, B T d."""
        if stack not in state.turns:
            state.turns[stack] = self.angles(state.real[stack])
        return state.turns[stack]

    def angles(self, real: Tensor) -> tuple[Tensor, Tensor]:
        made: tuple[Tensor, Tensor] = self.model.get_submodule(self.row.rotary)(self.like, positions(real))
        return made

    @property
    def like(self) -> Tensor:
        """A tensor of the model's device and dtype."""
        weight: Tensor = self.model.get_submodule(self.row.head).weight
        return weight
