"""Edits that more than one kind makes."""

from __future__ import annotations

from collections.abc import Sequence

from steer.anatomy.layout import Layout
from steer.anatomy.nodes import Node, Site
from steer.plan.plan import CLEAN, COUNTERPART, Ablated, Current, Edit, Exchanged, Of, Rebuilt, Spot, Turned, Value


def frozen(site: Site) -> Edit:
    """The site held at its clean value."""
    return Edit(site, Of(CLEAN))


def as_counterpart(layout: Layout) -> Edit:
    """Every token of the counterpart in place of the prompt's: its own run."""
    return Edit(prompt_tokens(layout), Of(COUNTERPART))


def prompt_tokens(layout: Layout) -> Site:
    """The embedding of the prompt's tokens, from which all that the prompt changes is computed."""
    return layout.write(layout.nodes[0])


def one_link(
    target: Site, keep: bool, source: Node, ablated: Ablated, places: tuple[Spot, ...], recomputed: bool
) -> Edit:
    """keep: every source ablated but this one. Otherwise: every source clean but this one."""
    if keep:
        return Edit(target, Rebuilt(ablated, ((source, Of(CLEAN)),), recomputed), places)
    return Edit(target, Rebuilt(Of(CLEAN), ((source, ablated),), recomputed), places)


def exchange(layout: Layout, ports: Sequence[Site], tokens: tuple[Spot, Spot], places: tuple[Spot, ...]) -> list[Edit]:
    """Two tokens' positions exchanged, as seen by these ports."""
    return [Edit(*_exchanged(layout, port, tokens), places) for port in ports]


def _exchanged(layout: Layout, port: Site, tokens: tuple[Spot, Spot]) -> tuple[Site, Value]:
    """Positions enter as embeddings, by rotation, or as a bias of the scores: which one it is was checked before."""
    positions = layout.positions(port)
    if positions is not None:
        return port, Rebuilt(Current(), ((positions, Exchanged(Of(CLEAN), tokens)),))
    if layout.is_rotated(port):
        return port, Turned(Current(), tokens)
    return Site(port.node, "bias"), Exchanged(Current(), tokens, keys=port.port == "k")
