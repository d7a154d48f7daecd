"""The toy's experiments from their words, by plain PyTorch hooks: one example at a time, without padding or engine."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from toy_net import END, GO, HEADS, LAYERS, SIZE, WORDS, Hook, Toy

Seen = dict[str, Tensor]  # hook -> T …
Edits = dict[str, Callable[[Tensor], Tensor]]


def forward(module: Toy, ids: Sequence[int], edits: Edits | None = None) -> Seen:
    seen: Seen = {}

    def watch(name: str):
        def hook(_, inputs, value):
            new = edits[name](value[0])[None] if edits and name in edits else value
            seen[name] = new[0]
            return new

        return hook

    hooked = [(name, one) for name, one in module.named_modules() if isinstance(one, Hook)]
    handles = [one.register_forward_hook(watch(name)) for name, one in hooked]
    try:
        module(torch.tensor([list(ids)]))
    finally:
        for handle in handles:
            handle.remove()
    return seen


@dataclass
class Trial:
    """An example with what has been said so far, and the means that stand in for ablated values."""

    module: Toy
    prompt: list[int]
    said: list[int]
    means: dict[str, list[Tensor]] = field(default_factory=dict)
    pooled: dict[str, Tensor] = field(default_factory=dict)

    @property
    def ids(self) -> list[int]:
        return [GO, *self.prompt, *self.said]

    def __post_init__(self) -> None:
        self.clean = forward(self.module, self.ids)

    def saying(self, said: list[int]) -> Trial:
        return Trial(self.module, self.prompt, said, self.means, self.pooled)

    def mean(self, hook: str) -> Tensor:
        at = self.means[hook]
        rows = [at[t] if t < len(at) else self.pooled[hook] for t in range(len(self.ids))]
        return torch.stack(rows)


@dataclass
class Lent(Trial):
    """What is ablated has the value of the run on the counterpart, in which the same has been said."""

    other: list[int] = field(default_factory=list)

    def saying(self, said: list[int]) -> Lent:
        return Lent(self.module, self.prompt, said, other=self.other)

    def mean(self, hook: str) -> Tensor:
        return forward(self.module, [GO, *self.other, *self.said])[hook]

    @property
    def theirs(self) -> Seen:
        return forward(self.module, [GO, *self.other, *self.said])


def give_means(trials: Sequence[Trial]) -> None:
    for hook in trials[0].clean:
        if "pattern" in hook or "scores" in hook:
            continue
        values = [trial.clean[hook] for trial in trials]
        at = [torch.stack([v[t] for v in values if len(v) > t]).mean(0) for t in range(max(map(len, values)))]
        for trial in trials:
            trial.means[hook], trial.pooled[hook] = at, torch.cat(values).mean(0)


def parts(name: str) -> tuple[str, int, int, str]:
    """`dec-self-1.2.k` -> kind, layer, head, port."""
    found = re.fullmatch(r"dec-(self|mlp)-(\d)(?:\.(\d))?(?:\.(\w+))?", name)
    assert found
    return found[1], int(found[2]), int(found[3] or 0), found[4] or ""


def hook_of(node: str) -> str:
    if node.startswith("dec."):
        return node.removeprefix("dec.")
    kind, layer, _, _ = parts(node)
    return f"layers.{layer}.{'mlp' if kind == 'mlp' else 'z'}"


def written(module: Toy, node: str, value: Tensor) -> Tensor:
    """What a node adds to the stream: of attention's output that which is left with all other heads silent."""
    if node.startswith(("dec.", "dec-mlp")):
        return value
    _, layer, head, _ = parts(node)
    alone = torch.zeros_like(value)
    alone[:, head] = value[:, head]
    out = module.layers[layer].wo
    return out(alone.flatten(1)) - out.bias


def sources(module: Toy, port: str) -> list[str]:
    kind, layer, _, _ = parts(port)
    found = ["dec.tok", "dec.pos"]
    for n in range(layer):
        found += [*(f"dec-self-{n}.{h}" for h in range(HEADS)), f"dec-mlp-{n}"]
    after = kind == "mlp" and not module.layers[0].beside
    return found + [f"dec-self-{layer}.{h}" for h in range(HEADS) if after]


def rebuilt(trial: Trial, port: str, write: Callable[[str], Tensor]) -> Callable[[Tensor], Tensor]:
    """What a port makes of a stream whose sources are as given, all heads' biases included."""
    module, feeding = trial.module, sources(trial.module, port)
    kind, layer, head, side = parts(port)
    biased = {parts(node)[1] for node in feeding if node.startswith("dec-self")}
    stream = sum(written(module, node, write(node)) for node in feeding) + sum(module.layers[n].wo.bias for n in biased)
    one = module.layers[layer]
    if kind == "mlp":
        return lambda old: one.w2(torch.relu(one.w1(one.ln2(stream))))
    whole = {"q": one.wq, "k": one.wk, "v": one.wv}[side](one.ln1(stream)).view(-1, HEADS, SIZE)

    def change(old: Tensor) -> Tensor:
        new = old.clone()
        new[:, head] = whole[:, head]
        return new

    return change


def port_hook(port: str) -> str:
    kind, layer, _, side = parts(port)
    return f"layers.{layer}.{'mlp' if kind == 'mlp' else side}"


Condition = Callable[[Trial], Edits]


def kept(targets: Sequence[str], only: str | None) -> Condition:
    def edits(trial: Trial) -> Edits:
        def write(node: str) -> Tensor:
            return trial.clean[hook_of(node)] if node == only else trial.mean(hook_of(node))

        return {port_hook(port): rebuilt(trial, port, write) for port in targets}

    return edits


def ablated(targets: Sequence[str], without: str) -> Condition:
    def edits(trial: Trial) -> Edits:
        def write(node: str) -> Tensor:
            return trial.mean(hook_of(node)) if node == without else trial.clean[hook_of(node)]

        return {port_hook(port): rebuilt(trial, port, write) for port in targets}

    return edits


def chained(first: Condition, one: str, two: str) -> Condition:
    """What a first change does to the node of `one` is passed on to `two`, whose other sources are ablated."""
    node = one if "mlp" in one else one.rpartition(".")[0]

    def edits(trial: Trial) -> Edits:
        passed = forward(trial.module, trial.ids, first(trial))[hook_of(node)]
        return {port_hook(two): rebuilt(trial, two, lambda n: passed if n == node else trial.mean(hook_of(n)))}

    return edits


def silenced(nodes: Sequence[str]) -> Condition:
    def edits(trial: Trial) -> Edits:
        return {hook_of(node): put(trial, node) for node in nodes}

    return edits


def put(trial: Trial, node: str) -> Callable[[Tensor], Tensor]:
    mean = trial.mean(hook_of(node))

    def change(old: Tensor) -> Tensor:
        new = mean.clone()
        if node.startswith("dec-self"):
            new = old.clone()
            new[:, parts(node)[2]] = mean[:, parts(node)[2]]
        return new

    return change


def say(trial: Trial, condition: Condition, longest: int, closed: bool) -> list[str]:
    """The model's own answer, the condition's edits on at every step."""
    said: list[int] = []
    while len(said) < longest and not (closed and END in said):
        now = trial.saying(said)
        said.append(int(forward(now.module, now.ids, condition(now))["logits"][-1].argmax()))
    return [WORDS[number] for number in said]


ALL_NODES = [
    "dec.tok", "dec.pos",
    *(name for n in range(LAYERS) for name in (*(f"dec-self-{n}.{h}" for h in range(HEADS)), f"dec-mlp-{n}")),
]  # fmt: skip
