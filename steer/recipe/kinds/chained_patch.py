"""chained-patch: source -> chain[0] -> chain[1] …, what reaches the last port through this chain alone."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from steer.anatomy.named import Chain, Nodes
from steer.anatomy.nodes import Node, Site
from steer.plan.plan import CLEAN, Edit, Of, Rebuilt, Run
from steer.plan.runs import chain_runs
from steer.recipe.edits import one_link
from steer.recipe.lowering import Lowering
from steer.recipe.schema import EVERYTHING, UNCHANGED, OnScale
from steer.results.rows import End


class ChainedPatch(OnScale):
    """source -> chain[0] -> chain[1] …: what reaches the last port through this chain alone."""

    goes_from_site_to_site: ClassVar[bool] = True
    by_paths: ClassVar[bool] = True
    kind: Literal["chained-patch"]
    sources: Annotated[Nodes, Field(description="swept at the chain's start; globs allowed")]
    chain: Annotated[Chain, Field(min_length=1, description="ports, in order: each head feeds the next port")]
    mode: Literal["keep-only-one", "ablate-only-one"] = "keep-only-one"
    others: Annotated[
        Literal["ablated", "clean"], Field(description="the other direct paths into the later ports of the chain")
    ] = "ablated"

    def runs(self, lowering: Lowering) -> list[Run]:
        names = lowering.names
        links = [link for n, text in enumerate(self.chain) if (link := names.link(("chain", n), text))]
        whole = len(links) == len(self.chain)
        named = names.sources(("sources",), self.sources, links[:1] if whole else [])
        sources = lowering.ablatable(("sources",), named)
        names.wanted(("sources",), sources)
        if whole:
            _check_links(lowering, links, sources)
        return [] if names.faults else self._runs(lowering, links, sources)

    def _runs(self, lowering: Lowering, links: list[Site], sources: list[Node]) -> list[Run]:
        keep, ablated, through = self.mode == "keep-only-one", lowering.ablated, lowering.recomputed
        others = Rebuilt(ablated if self.others == "ablated" else Of(CLEAN), (), through)
        firsts: list[tuple[str, End, Edit]] = [
            (UNCHANGED, "unchanged", Edit(links[0], Rebuilt(Of(CLEAN)))),
            (EVERYTHING, "everything", Edit(links[0], Rebuilt(ablated, (), through), self.places)),
            *((str(source), "", one_link(links[0], keep, source, ablated, self.places, through)) for source in sources),
        ]
        runs = [
            run
            for label, end, first in firsts
            for run in chain_runs(lowering.layout, label, first, links, others, lowering.reads, lowering.freeze, end)
        ]
        swept = set(map(str, sources))
        return [replace(run, site=run.condition) if run.condition in swept else run for run in runs]


def _check_links(lowering: Lowering, links: list[Site], sources: list[Node]) -> None:
    """Each node feeds the next port, and what is changed at the first can arrive at the last."""
    for number, (one, two) in enumerate(pairwise(links)):
        lowering.names.connect(("chain", number + 1), one, two)
        lowering.reach.sites(("chain", number), [one], read=[lowering.layout.write(one.node)])
        lowering.reach.check_direct([one.node], [two])
    lowering.reach.check_direct(sources, links[:1])
    lowering.reach.sites(("chain", len(links) - 1), links[-1:])
    lowering.check_places(links[:1])
