"""Can an experiment change what it measures? Checked for every edit and every measure before anything runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

from steer.anatomy.keyed import KeyedNames
from steer.anatomy.layout import Layout, carrier, touched
from steer.anatomy.nodes import Node, Site
from steer.base.errors import Key
from steer.plan.plan import Edit, Run


class Reach:
    """Which measures an edit can reach, given what is frozen."""

    def __init__(
        self, names: KeyedNames, measured: Sequence[Sequence[Site]], tensors: Sequence[Site], frozen: Sequence[Edit]
    ) -> None:
        self.names, self.measured = names, [frozenset(sites) for sites in measured]
        self.tensors, self.frozen = frozenset(tensors), [edit.site for edit in frozen]

    @property
    def layout(self) -> Layout:
        return self.names.layout

    @cached_property
    def read(self) -> frozenset[Site]:
        return self.tensors.union(*self.measured)

    def arrives(self, site: Site, goal: frozenset[Site] | None = None) -> bool:
        """Can an edit there change anything that is measured or saved? (Frozen and edited at once: `check_freeze`.)"""
        others = [other for other in self.frozen if carrier(other) != carrier(site)]
        return not (goal or self.read).isdisjoint(touched(self.layout, [site], others))

    def sites(self, key: Key, named: Sequence[Site], read: Iterable[Site] | None = None) -> list[Site]:
        """The named sites whose edit can arrive. A plain name that cannot is a fault, a glob means the rest."""
        goal = self.read if read is None else frozenset(read)
        kept = []
        for site in named:
            if self.arrives(site, goal):
                kept.append(site)
            elif self.names.is_single(key, site):
                self._fault(key, site, goal)
        if named and not kept and not self.names.faults:
            self._fault(key, named[0], goal)
        return kept

    def nodes(self, key: Key, named: Sequence[Node]) -> list[Node]:
        """The same for whole nodes, by what they write."""
        writes = {node: self.layout.write(node) for node in named}
        self.names.rename(key, writes)
        kept = set(self.sites(key, list(writes.values())))
        return [node for node in named if writes[node] in kept]

    def _fault(self, key: Key, site: Site, goal: frozenset[Site]) -> None:
        if goal.isdisjoint(touched(self.layout, [site])):
            self.names.fault(key, f"{site} comes after all that is measured: an edit there changes no number", site)
        else:
            sites = ", ".join(map(str, self.frozen))
            self.names.fault(("freeze",), f"with {sites} frozen, nothing from {site} arrives at what is measured")

    def check_direct(self, sources: Sequence[Node], targets: Sequence[Site]) -> None:
        """Note a fault for direct paths through a frozen point of the stream: they cannot be patched."""
        for site in self.frozen:
            for target in targets:
                between = [
                    n for n in sources if site in touched(self.layout, [self.layout.write(n)]) and self._is_stream(site)
                ]
                if between and target in touched(self.layout, [site]):
                    text = f"{site} is frozen between {between[0]} and {target}: a direct path runs through it"
                    self.names.fault(("freeze",), text, site)

    def _is_stream(self, site: Site) -> bool:
        return site in self.layout.points or any(site == stream.read_as for stream in self.layout.streams[:-1])

    def unmoved(self, runs: Iterable[Run]) -> frozenset[tuple[str, int]]:
        """(condition, number of a measure) wherever the one cannot change the other.

        Such a pair gives no row. A measure that no condition changes is a fault; one of roles that nobody plays
        (`$output:any`) reads nothing, and has no row anyway.
        """
        pairs = []
        conditions = [run for run in runs if run.condition is not None]
        for run in conditions:
            frozen = [edit.site for edit in run.edits if edit.holds]
            moved = touched(self.layout, [edit.site for edit in run.edits if not edit.holds], frozen)
            pairs += [(run.condition or "", n) for n, sites in enumerate(self.measured) if sites.isdisjoint(moved)]
        for number, sites in enumerate(self.measured):
            if sites and conditions and all((run.condition, number) in pairs for run in conditions):
                self.names.fault(("measures", number), "nothing that this recipe edits can change it")
        return frozenset(pairs)
