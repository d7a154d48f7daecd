"""Nodes and sites: the parts of a model by name, and the places whose values can be read and edited.

`enc-self-0.5`, `dec-cross-1.5.k`, `enc-mlp-1`, `enc.pos`, `logits`: parsing and printing are inverse to each other. A
model's layout says which of them it has.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

Port: TypeAlias = Literal["q", "k", "v", "scores", "pattern", "z", "out"]
PORTS: tuple[Port, ...] = get_args(Port)
INPUT_PORTS: tuple[Port, ...] = ("q", "k", "v")  # what a head reads, and so what a path can be patched into
BETWEEN_TOKENS = ("bias", "scores", "pattern")  # a number for each pair of tokens, not a vector for each token
BEFORE_ROTATION = {"q-pre": "q", "k-pre": "k"}  # ports of models that rotate queries and keys by their positions
NUMBERED = re.compile(r"(?P<kind>.+)-(?P<layer>\d+)(?:\.(?P<head>\d+))?")


@dataclass(frozen=True)
class Node:
    """A part of the model: an attention head, an MLP, an embedding, or a layer's place in the stream.

    `kind` is the name's first part (`enc-self`, `enc-mlp`, `enc-resid`, or a whole name such as `enc.tok`).
    """

    kind: str
    layer: int | None = None
    head: int | None = None

    @property
    def is_head(self) -> bool:
        return self.head is not None

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


def parse_node(text: str) -> Node:
    """The node of a name: `enc-self-0.5` -> kind, layer and head; any other word is a kind."""
    parts = NUMBERED.fullmatch(text)
    if parts is None:
        return Node(text)
    return Node(parts["kind"], int(parts["layer"]), None if parts["head"] is None else int(parts["head"]))


def parse_site(text: str) -> Site:
    """The site of a name: `dec-cross-1.5.k`, `enc-resid-0.pre`, `enc-mlp-1`."""
    node, dot, port = text.rpartition(".")
    if dot and port.replace("-", "").isalpha() and NUMBERED.fullmatch(node):
        return Site(parse_node(node), port)
    return Site(parse_node(text))
