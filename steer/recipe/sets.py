"""Sets of sites that are changed together, and as many others beside them: what several kinds share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from steer.anatomy.named import Sites
from steer.anatomy.names import Names
from steer.anatomy.nodes import Site
from steer.base.dice import Dice
from steer.base.yaml import Strict


class SteeredSet(Strict):
    """Sites that are changed together."""

    name: Annotated[str, Field(min_length=1)]
    sites: Sites


def others(names: Names, sites: Sequence[Site], dice: Dice) -> list[Site]:
    """For each head another one of its block that is not among these and plays no role, at the same port."""
    used = {site.node for site in sites} | {node for heads in names.roles.values() for node in heads}
    chosen: list[Site] = []
    for site in sites:
        if site.node.is_head:
            free = [Site(node, site.port) for node in names.layout.siblings(site.node) if node not in used]
            free = [one for one in free if one not in chosen]
            chosen += [dice.choice(free)] if free else []
    return chosen
