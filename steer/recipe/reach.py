"""Can an experiment change what it measures? Asked of every edit and every measure before anything runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

from steer.anatomy.flow import touched
from steer.anatomy.names import Node, Shape, Site
from steer.anatomy.resolve import Context, Key
from steer.plan.plan import Put, Run, is_held


class Reach:
    """What edits can arrive at: each measure's own sites, past what is frozen."""

    def __init__(
        self, context: Context, measured: Sequence[Sequence[Site]], tensors: Sequence[Site], frozen: Sequence[Put]
    ) -> None:
        self.context, self.measured = context, [frozenset(sites) for sites in measured]
        self.tensors, self.frozen = frozenset(tensors), [put.site for put in frozen]

    @property
    def shape(self) -> Shape:
        return self.context.shape

    @cached_property
    def _read(self) -> frozenset[Site]:
        return self.tensors.union(*self.measured)

    def arrives(self, site: Site, goal: frozenset[Site] | None = None) -> bool:
        """Can an edit there change anything that is measured or saved? (Frozen and edited at once: `check_freeze`.)"""
        held = [other for other in self.frozen if other.path != site.path or other.node != site.node]
        return not (goal or self._read).isdisjoint(touched(self.shape, [site], held))

    def sites(self, key: Key, named: Sequence[Site], read: Iterable[Site] | None = None) -> list[Site]:
        """The named sites whose edit can arrive. A plain name that cannot is a fault, a glob means the rest."""
        goal = self._read if read is None else frozenset(read)
        kept = []
        for site in named:
            if self.arrives(site, goal):
                kept.append(site)
            elif self.context.is_plain(key, site):
                self._fault(key, site, goal)
        if named and not kept and not self.context.faults:
            self._fault(key, named[0], goal)
        return kept

    def nodes(self, key: Key, named: Sequence[Node]) -> list[Node]:
        """The same for whole nodes, by what they write."""
        writes = {node: write(node) for node in named}
        self.context.rename(key, writes)
        kept = set(self.sites(key, list(writes.values())))
        return [node for node in named if writes[node] in kept]

    def _fault(self, key: Key, site: Site, goal: frozenset[Site]) -> None:
        if goal.isdisjoint(touched(self.shape, [site])):
            self.context.fault(key, f"{site} comes after all that is measured: an edit there changes no number", site)
        else:
            held = ", ".join(map(str, self.frozen))
            self.context.fault(("freeze",), f"with {held} frozen, nothing from {site} arrives at what is measured")

    def check_direct(self, sources: Sequence[Node], targets: Sequence[Site]) -> None:
        """A direct path runs through the stream: it cannot be patched past a frozen point of it, or of its source."""
        for held in self.frozen:
            for target in targets:
                between = [n for n in sources if held in touched(self.shape, [write(n)]) and _is_stream(held)]
                if between and target in touched(self.shape, [held]):
                    text = f"{held} is frozen between {between[0]} and {target}: a direct path runs through it"
                    self.context.fault(("freeze",), text, held)

    def unmoved(self, runs: Iterable[Run]) -> tuple[tuple[str, int], ...]:
        """(condition, number of a measure) wherever the one cannot change the other.

        Such a pair gives no row. A measure that no condition changes is a fault.
        """
        pairs = []
        conditions = [run for run in runs if run.condition is not None]
        for run in conditions:
            held = [edit.site for edit in run.edits if is_held(edit)]
            moved = touched(self.shape, [edit.site for edit in run.edits if not is_held(edit)], held)
            pairs += [(run.condition or "", n) for n, sites in enumerate(self.measured) if sites.isdisjoint(moved)]
        for number in range(len(self.measured)):
            if conditions and all((run.condition, number) in pairs for run in conditions):
                self.context.fault(("measures", number), "nothing that this recipe edits can change it")
        return tuple(pairs)


def _is_stream(site: Site) -> bool:
    return site.node.kind.endswith("resid") or site.node.kind == "enc.memory"


def write(node: Node) -> Site:
    """The site from which a node's write into the stream is computed."""
    return Site(node, "z" if node.is_head else None)
