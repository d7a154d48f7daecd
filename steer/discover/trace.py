"""Backwards from a head that writes the answer to the embeddings, one direct path at a time.

For each port, the search measures which of its direct sources it needs. *Sufficiency*: the source alone is kept along
the chain of ports that leads to the output head, everything else is ablated. *Necessity*: it alone is ablated,
everything else is clean. Both are measured at the output head, on its own scale: 0 is everything ablated at its port, 1
is nothing ablated. A source that passes the threshold in either is an edge; then the ports of these sources follow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from steer.anatomy.layout import Layout
from steer.anatomy.nodes import Node, Site
from steer.discover.lab import Lab, Measure
from steer.plan.plan import CLEAN, Edit, Mean, Of, Rebuilt, Run, Value
from steer.plan.runs import chain_runs
from steer.results.circuit import Edge, Group
from steer.results.evidence import Estimate
from steer.results.tally import Tally

THRESHOLD = 0.1  # of the scale between nothing and everything ablated
ENOUGH = 0.9  # of what all sources of a port pass on, for the chosen sources together
Chain = tuple[Site, ...]  # from some port to the output head's own: each node feeds the next port
Mode = Literal["kept", "ablated"]


@dataclass
class Trace:
    """The paths and groups behind one output head."""

    edges: list[Edge] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)


def trace(
    lab: Lab, head: Node, threshold: float = THRESHOLD, tell: Callable[[str], None] = lambda text: None,
    looks: bool = True,
) -> Trace:  # fmt: skip
    """The paths into a head. `looks`: K and Q are judged by the head's attention; otherwise by what it writes."""
    traced = Trace()
    for port in ("k", "q", "v"):
        measure, reads = lab.attention(head) if looks and port != "v" else lab.choice(head)
        question = Question(lab, (Site(head, port),), measure, reads, threshold)
        if question.scale().low <= 0:  # what this port reads makes no difference
            continue
        done: set[Site] = set()  # reset for each port: a node may carry different things to different ports
        queue = [(1.0, question.chain)]
        while queue:
            queue.sort(key=lambda entry: -entry[0])  # each port is reached along the strongest chain that leads to it
            _, chain = queue.pop(0)
            if chain[0] in done:
                continue
            done.add(chain[0])
            tell(f"{head} <- {chain[0]}")
            edges, groups = question.about(chain).answer()
            traced.edges += edges.values()
            traced.groups += groups
            for source, edge in edges.items():
                strength = max(edge.sufficiency.value, edge.necessity.value)
                queue += [(strength, (port, *chain)) for port in lab.layout.inputs(source)]
    return traced


@dataclass(frozen=True)
class Ends:
    """What is measured with all direct sources of a port kept, and with none."""

    everything: Tally
    nothing: Tally


class Question:
    """Which direct sources does the first port of a chain need, read at the head where the chain ends?"""

    def __init__(
        self, lab: Lab, chain: Chain, measure: Measure, reads: Sequence[Site], threshold: float,
        ends: tuple[Tally, Tally] | None = None,
    ) -> None:  # fmt: skip
        self.lab, self.chain, self.measure, self.reads, self.threshold = lab, chain, measure, reads, threshold
        self.port = chain[0]
        self.clean, self.nothing = ends or (lab.clean((measure, list(reads))), self.take("kept", {"": []})[""])

    def about(self, chain: Chain) -> Question:
        """The same question about another port that leads to the same head."""
        return Question(self.lab, chain, self.measure, self.reads, self.threshold, (self.clean, self.nothing))

    def scale(self) -> Estimate:
        return self.lab.interval(lambda mean: mean(self.clean) - mean(self.nothing))

    def effect(self, more: Tally, less: Tally) -> Estimate:
        """A difference in units of the output head's own scale."""
        return self.lab.interval(lambda mean: (mean(more) - mean(less)) / (mean(self.clean) - mean(self.nothing)))

    def take(self, mode: Mode, sets: dict[str, list[Node]]) -> dict[str, Tally]:
        """Each of these sets of sources kept alone, or ablated alone, along the chain."""
        runs = [
            run
            for name, nodes in sets.items()
            for run in chain_of(self.lab.layout, name, mode, nodes, self.chain, self.reads)
        ]
        return self.lab.measure(runs, self.measure)

    def answer(self) -> tuple[dict[Node, Edge], list[Group]]:
        sources = list(self.lab.layout.sources(self.port))
        kept = Ends(**self.take("kept", {"everything": sources, "nothing": []}))
        (lost,) = self.take("ablated", {"all": sources}).values()
        passes = self.effect(kept.everything, kept.nothing), self.effect(self.clean, lost)
        if max(effect.low for effect in passes) <= self.threshold:
            return {}, []
        alone, without = (self.take(mode, {str(node): [node] for node in sources}) for mode in ("kept", "ablated"))
        edges = {
            node: Edge(
                source=str(node), target=str(self.port), measured_at=str(self.chain[-1]),
                sufficiency=self.effect(alone[str(node)], kept.nothing),
                necessity=self.effect(self.clean, without[str(node)]),
            )
            for node in sources
        }  # fmt: skip
        chosen = [node for node, edge in edges.items() if self.matters(edge)]
        for node, gain in self.company(chosen, sources, kept).items():
            edges[node] = edges[node].model_copy(update={"in_company": gain})
            chosen.append(node)
        return {node: edges[node] for node in chosen}, self.groups(chosen, edges)

    def matters(self, edge: Edge) -> bool:
        return max(edge.sufficiency.low, edge.necessity.low) > self.threshold

    def company(self, chosen: list[Node], sources: list[Node], ends: Ends) -> dict[Node, Estimate]:
        """Sources that matter only together with others: added, best first, until nearly all is passed on."""
        added: dict[Node, Estimate] = {}
        passed = self.effect(ends.everything, ends.nothing).value
        if passed <= self.threshold:
            return added
        (joint,) = self.take("kept", {"": chosen}).values()
        while self.effect(joint, ends.nothing).value < ENOUGH * passed:
            so_far = [*chosen, *added]
            rest = [node for node in sources if node not in so_far]
            tried = self.take("kept", {str(node): [*so_far, node] for node in rest})
            gains = {node: self.effect(tried[str(node)], joint) for node in rest}
            best = max(rest, key=lambda node: gains[node].value, default=None)
            if best is None or gains[best].low <= 0 or gains[best].value <= self.threshold / 2:
                break
            added[best], joint = gains[best], tried[str(best)]
        return added

    def groups(self, chosen: list[Node], edges: dict[Node, Edge]) -> list[Group]:
        """Heads that can replace one another: each is sufficient, and all together are needed more than one by one."""
        able = [node for node in chosen if node.is_head and edges[node].sufficiency.low > self.threshold]
        if len(able) < 2:
            return []
        (lost,) = self.take("ablated", {"": able}).values()
        together = self.effect(self.clean, lost)
        alone = max((edges[node].necessity for node in able), key=lambda effect: effect.value)
        if together.low <= sum(max(edges[node].necessity.value, 0.0) for node in able) + self.threshold:
            return []
        return [Group(target=str(self.port), heads=tuple(map(str, able)), alone=alone, together=together)]


def chain_of(
    layout: Layout, name: str, mode: Mode, nodes: Sequence[Node], chain: Chain, reads: Sequence[Site]
) -> list[Run]:
    """The forwards of one condition: these nodes alone kept, or they alone ablated, at the chain's start."""
    ablated, clean = Mean(), Of(CLEAN)
    rest: Value
    changed: Value
    rest, changed = (ablated, clean) if mode == "kept" else (clean, ablated)
    first = Edit(chain[0], Rebuilt(rest, tuple((node, changed) for node in nodes)))
    return chain_runs(layout, name, first, chain, Rebuilt(rest), reads)
