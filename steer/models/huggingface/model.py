"""A Hugging Face model as the engine asks for it: names to hooks, writes, reads and tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from steer.anatomy.layout import Layout
from steer.anatomy.nodes import BETWEEN_TOKENS, Node, Site
from steer.models.huggingface import encoding, fold
from steer.models.huggingface.blocks import AttentionBlock, FeedforwardBlock
from steer.models.huggingface.encoding import Frame
from steer.models.huggingface.heads import rotate
from steer.models.huggingface.layout import layout_of, most_tokens, padding, row_of
from steer.models.huggingface.parts import Row
from steer.models.huggingface.state import State
from steer.models.huggingface.steps import BlockSteps, path_of
from steer.models.huggingface.wired import Wired
from steer.models.protocol import Batch, Directions, Exchange, Readout, Writes
from steer.models.vocabulary import Vocabulary
from steer.tasks.task import Example


@dataclass(frozen=True, eq=False)
class HuggingFaceModel:
    module: Wired
    frame: Frame

    @property
    def layout(self) -> Layout:
        return self.module.layout

    @cached_property
    def steps(self) -> BlockSteps:
        return BlockSteps(self.layout)

    @property
    def row(self) -> Row:
        return self.module.row

    @property
    def config(self) -> Any:
        return self.module.model.config

    @property
    def like(self) -> Tensor:
        return self.module.like

    @property
    def max_length(self) -> int:
        return most_tokens(self.row, self.config.to_dict())

    @property
    def pad(self) -> int:
        """Fills a shorter row. In the model which token it is does not matter: nothing looks at it."""
        return self.frame.vocabulary.pad

    @property
    def end(self) -> int | None:
        return self.frame.vocabulary.end

    @property
    def readout(self) -> Readout:
        head: Any = self.module.model.get_submodule(self.row.head)
        scale = self.module.head_scale
        rows: Tensor = head.weight if scale == 1.0 else head.weight * scale
        bias = self.module.head_bias
        return Readout(rows, rows.new_zeros(len(rows)) if bias is None else bias)

    def size(self, hook: str) -> tuple[int, ...]:
        path, _, name = hook.rpartition(".")
        if name in ("z", "q", "k", "v", "q_pre", "k_pre"):
            heads = self._attention_at(path).heads
            return (heads.count, heads.size)
        if name in BETWEEN_TOKENS:
            return ()
        return (len(self.readout.rows) if name == "logits" else int(self.like.shape[-1]),)

    def encode(self, examples: Sequence[Example], rows: list[int], number: int = 0) -> Batch:
        return encoding.moved(encoding.encode(self.frame, self.layout, examples, rows, number), self.like.device)

    def unanswered(self, batch: Batch) -> Batch:
        return encoding.unanswered(self.frame, self.layout, batch)

    def answered(self, batch: Batch, said: Tensor) -> Batch:
        return encoding.answered(self.frame, self.layout, batch, said)

    def state(self, batch: Batch, given: Mapping[str, Tensor]) -> State:
        names = {stream.name: stream.sequence for stream in self.layout.streams}
        tokens = {name: batch.tokens[sequence] for name, sequence in names.items()}
        state = State(tokens, {name: batch.real[sequence] for name, sequence in names.items()})
        return replace(state, **given)  # type: ignore[arg-type]  # fields of tensors, by the steps' own names

    def written(self, node: Node, value: Tensor) -> Tensor:
        """A head's z through its part of the output projection, without the bias that all heads share."""
        return value if node.head is None else value[..., node.head, :] @ self._heads(node).columns(node.head).T

    def folded(self, port: Site, writes: Writes) -> Tensor:
        """The stream that a port reads, from what each of its sources wrote."""
        return fold.fold(self.module, self.layout.reads(port), writes, self.layout.read_until(port))

    def read(self, port: Site, stream: Tensor, batch: Batch) -> Tensor:
        if port.node.head is None:
            block = self.module.block(path_of(self.layout.block(port.node)))
            assert isinstance(block, FeedforwardBlock)
            return block.of(stream)
        value = self._project(port, self._norm(port)(stream))
        if port.port == "v" or not self._heads(port.node).rotary:
            return value
        return rotate(value, self._angles(port, batch))

    def lens(self, stream: Tensor) -> Tensor:
        normed = self.module.final_norm(self.layout.streams[-1].name)(stream)
        return self.module.capped(self.module.raw_logits(normed))

    def turned(self, port: Site, before: Tensor, batch: Batch, exchanged: Exchange) -> Tensor:
        rows, first, second = exchanged
        cos, sin = (turn.expand(len(before), -1, -1).clone() for turn in self._angles(port, batch))
        for turn in (cos, sin):
            turn[rows, first], turn[rows, second] = turn[rows, second], turn[rows, first]
        return rotate(before, (cos, sin))

    def _angles(self, port: Site, batch: Batch) -> tuple[Tensor, Tensor]:
        return self.module.angles(batch.real[self.layout.sequence(port)])

    def _project(self, port: Site, normed: Tensor) -> Tensor:
        """One head's q, k or v of a normed stream, before it is rotated."""
        return self._heads(port.node).port(port.port or "", normed, port.node.head or 0)

    def _norm(self, port: Site) -> Any:
        """Another stream is read through its own final norm, its own stream through the block's."""
        stream, own = self.layout.reads(port), self.layout.block(port.node)
        return self._attention(port.node).norms.pre if stream == own.writes else self.module.final_norm(stream)

    def copied(self, head: Node, normed: Tensor) -> Tensor:
        return self._project(Site(head, "v"), normed) @ self._heads(head).columns(head.head or 0).T

    def constant(self, port: Site) -> Tensor:
        """The biases of attention outputs. (An MLP's bias is part of its write.)"""
        blocks = dict.fromkeys(self.layout.block(node) for node in self.layout.sources(port))
        biases = [fold.bias_of(self.module, block) for block in blocks if block.heads]
        return sum((bias for bias in biases if bias is not None), start=torch.zeros_like(self.like[0]))

    def directions(self, values: Mapping[Site, Tensor], direction: Tensor) -> Directions:
        return fold.directions(self.module, values, direction)

    def _heads(self, node: Node) -> Any:
        return self._attention(node).heads

    def _attention(self, node: Node) -> AttentionBlock:
        return self._attention_at(path_of(self.layout.block(node)))

    def _attention_at(self, path: str) -> AttentionBlock:
        block = self.module.block(path)
        assert isinstance(block, AttentionBlock)
        return block


def wire(model: Any, place: str = "config", frame: Frame | None = None) -> HuggingFaceModel:
    """A loaded model, made ready: attention written out plainly, nothing trained, nothing dropped, nothing cached.

    Without a frame tokens go by their numbers.
    """
    config = model.config.to_dict()
    row, layout = row_of(config, place), layout_of(config, place)
    model.set_attn_implementation("eager")
    model.config.use_cache = False
    names = tuple(map(str, range(model.get_input_embeddings().num_embeddings)))
    frame = frame or Frame(Vocabulary(names, *padding(row, config, place)))
    return HuggingFaceModel(Wired(model.requires_grad_(False).eval(), row, layout), frame)
