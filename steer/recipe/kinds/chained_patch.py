"""chained-patch: source -> chain[0] -> chain[1] …, what reaches the last port through this chain alone."""

from __future__ import annotations

from itertools import pairwise

from steer.anatomy.nodes import Node, Site
from steer.plan.plan import CLEAN, EVERYTHING, UNCHANGED, Edit, Of, Rebuilt, Run, chain_runs
from steer.recipe.kinds.one_source import one_link
from steer.recipe.lowering import Lowering
from steer.recipe.schema import ChainedPatch


def chain(recipe: ChainedPatch, lowering: Lowering) -> list[Run]:
    names = lowering.names
    links = [link for n, text in enumerate(recipe.chain) if (link := names.link(("chain", n), text))]
    whole = len(links) == len(recipe.chain)
    named = names.sources(("sources",), recipe.sources, links[:1] if whole else [])
    sources = lowering.ablatable(("sources",), named)
    names.wanted(("sources",), sources)
    if whole:
        _check_links(lowering, links, sources)
    if names.faults:
        return []
    keep, ablated = recipe.mode == "keep-only-one", lowering.ablated
    others = ablated if recipe.others == "ablated" else Of(CLEAN)
    firsts = {UNCHANGED: Edit(links[0], Rebuilt(Of(CLEAN)))}
    firsts |= {EVERYTHING: Edit(links[0], Rebuilt(ablated), recipe.places)}
    firsts |= {str(source): one_link(links[0], keep, source, ablated, recipe.places) for source in sources}
    return [
        run
        for label, first in firsts.items()
        for run in chain_runs(lowering.layout, label, first, links, others, lowering.reads, lowering.freeze)
    ]


def _check_links(lowering: Lowering, links: list[Site], sources: list[Node]) -> None:
    """Each node feeds the next port, and what is changed at the first can arrive at the last."""
    for number, (one, two) in enumerate(pairwise(links)):
        lowering.names.connect(("chain", number + 1), one, two)
        lowering.reach.sites(("chain", number), [one], read=[lowering.layout.write(one.node)])
        lowering.reach.check_direct([one.node], [two])
    lowering.reach.check_direct(sources, links[:1])
    lowering.reach.sites(("chain", len(links) - 1), links[-1:])
    lowering.check_places(links[:1])
