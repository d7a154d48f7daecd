"""A family of models from outside: a decoder-only transformer of two layers, prompt and answer in one sequence.

`toy:one` has an MLP after attention and closes its answers; `toy:beside` has both side by side, reading the same point,
and nothing closes its answers. Every bias and gain is random. Nothing in `steer/` knows any of this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor, nn
from toy_net import END, GO, HEADS, LAYERS, LONGEST, PAD, SIZE, WIDTH, WORDS, Layer, State, Toy, random_toy, step_names

from steer.anatomy.layout import INPUT, Block, Layout, Stream
from steer.anatomy.names import Names
from steer.anatomy.nodes import Node, Site
from steer.models.protocol import Batch, Directions, Readout, Writes
from steer.models.scoring import Scoring
from steer.models.vocabulary import Vocabulary
from steer.results.provenance import Weights
from steer.tasks import TASKS
from steer.tasks.task import ANSWER, PROMPT, Task
from steer.tasks.text import Words

TEXT = "text"


def toy_layout(beside: bool) -> Layout:
    blocks = [Block("dec.tok", "dec"), Block("dec.pos", "dec", fixed=True)]
    for n in range(LAYERS):
        pre, mid, post = (Site(Node("dec-resid", n), point) for point in ("pre", "mid", "post"))
        blocks.append(Block("dec-self", "dec", (("q", "dec"), ("k", "dec"), ("v", "dec")), n, HEADS, at=pre))
        blocks.append(
            Block("dec-mlp", "dec", ((INPUT, "dec"),), n, at=None if beside else mid, then=post, beside=beside)
        )
    streams = (Stream("dec", TEXT, Site(Node("dec.final"))),)
    return Layout(tuple(blocks), streams, Site(Node("logits")), TEXT, TEXT)


class ToySteps:
    names = step_names()
    within = ("tok", "pos", "pre", "q", "k", "scores", "pattern", "v", "z", "mid", "mlp", "post", "final", "logits")

    def hook(self, site: Site) -> str:
        node = site.node
        if node.layer is None:
            return node.kind.rpartition(".")[2]
        name = "mlp" if node.kind == "dec-mlp" else "z" if site.port == "out" else site.port
        return f"layers.{node.layer}.{name}"

    def step(self, site: Site) -> str:
        hook = self.hook(site).rpartition(".")[2]
        if site.node.layer is None:
            return "embed" if hook in ("tok", "pos") else "norm"
        steps = {"pre": "project", "v": "mix"} | dict.fromkeys(("q", "k", "scores", "pattern"), "attend")
        return f"{site.node.layer}.{steps.get(hook, 'write')}"

    def order(self, site: Site) -> tuple[int, int]:
        return self.names.index(self.step(site)), self.within.index(self.hook(site).rpartition(".")[2])

    def given(self, start: str, stop: str | None) -> Mapping[str, str]:
        layer, _, step = start.rpartition(".")
        if step == "norm":
            return {"stream": f"layers.{LAYERS - 1}.post"}
        fields = {"attend": "qkv", "mix": ("pattern", "v"), "write": "z", "project": ""}.get(step)
        if fields is None:
            return {}
        return {"stream": f"layers.{layer}.pre"} | {name: f"layers.{layer}.{name}" for name in fields}


@dataclass(frozen=True)
class ToyModel:
    module: Toy
    vocabulary: Vocabulary

    @property
    def beside(self) -> bool:
        return self.module.layers[0].beside

    @cached_property
    def layout(self) -> Layout:
        return toy_layout(self.beside)

    steps = ToySteps()
    max_length = LONGEST
    pad = PAD

    @property
    def like(self) -> Tensor:
        return self.module.unembed.weight

    @property
    def end(self) -> int | None:
        return self.vocabulary.end

    @property
    def readout(self) -> Readout:
        return Readout(self.module.unembed.weight, self.module.unembed.bias)

    def size(self, hook: str) -> tuple[int, ...]:
        return (HEADS, SIZE) if hook.endswith(".z") else (WIDTH,)

    def encode(self, examples: Sequence, rows: list[int], number: int = 0) -> Batch:
        """GO, the prompt, the answer: place i of the prompt is column i + 1, its last token the answer's step 0."""
        prompts = [self.vocabulary.encode(examples[row].prompt) for row in rows]
        said = [self.vocabulary.encode(examples[row].answer) for row in rows]
        right = [[*answer, *([] if self.end is None else [self.end])] for answer in said]
        target, longest = padded(right), max(map(len, prompts))
        steps = target.shape[1]
        fed = [answer[: len(wanted) - 1] for answer, wanted in zip(said, right, strict=True)]
        texts = [[GO, *prompt, *answer] for prompt, answer in zip(prompts, fed, strict=True)]
        tokens = padded(texts, longest + steps)
        columns = torch.tensor([[len(prompt) + step for step in range(steps)] for prompt in prompts])
        places = {PROMPT: 1 + torch.arange(longest).expand(len(rows), -1), ANSWER: columns}
        return Batch(number, rows, {TEXT: tokens}, {TEXT: tokens != PAD}, target, places)

    def state(self, batch: Batch, given: Mapping[str, Tensor]) -> State:
        return State(batch.tokens[TEXT], **given)

    def unanswered(self, batch: Batch) -> Batch:
        first = batch.places[ANSWER][:, :1]
        tokens = batch.tokens[TEXT][:, : int(first.max()) + 1]
        tokens = tokens.masked_fill(torch.arange(tokens.shape[1]) > first, PAD)
        return self._with(batch, tokens, first)

    def answered(self, batch: Batch, said: Tensor) -> Batch:
        after, tokens = batch.places[ANSWER][:, -1:] + 1, batch.tokens[TEXT]
        missing = max(0, int(after.max()) + 1 - tokens.shape[1])
        tokens = nn.functional.pad(tokens, (0, missing), value=PAD).scatter(1, after, said[:, None])
        return self._with(batch, tokens, torch.cat([batch.places[ANSWER], after], dim=1))

    def _with(self, batch: Batch, tokens: Tensor, steps: Tensor) -> Batch:
        places = {**batch.places, ANSWER: steps}
        return replace(batch, tokens={TEXT: tokens}, real={TEXT: tokens != PAD}, places=places)

    def _layer(self, node: Node) -> Layer:
        return self.module.layers[node.layer]

    def written(self, node: Node, value: Tensor) -> Tensor:
        if node.head is None:
            return value
        columns = self._layer(node).wo.weight[:, node.head * SIZE : (node.head + 1) * SIZE]
        return value[..., node.head, :] @ columns.T

    def folded(self, port: Site, writes: Writes) -> Tensor:
        return sum(map(writes, self.layout.sources(port)), start=self.constant(port))

    def directions(self, values: Mapping[Site, Tensor], direction: Tensor) -> Directions:
        norm, logits = self.module.norm, self.layout.logits
        scale = torch.sqrt(values[self.layout.stream(logits)].var(-1, unbiased=False, keepdim=True) + norm.eps)
        back = direction * norm.weight
        back = (back - back.mean(-1, keepdim=True)) / scale
        constant = back @ self.constant(logits) + direction @ norm.bias
        return Directions(dict.fromkeys(self.layout.sources(logits), back), constant)

    def read(self, port: Site, stream: Tensor, batch: Batch) -> Tensor:
        layer, head = self._layer(port.node), port.node.head
        if head is None:
            return layer.made(stream)
        full = {"q": layer.wq, "k": layer.wk, "v": layer.wv}[port.port](layer.ln1(stream))
        return full[..., head * SIZE : (head + 1) * SIZE]

    def copied(self, head: Node, normed: Tensor) -> Tensor:
        raise NotImplementedError

    def constant(self, port: Site) -> Tensor:
        layers = {node.layer for node in self.layout.sources(port) if node.is_head}
        return sum((self.module.layers[n].wo.bias for n in layers), start=torch.zeros_like(self.module.norm.bias))


def padded(rows: list[list[int]], width: int = 0) -> Tensor:
    width = max(width, *map(len, rows))
    return torch.tensor([[*row, *[PAD] * (width - len(row))] for row in rows])


@dataclass(frozen=True)
class ToySubject:
    name: str
    names: Names
    model: ToyModel
    task: Task
    data_seed: int = 0

    @property
    def weights(self) -> Weights:
        return Weights(self.name, "f" * 64)

    @property
    def scoring(self) -> Scoring:
        return Scoring(self.task, self.model.vocabulary)

    def examine(self, examples: Sequence) -> None:
        pass

    def about(self, task: Task) -> ToySubject:
        return replace(self, task=task)


class ToyFamily:
    def names(self, place: str) -> Names:
        return Names(toy_layout(place == "beside"))

    def steps(self, place: str) -> ToySteps:
        return ToySteps()

    def task(self, place: str) -> str:
        return "prompts"

    def tokenizer(self, place: str) -> Words:
        return Words(WORDS)

    def load(self, place: str, device: str, dtype: str) -> ToySubject:
        module = random_toy(place == "beside").to(getattr(torch, dtype))
        words = Vocabulary(WORDS, PAD, GO, None if place == "beside" else END)
        return ToySubject(f"toy:{place}", self.names(place), ToyModel(module, words), TASKS["prompts"])


FAMILY = ToyFamily()
