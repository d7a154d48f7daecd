"""What all runs of one recipe share while it is lowered: names, frozen sites, what is read, what can be changed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from steer.anatomy.keyed import KeyedNames
from steer.anatomy.layout import Layout
from steer.anatomy.nodes import Node, Site
from steer.base.errors import Key
from steer.plan.plan import CLEAN, REFERENCE, Ablated, Edit, Mean, Plan, Resampled, Run, Zero
from steer.recipe.reach import Reach
from steer.recipe.schema import OWN, Recipe
from steer.results.rows import End

ALL_KEPT = "everything that could change what is measured is kept: nothing is ablated"


@dataclass(frozen=True)
class Lowered:
    """A recipe's plan, and what its measures are made of."""

    plan: Plan
    unmoved: frozenset[tuple[str, int]]  # (condition, number of a measure that it cannot change): no rows
    numbers: tuple[tuple[Site, ...], ...]  # what the numbers of each measure are made of
    clean: str  # the condition of the clean run


@dataclass(frozen=True)
class Lowering:
    recipe: Recipe
    names: KeyedNames
    freeze: tuple[Edit, ...]
    reads: tuple[Site, ...]
    reach: Reach

    @property
    def layout(self) -> Layout:
        return self.names.layout

    @property
    def ablated(self) -> Ablated:
        """What stands in for a value that is ablated."""
        wanted = self.recipe.ablation
        if wanted.value == "zero":
            return Zero()
        if wanted.value == "resample":
            return Resampled(self.recipe.seed)
        return Mean(wanted.over, CLEAN if wanted.reference == OWN else REFERENCE)

    @property
    def recomputed(self) -> bool:
        """Do MLPs on the way into a port make what they make of the changed stream?"""
        return self.recipe.ablation.mlps == "recomputed"

    def run(self, condition: str, edits: Iterable[Edit], end: End = "") -> Run:
        return Run(condition, (*self.freeze, *edits), self.reads, condition, end=end)

    def ablation(self, condition: str, nodes: Iterable[Node], end: End = "") -> Run:
        """These nodes ablated in the whole forward pass."""
        edits = [Edit(self.layout.write(node), self.ablated, self.recipe.places) for node in nodes]
        self.check_places(edit.site for edit in edits)
        # A frozen site stays at its clean value whatever else is done there.
        return Run(condition, (*edits, *self.freeze), self.reads, condition, end=end)

    def changing(self, key: Key, names: Sequence[str]) -> list[Node]:
        """The named nodes whose ablation changes something that is measured."""
        return self.reach.nodes(key, self.ablatable(key, self.names.nodes(key, names)))

    def arriving(self, nodes: Iterable[Node]) -> list[Node]:
        """Those of some nodes whose ablation changes something that is measured."""
        return [node for node in nodes if self.reach.arrives(self.layout.write(node))]

    def ablatable(self, key: Key, nodes: Sequence[Node]) -> list[Node]:
        """Without position embeddings where the ablation value is what they are anyway; a plain name is a fault."""
        wanted = self.recipe.ablation
        if wanted.value == "zero" or (wanted.value == "mean" and wanted.over != "position"):
            return list(nodes)
        for node in nodes:
            if self.layout.is_fixed(node) and self.names.is_single(key, node):
                why = f"{wanted.value} ablation leaves {node} as it is, the same in every episode"
                self.names.fault(key, f"{why}; use ablation: {{over: token}} or {{value: zero}}", node)
        kept = [node for node in nodes if not self.layout.is_fixed(node)]
        if nodes and not kept and not self.names.faults:
            self.names.fault(key, f"{wanted.value} ablation leaves position embeddings as they are")
        return kept

    def check_places(self, sites: Iterable[Site]) -> None:
        """Places are of the prompt or, for sites of the decoder's own tokens, of the answer."""
        longest = self.recipe.task.longest_answer + 1  # what the decoder reads: the start and the answer so far
        beyond = [place for place in self.recipe.places if place > longest]
        decoding = [site for site in sites if self.layout.sequence(site) != self.layout.prompt]
        if beyond and decoding:
            text = f"{decoding[0]} has a value for each of the decoder's tokens, at most {longest}"
            fault = (("places", self.recipe.places.index(beyond[0])), f"{text}: there is no place {beyond[0]}")
            if fault not in self.names.faults:
                self.names.faults.append(fault)

    def check_positions(self, key: Key, ports: Sequence[Site]) -> None:
        """Each port reads the position embeddings of the prompt."""
        for port in ports:
            node = self.layout.positions(port)
            if node is None or self.layout.sequence(Site(node)) != self.layout.prompt:
                self.names.fault(key, f"{port} does not read the prompt's positions", port)
        self.check_places(ports)

    def check_selection(self, who: str) -> None:
        """Only examples of which something can be changed."""
        needed = self.recipe.task.needed
        for key, value in needed.keys.items():
            if getattr(self.recipe.episodes, key) != value:
                self.names.fault(("episodes", key), f"{who} needs {needed.text}")

    def check_reference(self) -> None:
        wanted = self.recipe.ablation
        own_mean = (wanted.value, wanted.over, wanted.reference) == ("mean", "position", OWN)
        if own_mean and self.recipe.episodes.count == 1:
            self.names.fault(("episodes", "count"), "the mean over one episode is that episode: nothing is ablated")
