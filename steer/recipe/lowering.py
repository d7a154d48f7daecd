"""What all runs of one recipe share while it is lowered: names, frozen sites, what is read, what can be changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from steer.anatomy.keyed import KeyedNames
from steer.anatomy.layout import Layout, touched
from steer.anatomy.nodes import Node, Site
from steer.base.errors import Key, unknown
from steer.plan.plan import (
    CLEAN,
    COUNTERPART,
    REFERENCE,
    Ablated,
    Edit,
    Mean,
    Of,
    Plan,
    Resampled,
    Run,
    Spot,
    Stored,
    Zero,
)
from steer.recipe.edits import prompt_tokens
from steer.recipe.reach import Reach
from steer.recipe.schema import OWN, Recipe
from steer.results.directions import Direction, Floats, digest
from steer.results.rows import End
from steer.tasks.task import LAST

Thing = TypeVar("Thing", Node, Site)
ALL_KEPT = "everything that could change what is measured is kept: nothing is ablated"


@dataclass(frozen=True)
class Search:
    """A subspace of each of some sites, learnt together before the plan is run (or drawn at random)."""

    rows: tuple[tuple[Site, Stored], ...]
    size: int | None  # dimensions of each; None: all that a site has
    key: Key  # of the recipe, for faults
    random: bool = False
    control: bool = False  # at other sites than those that the recipe is about


@dataclass(frozen=True)
class Used:
    """The file of a direction or subspace where a recipe names it, and the sites that it is used at."""

    key: Key
    name: str
    read: Direction
    sites: tuple[Site, ...]


@dataclass(frozen=True)
class Lowered:
    """A recipe's plan, and what its measures are made of."""

    plan: Plan
    unmoved: frozenset[tuple[str, int]]  # (condition, number of a measure that it cannot change): no rows
    numbers: tuple[tuple[Site, ...], ...]  # what the numbers of each measure are made of
    clean: str  # the condition of the clean run
    stored: Mapping[Stored, Floats] = field(default_factory=dict)  # directions and subspaces of the plan
    searches: tuple[Search, ...] = ()  # for those that are still to be learnt
    used: tuple[Used, ...] = ()  # the files behind `stored`


@dataclass(frozen=True)
class Lowering:
    recipe: Recipe
    names: KeyedNames
    freeze: tuple[Edit, ...]
    reads: tuple[Site, ...]
    reach: Reach
    lengths: Mapping[str, int] | None = None  # places that every example has, by sequence: see `counts_places`
    folder: Path = Path()  # that the files which a recipe names are relative to
    stored: dict[Stored, Floats] = field(default_factory=dict)
    searches: list[Search] = field(default_factory=list)
    used: list[Used] = field(default_factory=list)

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
        if wanted.value == "counterpart":
            return Of(COUNTERPART)
        return Mean(wanted.over, CLEAN if wanted.reference == OWN else REFERENCE)

    @property
    def recomputed(self) -> bool:
        """Do MLPs on the way into a port make what they make of the changed stream?"""
        return self.recipe.ablation.mlps == "recomputed"

    def store(self, name: str, numbers: Floats) -> Stored:
        """Numbers that the plan's values draw on, under a name."""
        key = Stored(name, digest(numbers))
        self.stored[key] = numbers
        return key

    def search(
        self, name: str, sites: Iterable[Site], size: int | None, key: Key, random: bool = False, control: bool = False
    ) -> Search:
        """A subspace of each site, to be learnt."""
        rows = tuple((site, Stored(f"{name} ({site})", "")) for site in sites)
        made = Search(rows, size, key, random, control)
        self.searches.append(made)
        return made

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
        moved = self._moved if self.recipe.ablation.value == "counterpart" else None
        arriving = [node for node in nodes if self.reach.arrives(self.layout.write(node))]
        return [node for node in arriving if moved is None or self.layout.write(node) in moved]

    @cached_property
    def _moved(self) -> frozenset[Site]:
        """What may be another value in the counterpart's run."""
        return touched(self.layout, [prompt_tokens(self.layout)])

    def differing(self, key: Key, named: Sequence[Thing], site_of: Callable[[Thing], Site]) -> list[Thing]:
        """Those whose value may be another in the counterpart's run: what the prompt's tokens reach."""
        kept = [thing for thing in named if site_of(thing) in self._moved]
        for thing in named:
            if thing not in kept and (self.names.is_single(key, thing) or not kept):
                text = f"{thing} does not depend on the prompt: it is the same in the counterpart's run"
                self.names.fault(key, text, thing)
                if not kept:
                    break
        return kept

    def ablatable(self, key: Key, nodes: Sequence[Node]) -> list[Node]:
        """Without position embeddings where the ablation value is what they are anyway; a plain name is a fault."""
        wanted = self.recipe.ablation
        if wanted.value == "counterpart":
            return self.differing(key, nodes, self.layout.write)
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

    def check_places(self, sites: Iterable[Site], places: Sequence[Spot] | None = None, key: Key = ("places",)) -> None:
        """Note a fault for places (the recipe's own, or others) that the sites do not have, of prompt or answer."""
        decoding = [site for site in sites if self.layout.sequence(site) != self.layout.prompt]
        for number, place in enumerate(self.recipe.places if places is None else places):
            text = self._strange_place(place, decoding)
            fault: tuple[Key, str] = ((*key, number), text)
            if text and fault not in self.names.faults:
                self.names.faults.append(fault)

    def _strange_place(self, place: Spot, answering: Sequence[Site]) -> str:
        """What is wrong with a place; empty if nothing is. `answering`: sites with values at the answer's tokens."""
        task = self.recipe.task
        of_answer = f"{answering[0]} has a value for each token of the answer" if answering else ""
        longest = task.longest_answer + 1  # the start token and the answer
        if isinstance(place, int):
            return f"{of_answer}, at most {longest}: there is no place {place}" if answering and place > longest else ""
        known = (*self.recipe.place_words, LAST, *task.span_names)
        if place not in known:
            return unknown("place", place, known)
        return f"{of_answer}; {place} is of the prompt" if answering and place not in self.recipe.place_words else ""

    def check_exchanged(self, key: Key, two: tuple[Spot, Spot]) -> None:
        """Two places of the prompt, so that each can have the other's position."""
        known = (LAST, *self.recipe.task.span_names)
        for number, spot in enumerate(two):
            if isinstance(spot, str) and spot not in known:
                self.names.fault((*key, number), unknown("place", spot, known))
        if two[0] == two[1]:
            self.names.fault(key, f"{two[0]!r} stands here twice: two places of the prompt are exchanged")

    def check_positions(
        self, key: Key, ports: Sequence[Site], places: Sequence[Spot] | None = None, there: Key = ("places",)
    ) -> None:
        """Positions of the prompt reach each port directly, as embeddings, by rotation or as a bias of its scores.

        `places`: those that are edited, if not the recipe's own; `there`: where they are named."""
        layout, places = self.layout, self.recipe.places if places is None else places
        for port in ports:
            node = layout.positions(port)
            if node is None and not (layout.is_rotated(port) or layout.is_biased(port)):
                why = dict(layout.absent).get(f"{layout.reads(port)}.pos", "")
                ends = f"; {why}, so that only q and k of self-attention know them" if why else ""
                self.names.fault(key, f"{port} does not read the prompt's positions{ends}", port)
            elif layout.sequence(port if node is None else Site(node)) != layout.prompt:
                self.names.fault(key, f"{port} does not read the prompt's positions", port)
            elif node is None and places and layout.is_biased(port):
                text = "a bias is of two tokens at once: positions in it are exchanged at all places"
                self.names.fault(there, text)
        self.check_places(ports, places, there)

    def check_selection(self, who: str) -> None:
        """Only examples of which something can be changed."""
        needed = self.recipe.task.needed
        for key, value in needed.keys.items():
            if getattr(self.recipe.episodes, key) != value:
                self.names.fault(("episodes", key), f"{who} needs {needed.text}")

    def check_ablation(self) -> None:
        """What stands in for an ablated value must be another value."""
        wanted = self.recipe.ablation
        if not self.recipe.ablates:
            return
        if wanted.value == "counterpart":
            self.check_selection("a counterpart")
        own_mean = (wanted.value, wanted.over, wanted.reference) == ("mean", "position", OWN)
        if own_mean and self.recipe.episodes.count == 1:
            self.names.fault(("episodes", "count"), "the mean over one episode is that episode: nothing is ablated")
