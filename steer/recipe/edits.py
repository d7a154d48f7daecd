"""Edits that more than one kind makes."""

from __future__ import annotations

from collections.abc import Sequence

from steer.anatomy.layout import Layout
from steer.anatomy.nodes import Node, Site
from steer.plan.plan import CLEAN, Ablated, Current, Edit, Exchanged, Of, Rebuilt


def frozen(site: Site) -> Edit:
    """The site held at its clean value."""
    return Edit(site, Of(CLEAN))


def one_link(
    target: Site, keep: bool, source: Node, ablated: Ablated, places: tuple[int, ...], recomputed: bool
) -> Edit:
    """keep: every source ablated but this one. Otherwise: every source clean but this one."""
    if keep:
        return Edit(target, Rebuilt(ablated, ((source, Of(CLEAN)),), recomputed), places)
    return Edit(target, Rebuilt(Of(CLEAN), ((source, ablated),), recomputed), places)


def exchange(layout: Layout, ports: Sequence[Site], tokens: tuple[int, int], places: tuple[int, ...]) -> list[Edit]:
    """Two tokens' position embeddings exchanged, as seen by these ports."""
    edits = []
    for port in ports:
        positions = layout.positions(port)
        assert positions is not None  # checked before
        changes = ((positions, Exchanged(Of(CLEAN), tokens)),)
        edits.append(Edit(port, Rebuilt(Current(), changes), places))
    return edits
