"""The plain transformer as a `Model`: what the engine and the measures need to know about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn

from steer.anatomy.layout import Layout
from steer.anatomy.nodes import BETWEEN_TOKENS, Node, Site
from steer.models.batch import collate
from steer.models.plain.layout import PlainSteps, plain_layout
from steer.models.plain.transformer import MLP, Attention, State, Transformer
from steer.models.protocol import Batch, Directions, Readout, Writes
from steer.models.vocabulary import PAD, Vocabulary
from steer.tasks.task import ANSWER, PROMPT, Example


@dataclass(frozen=True)
class PlainModel:
    module: Transformer
    vocabulary: Vocabulary

    @cached_property
    def layout(self) -> Layout:
        return plain_layout(self.module.config)

    @cached_property
    def steps(self) -> PlainSteps:
        return PlainSteps(self.module.config.encoder_layers, self.module.config.decoder_layers)

    @property
    def like(self) -> Tensor:
        return self.module.unembed.weight

    @property
    def max_length(self) -> int:
        return self.module.config.max_length

    @property
    def pad(self) -> int:
        return self.vocabulary.pad

    @property
    def end(self) -> int | None:
        return self.vocabulary.end

    @property
    def readout(self) -> Readout:
        return Readout(self.module.unembed.weight, self.module.unembed.bias, self.module.ln_dec.weight)

    def size(self, hook: str) -> tuple[int, ...]:
        config, name = self.module.config, hook.rpartition(".")[2]
        if name in ("q", "k", "v", "z"):
            return (config.heads, config.d_head)
        return () if name in BETWEEN_TOKENS else (config.answer_tokens if name == "logits" else config.d_model,)

    def encode(self, examples: Sequence[Example], rows: list[int], number: int = 0) -> Batch:
        """`rows`: which of the examples the batch holds."""
        tokens = collate([examples[row] for row in rows], self.vocabulary)
        prompt, output, target = (torch.from_numpy(a).to(self.like.device) for a in vars(tokens).values())
        return _batch(number, rows, prompt, output, target)

    def state(self, batch: Batch, given: Mapping[str, Tensor]) -> State:
        return State(batch.tokens[PROMPT], batch.tokens[ANSWER], **given)

    def unanswered(self, batch: Batch) -> Batch:
        return self._saying(batch, batch.tokens[PROMPT].new_full((len(batch.rows), 1), self.vocabulary.start))

    def answered(self, batch: Batch, said: Tensor) -> Batch:
        return self._saying(batch, torch.cat([batch.tokens[ANSWER], said[:, None]], dim=1))

    def _saying(self, batch: Batch, output: Tensor) -> Batch:
        return _batch(batch.number, batch.rows, batch.tokens[PROMPT], output, batch.target)

    def written(self, node: Node, value: Tensor) -> Tensor:
        """A head's z through its part of W_O; biases are constant and belong to the stream, not to a head."""
        return value if node.head is None else value[..., node.head, :] @ self._columns(node).T

    def _columns(self, head: Node) -> Tensor:
        """A head's part of W_O: D d."""
        block, number = self._attention(head), head.head or 0
        size = block.W_O.in_features // block.heads
        return block.W_O.weight[:, number * size : (number + 1) * size]

    def folded(self, port: Site, writes: Writes) -> Tensor:
        return sum(map(writes, self.layout.sources(port)), start=self.constant(port))

    def read(self, port: Site, stream: Tensor, batch: Batch) -> Tensor:
        if port.node.head is None:
            return self._mlp(port.node).of(stream)
        return self._project(port, self._norm(port)(stream))

    def _project(self, port: Site, normed: Tensor) -> Tensor:
        """One head's q, k or v of a normed stream."""
        block, head = self._attention(port.node), port.node.head or 0
        full: nn.Linear = {"q": block.W_Q, "k": block.W_K, "v": block.W_V}[port.port or ""]
        size = full.out_features // block.heads
        rows = slice(head * size, (head + 1) * size)
        return normed @ full.weight[rows].T + full.bias[rows]

    def copied(self, head: Node, normed: Tensor) -> Tensor:
        return self._project(Site(head, "v"), normed) @ self._columns(head).T

    def _norm(self, port: Site) -> nn.Module:
        """Another stream is read through its own final norm, its own stream through the block's."""
        own = self.layout.reads(port) == self.layout.block(port.node).writes
        return self._attention(port.node).ln if own else self.module.ln_enc

    def directions(self, values: Mapping[Site, Tensor], direction: Tensor) -> Directions:
        """Only the last LayerNorm lies between the writes and the logits."""
        norm, logits = self.module.ln_dec, self.layout.logits
        scale = torch.sqrt(values[self.layout.stream(logits)].var(-1, unbiased=False, keepdim=True) + norm.eps)  # B T 1
        back = direction * norm.weight
        back = (back - back.mean(-1, keepdim=True)) / scale  # LayerNorm takes the mean off
        constant = back @ self.constant(logits) + direction @ norm.bias
        return Directions(dict.fromkeys(self.layout.sources(logits), back), constant)

    def lens(self, stream: Tensor) -> Tensor:
        logits: Tensor = self.module.unembed(self.module.ln_dec(stream))
        return logits

    def constant(self, port: Site) -> Tensor:
        """The attention biases. (An MLP's bias is part of its write.)"""
        return self._biases(self.layout.sources(port))

    def _biases(self, nodes: Sequence[Node]) -> Tensor:
        blocks = {id(b): b for n in nodes if n.is_head for b in (self._attention(n),)}
        return sum((b.W_O.bias for b in blocks.values()), start=torch.zeros_like(self.module.ln_enc.weight))

    def _attention(self, node: Node) -> Attention:
        block = self._block(Site(node, "z"))
        assert isinstance(block, Attention)
        return block

    def _mlp(self, node: Node) -> MLP:
        block = self._block(Site(node))
        assert isinstance(block, MLP)
        return block

    def _block(self, site: Site) -> nn.Module:
        return self.module.get_submodule(self.steps.hook(site).rpartition(".")[0])


def _batch(number: int, rows: list[int], prompt: Tensor, output: Tensor, target: Tensor) -> Batch:
    tokens = {PROMPT: prompt, ANSWER: output}
    return Batch(number, rows, tokens, {name: ids != PAD for name, ids in tokens.items()}, target)
