"""Names read back into nodes and sites, whatever the architecture: `kind-layer.head.port`, or a kind alone."""

from __future__ import annotations

import re

from steer.anatomy.names import PORTS, Node, Site

NODE = re.compile(r"(?P<kind>.+?)(?:-(?P<layer>\d+)(?:\.(?P<head>\d+))?)?")


def parse_node(text: str) -> Node:
    """`enc-self-0.5` is a head, `enc-mlp-1` a node of a layer, `enc.tok` a node that is there once."""
    match = NODE.fullmatch(text)
    if match is None:
        return Node(text)
    layer, head = (None if match[part] is None else int(match[part]) for part in ("layer", "head"))
    return Node(match["kind"], layer, head)


def parse_site(text: str) -> Site:
    """`dec-cross-1.4.k` is a head's port; what does not end in a port is a node's own output."""
    name, dot, port = text.rpartition(".")
    return Site(parse_node(name), port) if dot and port in PORTS else Site(parse_node(text))
