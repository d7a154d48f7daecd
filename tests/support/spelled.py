"""Parts of a model from their names, and their names again."""

from __future__ import annotations

from collections.abc import Iterable

from steer.anatomy.nodes import Site, parse_site


def sites(*texts: str) -> tuple[Site, ...]:
    return tuple(map(parse_site, texts))


def named(nodes: Iterable[object]) -> str:
    return " ".join(map(str, nodes))
