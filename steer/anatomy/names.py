"""Names: heads, other nodes, and the sites that experiments read and edit.

`enc-self-0.5`, `dec-cross-1.5.k`, `enc-mlp-1`, `enc.pos`, `logits`: parse and print are inverses, input is
case-insensitive. `$output` is a role: the head that plays it in a given checkpoint (`$output:all`: all that do).
A `Shape` knows which of them a model has, in which order they are computed, which step of the
forward pass holds each, and what feeds what. No torch here: names are checked before a model is loaded.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Literal, TypeAlias, get_args

from steer.base.errors import SteerError, unknown

Port: TypeAlias = Literal["q", "k", "v", "scores", "pattern", "z", "out"]
PORTS: tuple[Port, ...] = get_args(Port)
INPUT_PORTS: tuple[Port, ...] = ("q", "k", "v")  # what a head reads, and so what a path can be patched into
ATTENTION = {"enc-self": ("enc", "self_attn"), "dec-self": ("dec", "self_attn"), "dec-cross": ("dec", "cross_attn")}
POINTS = {
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
HOOKS_WITHIN_A_STEP = (
    "tok", "pos", "resid", "q", "k", "scores", "pattern", "v", "z", "out", "post", "memory", "final", "logits",
)  # fmt: skip
STEP_OF_PORT = {
    "q": "attend", "k": "attend", "scores": "attend", "pattern": "attend", "v": "mix", "z": "write", "out": "write",
}  # fmt: skip


@dataclass(frozen=True)
class Node:
    """A part of the model: an attention head, an MLP, an embedding, or a place in the stream.

    `kind` is the name's first part (`enc-self`, `enc-mlp`, `enc-resid`, or a whole name such as `enc.tok`).
    """

    kind: str
    layer: int | None = None
    head: int | None = None

    @property
    def is_head(self) -> bool:
        return self.head is not None

    @property
    def stack(self) -> str:
        return "enc" if self.kind.startswith("enc") else "dec"

    def __str__(self) -> str:
        if self.layer is None:
            return self.kind
        return f"{self.kind}-{self.layer}" + ("" if self.head is None else f".{self.head}")


@dataclass(frozen=True)
class Site:
    """A place whose value can be read and edited: a head's port, a stream's point, or a node's own output."""

    node: Node
    port: str | None = None

    def __str__(self) -> str:
        return str(self.node) if self.port is None else f"{self.node}.{self.port}"

    @property
    def path(self) -> str:
        """The model's hook that carries this site (for all heads of its block at once)."""
        if self.node.kind in SINGLE:
            return SINGLE[self.node.kind][0]
        stack, layer = self.node.stack, self.node.layer
        if self.node.kind.endswith("resid"):
            return f"{stack}.{layer}.{POINTS[stack][self.port or '']}"
        if self.node.kind.endswith("mlp"):
            return f"{stack}.{layer}.mlp.out"
        # A head's own write is not computed by the model; it is the head's z times its part of W_O.
        return f"{stack}.{layer}.{ATTENTION[self.node.kind][1]}.{'z' if self.port == 'out' else self.port}"

    @property
    def step(self) -> str:
        """The step of the forward pass in which this site is passed."""
        if self.node.kind in SINGLE:
            return SINGLE[self.node.kind][1]
        block, _, hook = self.path.rpartition(".")
        if hook == "resid":
            return f"{block}.{'compute' if block.endswith('mlp') else 'project'}"
        return f"{block}.{'write' if block.endswith('mlp') else STEP_OF_PORT[hook]}"


@dataclass(frozen=True)
class Shape:
    """What a model of these sizes has, by name."""

    encoder_layers: int
    decoder_layers: int
    heads: int
    roles: tuple[tuple[str, tuple[Node, ...]], ...] = ()  # who plays what in one checkpoint, the lead first
    role_words: tuple[str, ...] = ()  # every role that the checkpoint's task knows

    def block(self, kind: str, layer: int) -> list[Node]:
        return [Node(kind, layer, head) for head in range(self.heads)]

    @cached_property
    def writers(self) -> list[Node]:
        """Every node that writes into a residual stream, in the order of computation."""
        nodes = [Node("enc.tok"), Node("enc.pos")]
        for layer in range(self.encoder_layers):
            nodes += [*self.block("enc-self", layer), Node("enc-mlp", layer)]
        nodes += [Node("dec.tok"), Node("dec.pos")]
        for layer in range(self.decoder_layers):
            nodes += [*self.block("dec-self", layer), *self.block("dec-cross", layer), Node("dec-mlp", layer)]
        return nodes

    @cached_property
    def all_heads(self) -> list[Node]:
        return [node for node in self.writers if node.is_head]

    @cached_property
    def mlps(self) -> list[Node]:
        return [node for node in self.writers if node.kind.endswith("mlp")]

    @cached_property
    def sites(self) -> list[Site]:
        """Every site, in no particular order."""
        found = [Site(node, port) for node in self.all_heads for port in PORTS]
        found += [Site(node) for node in self.writers if not node.is_head]
        layers = {"enc": self.encoder_layers, "dec": self.decoder_layers}
        found += [Site(Node(f"{s}-resid", n), point) for s in POINTS for n in range(layers[s]) for point in POINTS[s]]
        return found + [Site(Node(name)) for name in ("enc.memory", "dec.final", "logits")]

    @cached_property
    def steps(self) -> list[str]:
        """The steps of the forward pass, in order (the model's own list, known without the model)."""
        attention, mlp = ("project", "attend", "mix", "write"), ("compute", "write")
        steps = ["enc.embed"]
        for n in range(self.encoder_layers):
            steps += [f"enc.{n}.self_attn.{s}" for s in attention] + [f"enc.{n}.mlp.{s}" for s in mlp]
        steps += ["enc.norm", "dec.embed"]
        for n in range(self.decoder_layers):
            steps += [f"dec.{n}.{block}.{s}" for block in ("self_attn", "cross_attn") for s in attention]
            steps += [f"dec.{n}.mlp.{s}" for s in mlp]
        return [*steps, "dec.norm"]

    def order(self, site: Site) -> tuple[int, int]:
        """Sites sort in the order in which a forward pass meets them."""
        return self.steps.index(site.step), HOOKS_WITHIN_A_STEP.index(site.path.rpartition(".")[2])

    def sources(self, target: Site) -> list[Node]:
        """The nodes whose writes sum to what a head's port (or an MLP) reads: its direct sources."""
        node, layer = target.node, target.node.layer or 0
        if node.kind == "dec-cross" and target.port in ("k", "v"):
            return [writer for writer in self.writers if writer.stack == "enc"]
        same_layer = {"dec-cross": {"dec-self"}, "enc-mlp": {"enc-self"}, "dec-mlp": {"dec-self", "dec-cross"}}
        before = same_layer.get(node.kind, set())
        return [
            writer
            for writer in self.writers
            if writer.stack == node.stack
            and (writer.layer is None or writer.layer < layer or (writer.layer == layer and writer.kind in before))
        ]

    def expand_heads(self, text: str) -> list[Node]:
        """The heads that a name, a role or a glob (`enc-self-*.*`) stands for."""
        if _is_role(text):
            return self.players(text)
        return [node for node in self.expand_nodes(text) if node.is_head] if is_glob(text) else [self.one_head(text)]

    def expand_nodes(self, text: str) -> list[Node]:
        """The writers that a name, a role or a glob stands for."""
        if _is_role(text):
            return self.players(text)
        found = [node for node in self.writers if fnmatchcase(str(node), text.strip().lower())]
        if not found:
            raise SteerError(
                f"no head or node is matched by {text!r}"
                if is_glob(text)
                else unknown("head or node", text, self.names)
            )
        return found

    def one_head(self, text: str) -> Node:
        if _is_role(text):
            players = self.players(text)
            if len(players) != 1:
                raise SteerError(f"{text!r} stands for {len(players)} heads; one is wanted")
            return players[0]
        found = [node for node in self.all_heads if str(node) == text.strip().lower()]
        if not found:
            raise SteerError(unknown("head", text, [str(node) for node in self.all_heads]))
        return found[0]

    def players(self, text: str) -> list[Node]:
        """`$output`: the head that leads in this role. `$output:all`: all that play it. `$output:any`: if any.

        `$output:block`: every head of the block that the lead is in.
        """
        role, _, which = text.strip().lower().removeprefix("$").partition(":")
        has = dict(self.roles)
        if role not in self.role_words:
            raise SteerError(unknown("role", f"${role}", [f"${name}" for name in self.role_words]))
        if which not in ("", "all", "any", "block"):
            forms = ", ".join(f"`${role}:{form}`" for form in ("all", "any", "block"))
            raise SteerError(f"{text!r}: a role is `${role}` (its lead head), or {forms}")
        if which == "any" and not has.get(role):
            return []
        if not has.get(role):
            known = ", ".join(f"${name}" for name, players in self.roles if players)
            raise SteerError(
                f"this checkpoint has no head for the role ${role}; it has {known}"
                if known
                else f"{text!r}: no role of this checkpoint is known (`steer discover` finds them, where there are any)"
            )
        lead = has[role][0]
        if which == "block":
            return self.block(lead.kind, lead.layer or 0)
        return list(has[role]) if which else [lead]

    def site(self, text: str) -> Site:
        """A site of this model, or an error with the nearest that it has."""
        found = self.expand_sites(text)
        if len(found) != 1:
            raise SteerError(f"{text!r} stands for {len(found)} sites; one is wanted")
        return found[0]

    def expand_sites(self, text: str) -> list[Site]:
        """The sites that a name, a glob (`dec-cross-1.*.q`) or a role with a port (`$output.k`) stands for."""
        if _is_role(text):
            role, dot, port = text.strip().partition(".")
            if not dot or port.lower() not in PORTS:
                raise SteerError(f"{text!r} must end in a port: {', '.join(f'{role}.{name}' for name in PORTS)}")
            return [Site(node, port.lower()) for node in self.players(role)]
        found = [site for site in self.sites if fnmatchcase(str(site), text.strip().lower())]
        if not found:
            raise SteerError(unknown("site", text, [str(site) for site in self.sites]))
        return found

    @cached_property
    def names(self) -> list[str]:
        return [str(node) for node in self.writers]


def is_glob(text: str) -> bool:
    return any(sign in text for sign in "*?[")


def is_group(text: str) -> bool:
    """A role's heads together: `$output:all`."""
    return _is_role(text) and ":" in text


def _is_role(text: str) -> bool:
    return text.strip().startswith("$")
