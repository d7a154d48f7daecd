"""keep-only-one and ablate-only-one: one direct source of a target at a time."""

from __future__ import annotations

from steer.anatomy.nodes import Node, Site
from steer.plan.plan import CLEAN, EVERYTHING, Ablated, Edit, Of, Rebuilt, Run
from steer.recipe.lowering import Lowering
from steer.recipe.schema import AblateOnlyOne, KeepOnlyOne


def one_at_a_time(recipe: KeepOnlyOne | AblateOnlyOne, lowering: Lowering) -> list[Run]:
    names = lowering.names
    named = names.ports(("target",), recipe.target)
    names.wanted(("target",), named)
    sources = lowering.ablatable(("sources",), names.sources(("sources",), recipe.sources, named))
    names.wanted(("sources",), sources)
    lowering.check_places(named)
    targets = lowering.reach.sites(("target",), named)
    lowering.reach.check_direct(sources, targets)
    if names.faults:
        return []
    keep, ablated = isinstance(recipe, KeepOnlyOne), lowering.ablated
    everything = lowering.run(EVERYTHING, [Edit(target, Rebuilt(ablated), recipe.places) for target in targets])
    return [
        everything,
        *(
            lowering.run(str(source), [one_link(target, keep, source, ablated, recipe.places) for target in targets])
            for source in sources
        ),
    ]


def one_link(target: Site, keep: bool, source: Node, ablated: Ablated, places: tuple[int, ...]) -> Edit:
    """keep: every source ablated but this one. Otherwise: every source clean but this one."""
    if keep:
        return Edit(target, Rebuilt(ablated, ((source, Of(CLEAN)),)), places)
    return Edit(target, Rebuilt(Of(CLEAN), ((source, ablated),)), places)
