"""A circuit with other head numbers: every name in it is changed, also in the evidence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from steer.anatomy.nodes import Node, Site, parse_node, parse_site
from steer.base.json import Json
from steer.results.circuit import Circuit

Renamed = Mapping[Node, Node]  # old name of a head -> new name


def rename_heads(circuit: Circuit, renamed: Renamed) -> Circuit:
    """The circuit with renamed heads. Members stay in the order of computation; within a block they go by number."""
    content = _follow(circuit.model_dump(mode="json"), renamed)
    content["members"] = _in_order(content["members"])
    return Circuit.model_validate(content)


def _follow(content: Any, renamed: Renamed) -> Any:
    """The content with every name of a head, or of a head's port, replaced, in keys and in values."""
    match content:
        case str():
            return _renamed(content, renamed)
        case dict():
            return {_follow(key, renamed): _follow(value, renamed) for key, value in content.items()}
        case list():
            return [_follow(value, renamed) for value in content]
        case _:
            return content


def _renamed(text: str, renamed: Renamed) -> str:
    site = parse_site(text)
    node = renamed.get(site.node)
    return text if node is None else str(Site(node, site.port))


def _in_order(members: list[Json]) -> list[Json]:
    """Members of a block stand side by side, and stay there."""
    blocks = list(dict.fromkeys(member["block"] for member in members))
    return sorted(members, key=lambda member: (blocks.index(member["block"]), parse_node(member["node"]).head or 0))
