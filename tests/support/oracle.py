"""A second executor: plans run on the bare model with plain PyTorch hooks, written without the engine's code.

Every run is a whole forward pass from the prompt. Streams are summed from all their sources each time, LayerNorm and
projection are applied to whole blocks, and the head is cut out at the end. Slow and simple on purpose.
"""

from __future__ import annotations

from collections import defaultdict

import torch
from tokens import COLOUR_IDS
from torch import Tensor

from steer.models.plain.transformer import Transformer
from steer.plan.plan import CLEAN, COUNTERPART, Plan, Rebuilt, Run

HEADS = {"enc-self": "self_attn", "dec-self": "self_attn", "dec-cross": "cross_attn"}


def hooked_forward(model: Transformer, prompt: Tensor, output: Tensor, changes: dict) -> dict[str, Tensor]:
    """A full forward pass with changes at named modules; gives the output of every module that passes a tensor on."""
    seen: dict[str, Tensor] = {}
    handles = []

    def watch(name: str):
        def hook(module, inputs, value):
            for change in changes.get(name, ()):
                value = change(value)
            seen[name] = value
            return value

        return hook

    for name, module in model.named_modules():
        if not list(module.children()) and name:
            handles.append(module.register_forward_hook(watch(name)))
    try:
        model(prompt, output)
    finally:
        for handle in handles:
            handle.remove()
    return seen


def hook_name(node) -> str:
    if node.kind in ("enc.tok", "enc.pos", "dec.tok", "dec.pos"):
        stack, what = node.kind.split(".")
        return f"{stack}_embed.{what}"
    stack = node.kind[:3]
    if node.kind.endswith("mlp"):
        return f"{stack}.{node.layer}.mlp.out"
    return f"{stack}.{node.layer}.{HEADS[node.kind]}.z"


def written(model: Transformer, node, value: Tensor) -> Tensor:
    """A node's write into the stream, from the value at its hook: zero out the other heads, project, drop the bias."""
    if node.head is None:
        return value
    alone = torch.zeros_like(value)
    alone[:, :, node.head] = value[:, :, node.head]
    block = model.get_submodule(f"{node.kind[:3]}.{node.layer}.{HEADS[node.kind]}")
    return block.W_O(alone.flatten(2)) - block.W_O.bias


def direct_sources(model: Transformer, site) -> list:
    """What feeds a port, found by name: everything that the stream has met before this block reads it."""
    from steer.anatomy.nodes import Node, Site

    def heads(kind, layer):
        return [Node(kind, layer, h) for h in range(model.config.heads)]

    node = site.node
    if node.kind == "enc-mlp":
        return [*direct_sources(model, Site(Node("enc-self", node.layer, 0), "q")), *heads("enc-self", node.layer)]
    if node.kind == "dec-mlp":
        return [*direct_sources(model, Site(Node("dec-cross", node.layer, 0), "q")), *heads("dec-cross", node.layer)]
    if node.kind == "enc-self" or (node.kind == "dec-cross" and site.port in ("k", "v")):
        found, last = [Node("enc.tok"), Node("enc.pos")], node.layer if node.kind == "enc-self" else len(model.enc)
        for layer in range(last):
            found += [*heads("enc-self", layer), Node("enc-mlp", layer)]
        return found
    found = [Node("dec.tok"), Node("dec.pos")]
    for layer in range(node.layer):
        found += [*heads("dec-self", layer), *heads("dec-cross", layer), Node("dec-mlp", layer)]
    return found + (heads("dec-self", node.layer) if node.kind == "dec-cross" else [])


def biases(model: Transformer, site) -> Tensor:
    """The attention biases in the stream of a port."""
    blocks = {(n.kind, n.layer) for n in direct_sources(model, site) if n.head is not None}
    total = torch.zeros(model.config.d_model, dtype=model.unembed.weight.dtype)
    for kind, layer in blocks:
        total = total + model.get_submodule(f"{kind[:3]}.{layer}.{HEADS[kind]}").W_O.bias
    return total


class Oracle:
    def __init__(
        self,
        model: Transformer,
        prompt: Tensor,
        output: Tensor,
        ablated: dict[str, Tensor],
        other: Tensor | None = None,
    ) -> None:
        self.model, self.prompt, self.output, self.ablated = model, prompt, output, ablated
        self.clean = hooked_forward(model, prompt, output, {})
        self.other = {} if other is None else hooked_forward(model, other, output, {})
        self.records: dict[str, dict[str, Tensor]] = {}

    def value(self, name: str, value) -> Tensor:
        kind = type(value).__name__
        if kind == "Of":
            worlds = {CLEAN: self.clean, COUNTERPART: self.other}
            return (worlds[value.run] if value.run in worlds else self.records[value.run])[name]
        if kind in ("Mean", "Zero", "Resampled"):
            return self.ablated[name][:, : self.clean[name].shape[1]].expand_as(self.clean[name])
        assert kind == "Exchanged"
        whole = self.value(name, value.value)
        order = list(range(whole.shape[1]))
        first, second = (place - 1 for place in value.places)
        order[first], order[second] = order[second], order[first]
        return whole[:, order]

    def rebuilt(self, edit) -> Tensor:
        """From whole sums: a stream that the pass itself has changed before is no case of this executor's."""
        rest, changes = edit.value.rest, dict(edit.value.changes)
        if type(rest).__name__ == "Current":
            rest = type(next(iter(changes.values())).value)(CLEAN)
        stream = self.stream(edit.site, rest, changes, edit.value.recomputed)
        node = edit.site.node
        if node.head is None:
            return self.mlp(node, stream)
        block = self.model.get_submodule(f"{node.kind[:3]}.{node.layer}.{HEADS[node.kind]}")
        memory = node.kind == "dec-cross" and edit.site.port in ("k", "v")
        normed = (self.model.ln_enc if memory else block.ln)(stream)
        full = {"q": block.W_Q, "k": block.W_K, "v": block.W_V}[edit.site.port](normed)
        return full.view(*full.shape[:-1], block.heads, -1)[:, :, node.head]

    def stream(self, site, rest, changes, recomputed: bool) -> Tensor:
        """The sum of all sources. Recomputed: an MLP that is not changed itself writes what it makes of its stream."""
        stream = biases(self.model, site)
        for node in direct_sources(self.model, site):
            if recomputed and node.kind.endswith("mlp") and node not in changes:
                stream = stream + self.mlp(node, self.stream(type(site)(node), rest, changes, recomputed))
            else:
                value = self.value(hook_name(node), changes.get(node, rest))
                stream = stream + written(self.model, node, value)
        return stream

    def mlp(self, node, stream: Tensor) -> Tensor:
        mlp = self.model.get_submodule(f"{node.kind[:3]}.{node.layer}.mlp")
        return mlp.W_out(torch.nn.functional.gelu(mlp.W_in(mlp.ln(stream))))

    def run(self, run: Run) -> dict[str, Tensor]:
        changes = defaultdict(list)
        for edit in run.edits:
            node, port = edit.site.node, edit.site.port
            if node.head is None:
                name = hook_name(node) if port is None else None

                def whole(value: Tensor, edit=edit, name=name) -> Tensor:
                    new = self.rebuilt(edit) if isinstance(edit.value, Rebuilt) else self.value(name, edit.value)
                    return some(edit, value, new)

                changes[name].append(whole)
                continue
            name = f"{node.kind[:3]}.{node.layer}.{HEADS[node.kind]}.{port}"

            def change(value: Tensor, edit=edit, name=name) -> Tensor:
                new = value.clone()
                head = edit.site.node.head
                if isinstance(edit.value, Rebuilt):
                    new[:, :, head] = self.rebuilt(edit)
                elif edit.site.port in ("scores", "pattern"):
                    new[:, head] = self.value(name, edit.value)[:, head]
                else:
                    new[:, :, head] = self.value(name, edit.value)[:, :, head]
                return some(edit, value, new)

            changes[name].append(change)
        seen = hooked_forward(self.model, self.prompt, self.output, changes)
        self.records[run.name] = seen
        return seen

    @classmethod
    def all(cls, model: Transformer, batch, ablated: dict[str, Tensor], other: Tensor | None, plan: Plan) -> list:
        """Every run of a plan with the right tokens fed in, on one batch, with what it met."""
        oracle = cls(model, batch.tokens["prompt"], batch.tokens["answer"], ablated, other)
        forced = [run for run in plan.runs if type(run.decoding).__name__ == "Forced" and run.name != COUNTERPART]
        return [(run, oracle.run(run)) for run in forced]


def some(edit, old: Tensor, new: Tensor) -> Tensor:
    """The new value where the edit has a place, by plain loops."""
    if not edit.places:
        return new
    mixed = old.clone()
    for place in edit.places:
        if edit.site.port in ("scores", "pattern"):
            mixed[:, :, place - 1] = new[:, :, place - 1]
        else:
            mixed[:, place - 1] = new[:, place - 1]
    return mixed


def position_means(values: Tensor, real: Tensor) -> Tensor:
    """The mean at each position over the episodes that reach it, by plain loops."""
    rows = []
    for place in range(values.shape[1]):
        here = [values[row, place] for row in range(len(values)) if real[row, place]]
        rows.append(torch.stack(here).mean(0))
    return torch.stack(rows)[None]


def relative_logit(logits: Tensor, target: Tensor) -> Tensor:
    """The right token's logit above the mean colour's: B T."""
    return logits.gather(-1, target[..., None])[..., 0] - logits[..., list(COLOUR_IDS)].mean(-1)
