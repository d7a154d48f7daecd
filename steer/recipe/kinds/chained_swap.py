"""chained-swap: two question tokens exchange their positions in some ports, and only what a chain passes on arrives.

Of the sources of each port of the chain, the node before it is as the exchange left it, the nodes to `ablate` are
ablated, and all others are clean. The authors of the paper do their index swap in this way.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from steer.anatomy.named import AnyNodes, Chain
from steer.anatomy.nodes import Node, Site
from steer.plan.plan import CLEAN, Edit, Of, Rebuilt, Run, Value
from steer.recipe.edits import exchange
from steer.recipe.lowering import Lowering
from steer.recipe.swap import AFTER, Swap

ALONG = "path kept, nothing exchanged"


class ChainedSwap(Swap):
    """Two question tokens exchange their position embeddings in these ports; only what the chain passes on arrives."""

    ablates: ClassVar[bool] = True
    by_paths: ClassVar[bool] = True
    kind: Literal["chained-swap"]
    chain: Annotated[Chain, Field(min_length=1, description="ports that it is passed on to, in order")]
    ablate: Annotated[AnyNodes, Field(description="other sources of these ports that are ablated; globs allowed")] = ()

    def runs(self, lowering: Lowering) -> list[Run]:
        names = lowering.names
        ports = names.ports(("ports",), self.ports)
        links = [link for n, text in enumerate(self.chain) if (link := names.link(("chain", n), text))]
        off = lowering.ablatable(("ablate",), names.nodes(("ablate",), self.ablate))
        self.check_exchange(lowering)
        lowering.check_selection("a swap")
        lowering.check_positions(("ports",), ports)
        names.wanted(("ports",), ports)
        if not names.faults:
            self._check_chain(lowering, ports, links, off)
        return [] if names.faults else [*self._path(lowering, [], links, off), *self._path(lowering, ports, links, off)]

    def _check_chain(self, lowering: Lowering, ports: Sequence[Site], links: list[Site], off: Sequence[Node]) -> None:
        """Each node feeds the next port, what is ablated feeds one of them, and none of it is part of the chain."""
        names, layout = lowering.names, lowering.layout
        steps = [ports, *([link] for link in links)]
        for number, (before, (after,)) in enumerate(pairwise(steps)):
            for one in before:
                names.connect(("chain", number), one, after)
        lowering.reach.sites(("chain", len(links) - 1), links[-1:])
        passing = {site.node for site in (*ports, *links)}
        fed = {node for link in links for node in layout.sources(link)}
        for node in off:
            if node in passing:
                names.fault(("ablate",), f"{node} is part of the path: it cannot be ablated on it", node)
            elif node not in fed and names.is_single(("ablate",), node):
                names.fault(("ablate",), f"{node} feeds no port of the chain directly", node)

    def _path(self, lowering: Lowering, ports: Sequence[Site], links: list[Site], off: Sequence[Node]) -> list[Run]:
        """The runs of one condition; without ports nothing is exchanged."""
        condition = AFTER if ports else ALONG
        runs: list[Run] = []
        edits, nodes = exchange(lowering.layout, ports, self.tokens, self.places), [port.node for port in ports]
        for link in links:
            if edits:
                reads = tuple(lowering.layout.write(node) for node in nodes)
                runs.append(Run(f"{condition} -> {link}", (*lowering.freeze, *edits), reads))
            passed: list[tuple[Node, Value]] = [(node, Of(runs[-1].name)) for node in nodes] if edits else []
            sources = lowering.layout.sources(link)
            changes = (*passed, *((node, lowering.ablated) for node in off if node in sources))
            edits = [Edit(link, Rebuilt(Of(CLEAN), changes, lowering.recomputed))]
            nodes = [link.node]
        return [*runs, Run(condition, (*lowering.freeze, *edits), lowering.reads, condition)]
