"""ablate-set, keep-set and compare: nodes ablated in the whole forward pass."""

from __future__ import annotations

from steer.anatomy.nodes import Node
from steer.base.errors import Key
from steer.plan.plan import EVERYTHING, Run
from steer.recipe.lowering import Lowering
from steer.recipe.schema import AblateSet, Compare, Condition, KeepSet

ALL_KEPT = "everything that could change what is measured is kept: nothing is ablated"


def ablate_set(recipe: AblateSet, lowering: Lowering) -> list[Run]:
    nodes = _ablated(lowering, ("nodes",), recipe.nodes)
    lowering.names.wanted(("nodes",), nodes)
    return [] if lowering.names.faults else [lowering.ablation("set ablated", nodes)]


def keep_set(recipe: KeepSet, lowering: Lowering) -> list[Run]:
    names, layout = lowering.names, lowering.layout
    named = names.nodes(("nodes",), recipe.nodes)
    names.wanted(("nodes",), named)
    universe = [*layout.heads, *(layout.mlps if recipe.within == "heads-and-mlps" else ())]
    for node in named:
        if node not in universe:
            names.fault(("nodes",), f"{node} is never ablated within {recipe.within}, so it cannot be kept", node)
    ablated = _arriving(lowering, [node for node in universe if node not in named])
    if not ablated and not names.faults:
        names.fault(("nodes",), ALL_KEPT)
    if names.faults:
        return []
    return [lowering.ablation("only the set kept", ablated), lowering.ablation(EVERYTHING, universe)]


def compare(recipe: Compare, lowering: Lowering) -> list[Run]:
    chosen = [_chosen(condition, lowering, ("conditions", n)) for n, condition in enumerate(recipe.conditions)]
    if lowering.names.faults:
        return []
    if all(nodes is None for nodes in chosen):
        lowering.names.fault(("conditions",), "no head of this checkpoint plays these roles: nothing is compared")
    # A condition on roles that this checkpoint may lack (`$…:any`) is left out where it lacks them.
    return [
        lowering.ablation(condition.name, nodes)
        for condition, nodes in zip(recipe.conditions, chosen, strict=True)
        if nodes is not None
    ]


def _chosen(condition: Condition, lowering: Lowering, key: Key) -> list[Node] | None:
    """The nodes that a condition ablates; None if nothing that it names is there."""
    names = lowering.names
    if condition.ablate:
        return _ablated(lowering, (*key, "ablate"), condition.ablate) or None
    kept, among = names.nodes((*key, "keep"), condition.keep), names.nodes((*key, "among"), condition.among)
    for node in kept:
        if node not in among and not names.faults:
            names.fault((*key, "keep"), f"{node} is not among those that are ablated if not kept", node)
    if condition.keep and not kept:
        return None
    rest = [node for node in lowering.ablatable((*key, "among"), among) if node not in kept]
    ablated = _arriving(lowering, rest)
    if not ablated and not names.faults:
        names.fault(key, ALL_KEPT)
    return ablated


def _arriving(lowering: Lowering, nodes: list[Node]) -> list[Node]:
    return [node for node in nodes if lowering.reach.arrives(lowering.layout.write(node))]


def _ablated(lowering: Lowering, key: Key, names: tuple[str, ...]) -> list[Node]:
    """The named nodes whose ablation changes something that is measured."""
    return lowering.reach.nodes(key, lowering.ablatable(key, lowering.names.nodes(key, names)))
