"""Edits that more than one kind makes."""

from __future__ import annotations

from collections.abc import Sequence

from steer.anatomy.layout import Layout
from steer.anatomy.nodes import Node, Site
from steer.plan.plan import CLEAN, COUNTERPART, Ablated, Current, Edit, Exchanged, Of, Rebuilt, Spot


def frozen(site: Site) -> Edit:
    """The site held at its clean value."""
    return Edit(site, Of(CLEAN))


def as_counterpart(layout: Layout) -> Edit:
    """Every token of the counterpart in place of the prompt's: its own run."""
    return Edit(prompt_tokens(layout), Of(COUNTERPART))


def prompt_tokens(layout: Layout) -> Site:
    """The embedding of the prompt's tokens, from which all that the prompt changes is computed."""
    return layout.write(layout.nodes[0])


def one_link(target: Site, keep: bool, source: Node, ablated: Ablated, places: tuple[Spot, ...]) -> Edit:
    """keep: every source ablated but this one. Otherwise: every source clean but this one."""
    if keep:
        return Edit(target, Rebuilt(ablated, ((source, Of(CLEAN)),)), places)
    return Edit(target, Rebuilt(Of(CLEAN), ((source, ablated),)), places)


def exchange(layout: Layout, ports: Sequence[Site], tokens: tuple[int, int], places: tuple[Spot, ...]) -> list[Edit]:
    """Two tokens' position embeddings exchanged, as seen by these ports."""
    edits = []
    for port in ports:
        positions = layout.positions(port)
        assert positions is not None  # checked before
        changes = ((positions, Exchanged(Of(CLEAN), tokens)),)
        edits.append(Edit(port, Rebuilt(Current(), changes), places))
    return edits
