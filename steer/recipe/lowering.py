"""What all runs of one recipe share while it is lowered: names, frozen sites, what is read, what can be changed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from steer.anatomy.names import Node, Shape, Site
from steer.anatomy.resolve import Context, Key
from steer.measures.measured import of_prompt
from steer.plan.plan import Ablated, Edit, Put, Run, make_run
from steer.recipe.reach import Reach, write
from steer.recipe.schema import Recipe

POSITION_EMBEDDINGS = (Node("enc.pos"), Node("dec.pos"))


@dataclass(frozen=True)
class Lowering:
    recipe: Recipe
    context: Context
    freeze: tuple[Put, ...]
    reads: tuple[Site, ...]
    reach: Reach

    @property
    def shape(self) -> Shape:
        return self.context.shape

    def run(self, condition: str, edits: Iterable[Edit]) -> Run:
        return make_run(self.shape, condition, [*self.freeze, *edits], self.reads, condition)

    def ablation(self, condition: str, nodes: Iterable[Node]) -> Run:
        """These nodes ablated in the whole forward pass."""
        puts = [Put(write(node), Ablated(), self.recipe.places) for node in nodes]
        self.check_places(put.site for put in puts)
        # A frozen site stays at its clean value whatever else is done there.
        return make_run(self.shape, condition, [*puts, *self.freeze], self.reads, condition)

    def ablatable(self, key: Key, nodes: Sequence[Node]) -> list[Node]:
        """Without position embeddings where the ablation value is what they are anyway; a plain name is a fault."""
        asked = self.recipe.ablation
        if asked.value == "zero" or (asked.value == "mean" and asked.over == "token"):
            return list(nodes)
        for node in nodes:
            if node in POSITION_EMBEDDINGS and self.context.is_plain(key, node):
                why = f"{asked.value} ablation leaves {node} as it is, the same in every episode"
                self.context.fault(key, f"{why}; use ablation: {{over: token}} or {{value: zero}}", node)
        kept = [node for node in nodes if node not in POSITION_EMBEDDINGS]
        if nodes and not kept and not self.context.faults:
            self.context.fault(key, f"{asked.value} ablation leaves position embeddings as they are")
        return kept

    def check_places(self, sites: Iterable[Site]) -> None:
        """Places are of the prompt or, for sites of the decoder's own tokens, of the answer."""
        longest = self.recipe.task.longest_answer + 1  # what the decoder reads: the start and the answer so far
        beyond = [place for place in self.recipe.places if place > longest]
        decoding = [site for site in sites if not of_prompt(site)]
        if beyond and decoding:
            text = f"{decoding[0]} has a value for each of the decoder's tokens, at most {longest}"
            fault = (("places", self.recipe.places.index(beyond[0])), f"{text}: there is no place {beyond[0]}")
            if fault not in self.context.faults:
                self.context.faults.append(fault)

    def check_reference(self) -> None:
        asked = self.recipe.ablation
        own_mean = (asked.value, asked.over, asked.reference) == ("mean", "position", "episodes")
        if own_mean and self.recipe.episodes.count == 1:
            self.context.fault(("episodes", "count"), "the mean over one episode is that episode: nothing is ablated")
