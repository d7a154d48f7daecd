"""The plain model's layout, and its forward pass as named steps: known without torch, from its sizes alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from steer.anatomy.layout import INPUT, Block, Layout, Stream
from steer.anatomy.nodes import Node, Site
from steer.models.plain.config import ModelConfig

ATTENTION = {"enc-self": "self_attn", "dec-self": "self_attn", "dec-cross": "cross_attn"}
POINTS = {  # a layer's points, and the hook that holds each
    "enc": {"pre": "self_attn.resid", "mid": "mlp.resid", "post": "mlp.post"},
    "dec": {"pre": "self_attn.resid", "mid": "cross_attn.resid", "cross": "mlp.resid", "post": "mlp.post"},
}
SINGLE = {  # sites that a model has once: their hook and the step that holds it
    "enc.tok": ("enc_embed.tok", "enc.embed"),
    "enc.pos": ("enc_embed.pos", "enc.embed"),
    "enc.memory": ("memory", "enc.norm"),
    "dec.tok": ("dec_embed.tok", "dec.embed"),
    "dec.pos": ("dec_embed.pos", "dec.embed"),
    "dec.final": ("final", "dec.norm"),
    "logits": ("logits", "dec.norm"),
}
WITHIN_A_STEP = (
    "tok", "pos", "resid", "q", "k", "scores", "pattern", "v", "z", "out", "post", "memory", "final", "logits",
)  # fmt: skip
STEP_OF_PORT = {
    "q": "attend", "k": "attend", "scores": "attend", "pattern": "attend", "v": "mix", "z": "write", "out": "write",
}  # fmt: skip


def plain_layout(config: ModelConfig) -> Layout:
    enc = [Block("enc.tok", "enc"), Block("enc.pos", "enc", fixed=True)]
    for layer in range(config.encoder_layers):
        enc += [_attention("enc-self", layer, config.heads, "pre"), _mlp("enc", layer, "mid")]
    dec = [Block("dec.tok", "dec"), Block("dec.pos", "dec", fixed=True)]
    for layer in range(config.decoder_layers):
        dec += [_attention("dec-self", layer, config.heads, "pre")]
        dec += [_attention("dec-cross", layer, config.heads, "mid", "enc"), _mlp("dec", layer, "cross")]
    streams = (Stream("enc", "prompt", Site(Node("enc.memory"))), Stream("dec", "answer", Site(Node("dec.final"))))
    return Layout((*enc, *dec), streams, Site(Node("logits")))


def _attention(kind: str, layer: int, heads: int, point: str, looks_at: str | None = None) -> Block:
    own = kind[:3]
    keys = looks_at or own
    return Block(kind, own, (("q", own), ("k", keys), ("v", keys)), layer, heads, at=_point(own, layer, point))


def _mlp(stack: str, layer: int, point: str) -> Block:
    post = _point(stack, layer, "post")
    return Block(f"{stack}-mlp", stack, ((INPUT, stack),), layer, at=_point(stack, layer, point), then=post)


def _point(stack: str, layer: int, name: str) -> Site:
    return Site(Node(f"{stack}-resid", layer), name)


@dataclass(frozen=True)
class PlainSteps:
    """The steps of a forward pass in order, which of them meets each site, and at which hook."""

    encoder_layers: int
    decoder_layers: int

    @cached_property
    def names(self) -> Sequence[str]:
        attention, mlp = ("project", "attend", "mix", "write"), ("compute", "write")
        steps = ["enc.embed"]
        for n in range(self.encoder_layers):
            steps += [f"enc.{n}.self_attn.{s}" for s in attention] + [f"enc.{n}.mlp.{s}" for s in mlp]
        steps += ["enc.norm", "dec.embed"]
        for n in range(self.decoder_layers):
            steps += [f"dec.{n}.{block}.{s}" for block in ("self_attn", "cross_attn") for s in attention]
            steps += [f"dec.{n}.mlp.{s}" for s in mlp]
        return (*steps, "dec.norm")

    @cached_property
    def _hooks(self) -> dict[Site, str]:
        return {}  # built once for each site

    @cached_property
    def _steps(self) -> dict[Site, str]:
        return {}

    def hook(self, site: Site) -> str:
        """The model's hook that carries a site (for all heads of its block at once)."""
        if site not in self._hooks:
            self._hooks[site] = _hook(site)
        return self._hooks[site]

    def step(self, site: Site) -> str:
        """The step in which a site is met."""
        if site not in self._steps:
            self._steps[site] = _step(site, self.hook(site))
        return self._steps[site]

    def order(self, site: Site) -> tuple[int, int]:
        """Sites sort in the order in which a forward pass meets them."""
        return self.names.index(self.step(site)), WITHIN_A_STEP.index(self.hook(site).rpartition(".")[2])

    def given(self, start: str, stop: str | None) -> Mapping[str, str]:
        """What a pass that starts midway must be given: field of its state -> hook of the clean run that holds it."""
        first = self.names.index(start)
        taken = self.names[first : self.names.index(stop) if stop else None]
        block, _, step = start.rpartition(".")
        given = _block_inputs(block, step, taken) if step in ("attend", "mix", "write", "compute", "project") else {}
        if start == "enc.norm":
            given["stream"] = f"enc.{self.encoder_layers - 1}.mlp.post"
        if start == "dec.norm":
            given["stream"] = f"dec.{self.decoder_layers - 1}.mlp.post"
        if start.startswith("dec.") and any(s.endswith("cross_attn.project") for s in taken):
            given["memory"] = "memory"
        return given


def _hook(site: Site) -> str:
    node = site.node
    if node.kind in SINGLE:
        return SINGLE[node.kind][0]
    stack = node.kind[:3]
    if node.kind.endswith("resid"):
        return f"{stack}.{node.layer}.{POINTS[stack][site.port or '']}"
    if node.kind.endswith("mlp"):
        return f"{stack}.{node.layer}.mlp.out"
    # A head's own write is not computed by the model; it is the head's z times its part of W_O.
    return f"{stack}.{node.layer}.{ATTENTION[node.kind]}.{'z' if site.port == 'out' else site.port}"


def _step(site: Site, path: str) -> str:
    if site.node.kind in SINGLE:
        return SINGLE[site.node.kind][1]
    block, _, hook = path.rpartition(".")
    if hook == "resid":
        return f"{block}.{'compute' if block.endswith('mlp') else 'project'}"
    return f"{block}.{'write' if block.endswith('mlp') else STEP_OF_PORT[hook]}"


def _block_inputs(block: str, step: str, taken: Sequence[str]) -> dict[str, str]:
    """The tensors that a block's remaining steps read, as far as they are taken."""
    wanted = {
        "project": [], "compute": [],
        "attend": [("q", "attend"), ("k", "attend"), ("v", "mix")],
        "mix": [("pattern", "mix"), ("v", "mix")],
        "write": [("mlp" if block.endswith("mlp") else "z", "write")],
    }  # fmt: skip
    given = {
        name: f"{block}.{'out' if name == 'mlp' else name}" for name, by in wanted[step] if f"{block}.{by}" in taken
    }
    if f"{block}.write" in taken or step in ("project", "compute"):
        given["stream"] = f"{block}.resid"
    return given
