"""Experiments on Hugging Face models from their words: the model's own forward pass with plain hooks, nothing padded.

Every source is held by a hook on the module that makes it, and the model's own code adds and norms. Where modules end,
inside attention, an attention function of our own under transformers' documented interface hands over to the family's.
From the project come the paths of modules in a row, and nothing else.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import eager_mask

from steer.models.huggingface.rows import ROWS

Seen = dict[str, Tensor]  # node or site by name -> T …
Change = Callable[[Tensor], Tensor]
Edits = dict[str, Change]


@dataclass
class Own:
    """A network with what is where: blocks by the names of their heads, without the head (`dec-self-1`)."""

    network: Any
    attention: dict[str, Any] = field(default_factory=dict)
    output: dict[str, Any] = field(default_factory=dict)
    whole: dict[str, Any] = field(default_factory=dict)  # embeddings and MLPs: modules that give a node's write

    def __post_init__(self) -> None:
        row = ROWS[self.network.config.model_type]
        self.scales = {f"{name}.tok": stack.scale for name, stack in row.stacks.items() if stack.scale}
        for name, stack in row.stacks.items():
            home = self.network.get_submodule(stack.path)
            self.whole[f"{name}.tok"] = home.get_submodule(stack.tokens)
            if stack.positions:
                self.whole[f"{name}.pos"] = home.get_submodule(stack.positions)
            for number, layer in enumerate(home.get_submodule(stack.layers)):
                self.whole[f"{name}-mlp-{number}"] = layer.get_submodule(stack.mlp.chain[-1])
                for kind, part in (("self", stack.self_attention), ("cross", stack.cross_attention)):
                    if part is not None:
                        module = layer.get_submodule(part.path)
                        self.attention[f"{name}-{kind}-{number}"] = module
                        self.output[f"{name}-{kind}-{number}"] = module.get_submodule(part.o)

    @property
    def two_stacks(self) -> bool:
        return any(name.startswith("enc") for name in self.output)

    def heads(self, block: str) -> int:
        config = self.network.config
        return getattr(config, "num_attention_heads", None) or config.num_heads

    @property
    def nodes(self) -> list[str]:
        return [*self.whole, *(f"{block}.{head}" for block in self.output for head in range(self.heads(block)))]


def forward(own: Own, prompt: Sequence[int], said: Sequence[int], edits: Edits | None = None, positions=None) -> Seen:
    """One example. A head's node is its z; ports and patterns are as each query head sees them."""
    met = Meeting(own, edits or {})
    ids = torch.tensor([[*prompt, *([] if own.two_stacks else said)]])
    given: dict[str, Any] = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if own.two_stacks:
        given["decoder_input_ids"] = torch.tensor([list(said)])
    elif positions is not None:
        given["position_ids"] = torch.tensor([positions])
    with torch.no_grad(), met.hooked():
        met.seen["logits"] = own.network(**given, use_cache=False).logits[0]
    return met.seen


class Meeting:
    NAME = "by-hand"

    def __init__(self, own: Own, edits: Edits) -> None:
        self.own, self.edits, self.seen = own, edits, {}
        self.blocks = {id(module): block for block, module in own.attention.items()}

    def meet(self, name: str, value: Tensor) -> Tensor:
        value = self.edits[name](value) if name in self.edits else value
        self.seen[name] = value
        return value

    @contextlib.contextmanager
    def hooked(self) -> Iterator[None]:
        AttentionInterface.register(self.NAME, self.attend)
        AttentionMaskInterface.register(self.NAME, eager_mask)
        handles = [module.register_forward_hook(self.after(node)) for node, module in self.own.whole.items()]
        handles += [module.register_forward_pre_hook(self.before(block)) for block, module in self.own.output.items()]
        self.own.network.set_attn_implementation(self.NAME)
        try:
            yield
        finally:
            self.own.network.set_attn_implementation("eager")
            for handle in handles:
                handle.remove()

    def after(self, node: str):
        def hook(module, args, value: Tensor) -> Tensor:
            whole = value if value.ndim == 3 else value[None]
            return self.meet(node, whole[0])[None] if value.ndim == 3 else self.meet(node, value)

        return hook

    def before(self, block: str):
        def hook(module, args):
            z = args[0][0].unflatten(-1, (self.own.heads(block), -1))
            new = [self.meet(f"{block}.{head}", z[:, head]) for head in range(z.shape[1])]
            return (torch.stack(new, 1).flatten(1)[None], *args[1:])

        return hook

    def attend(self, module, query, key, value, mask, **more):
        block = self.blocks[id(module)]
        groups = query.shape[1] // key.shape[1]
        ports = {"q": query, "k": key.repeat_interleave(groups, 1), "v": value.repeat_interleave(groups, 1)}
        q, k, v = (self._each(block, port, whole) for port, whole in ports.items())
        if more.get("position_bias") is not None:
            more["position_bias"] = self._each(block, "bias", more["position_bias"])
        spread = hasattr(module, "num_key_value_groups")
        if spread:
            module.num_key_value_groups = 1
        eager = sys.modules[type(module).__module__].eager_attention_forward
        try:
            out, pattern = eager(module, q, k, v, mask, **more)
        finally:
            if spread:
                module.num_key_value_groups = groups
        for head in range(pattern.shape[1]):
            self.seen[f"{block}.{head}.pattern"] = pattern[0, head]
        return out, pattern

    def _each(self, block: str, port: str, whole: Tensor) -> Tensor:
        return torch.stack([self.meet(f"{block}.{h}.{port}", whole[0, h]) for h in range(whole.shape[1])])[None]


@dataclass
class Trial:
    """An example: framed prompt, what was said so far (its opening included), and the means over all examples."""

    own: Own
    prompt: list[int]
    said: list[int]
    means: dict[str, tuple[list[Tensor], Tensor]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.clean = self.run({})

    def run(self, edits: Edits, **more) -> Seen:
        return forward(self.own, self.prompt, self.said, edits, **more)

    def mean(self, node: str) -> Tensor:
        at, pooled = self.means[node]
        return torch.stack([at[t] if t < len(at) else pooled for t in range(len(self.clean[node]))])

    def saying(self, said: list[int]) -> Trial:
        return Trial(self.own, self.prompt, said, self.means)


def give_means(trials: Sequence[Trial]) -> None:
    for node in trials[0].own.nodes:
        values = [trial.clean[node] for trial in trials]
        at = [torch.stack([v[t] for v in values if len(v) > t]).mean(0) for t in range(max(map(len, values)))]
        for trial in trials:
            trial.means[node] = at, torch.cat(values).mean(0)


Condition = Callable[[Trial], Edits]


def node_of(port: str) -> str:
    return port if "-mlp-" in port else port.rpartition(".")[0]


def as_read(trial: Trial, port: str, write: Callable[[str], Tensor]) -> Tensor:
    """What a port (or an MLP) is, every other node of the model held as given."""
    held = [node for node in trial.own.nodes if node != node_of(port)]
    return trial.run({node: put(write(node)) for node in held})[port]


def put(value: Tensor) -> Change:
    return lambda old: value


def kept(targets: Sequence[str], only: str | None) -> Condition:
    def write(trial: Trial, node: str) -> Tensor:
        return trial.clean[node] if node == only else trial.mean(node)

    return lambda trial: {t: put(as_read(trial, t, lambda node: write(trial, node))) for t in targets}


def ablated(targets: Sequence[str], without: str) -> Condition:
    def write(trial: Trial, node: str) -> Tensor:
        return trial.mean(node) if node == without else trial.clean[node]

    return lambda trial: {t: put(as_read(trial, t, lambda node: write(trial, node))) for t in targets}


def chained(first: Condition, one: str, two: str) -> Condition:
    """What a first change does to the node of `one` is passed on to `two`, whose other sources are ablated."""

    def edits(trial: Trial) -> Edits:
        passed = trial.run(first(trial))[node_of(one)]
        return {two: put(as_read(trial, two, lambda n: passed if n == node_of(one) else trial.mean(n)))}

    return edits


def silenced(nodes: Sequence[str]) -> Condition:
    return lambda trial: {node: put(trial.mean(node)) for node in nodes}


def say(trial: Trial, condition: Condition, longest: int, end: int | None) -> list[int]:
    """The model's own answer, the condition's edits made again at every step."""
    said: list[int] = []
    while len(said) < longest and (end is None or end not in said):
        now = trial.saying([*trial.said, *said])
        said.append(int(now.run(condition(now))["logits"][-1].argmax()))
    return said
