"""Files of directions and subspaces that a recipe names: read, and held against the sites that they are used at."""

from __future__ import annotations

from collections.abc import Sequence

from steer.anatomy.layout import Layout
from steer.anatomy.nodes import Site
from steer.base.errors import Key, SteerError
from steer.recipe.lowering import Lowering, Used
from steer.results.directions import Direction, read_direction

TRAVELLING = ("difference", "principal", "probe")  # in a stream, to all its points and writes


def read_used(name: str, lowering: Lowering, key: Key, sites: Sequence[Site]) -> Direction | None:
    """The direction or subspace of a file, which must be at home at each site. None, with a fault, if it is not."""
    try:
        direction = read_direction(lowering.folder / name)
        homes = lowering.names.names.sites(direction.about.site) if direction.about.site else sites
    except SteerError as error:
        for fault in error.faults:
            lowering.names.fault(key, fault)
        return None
    for site in sites:
        if not at_home(site, homes, direction.about.way in TRAVELLING, lowering.layout):
            text = f"{name} was found at {direction.about.site}, and {site} has other features"
            lowering.names.fault(key, text)
            return None
    lowering.used.append(Used(key, name, direction, tuple(sites)))
    return direction


def at_home(site: Site, homes: Sequence[Site], travelling: bool, layout: Layout) -> bool:
    """Where a direction was found, or (`travelling`) elsewhere in the same stream. A head's features are its own."""
    streams = {stream_at(home, layout) for home in homes} - {None} if travelling else set()
    return site in homes or stream_at(site, layout) in streams


def stream_at(site: Site, layout: Layout) -> str | None:
    """The stream whose features a site has: its points, and what embeddings and MLPs write into it."""
    if site in layout.points:
        return layout.points[site]
    return layout.block(site.node).writes if site.node in layout.nodes and not site.node.is_head else None
