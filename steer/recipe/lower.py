"""From a recipe to a plan: one function for each kind of experiment, pure data in and out.

Names are checked against the model's shape on the way (`resolve`), what the measures read comes from `measured`, and
whether an edit can change what is measured from `reach`. Every fault is gathered and raised once.
"""

from __future__ import annotations

from itertools import pairwise

from steer.anatomy.names import Node, Shape, Site
from steer.anatomy.resolve import Context, Key, LoweringError, check_freeze
from steer.measures.measured import check_figures, measured_sites
from steer.plan.plan import (
    EVERYTHING,
    NOTHING,
    UNCHANGED,
    Ablated,
    Clean,
    Plan,
    Put,
    Rebuild,
    Run,
    chain_runs,
    make_plan,
)
from steer.recipe.lowering import Lowering
from steer.recipe.reach import Reach, write
from steer.recipe.schema import (
    AblateOnlyOne,
    AblateSet,
    ChainedPatch,
    CleanRun,
    Compare,
    Condition,
    KeepOnlyOne,
    KeepSet,
    PositionSwap,
    Recipe,
    Steer,
)
from steer.recipe.steered import BEFORE, check_exchange, check_positions, steer_runs, swap_edits

AFTER, CLEAN = "after", "clean"


def lower(recipe: Recipe, shape: Shape) -> Plan:
    context = Context(shape)
    measured = measured_sites(recipe, context)
    tensors = context.sites(("tensors",), recipe.tensors)
    reads = tuple(dict.fromkeys([*(site for found in measured for site in found.all), *tensors]))
    context.wanted(("measures",), reads)
    freeze = tuple(Put(site, Clean()) for site in context.sites(("freeze",), recipe.freeze))
    reach = Reach(context, [found.numbers for found in measured], tensors, freeze)
    lowering = Lowering(recipe, context, freeze, reads, reach)
    clean, runs = _runs(recipe, lowering)
    check_freeze(context, freeze, runs)
    check_figures(recipe, context)
    unmoved = reach.unmoved(runs) if not context.faults else ()
    if context.faults:
        raise LoweringError(context.faults)
    return make_plan(shape, reads, runs, clean, unmoved, [found.numbers for found in measured])


def _runs(recipe: Recipe, lowering: Lowering) -> tuple[str, list[Run]]:
    """The name of the clean condition, and the runs of the others."""
    if not isinstance(recipe, PositionSwap | Steer | CleanRun):
        lowering.check_reference()
    match recipe:
        case KeepOnlyOne() | AblateOnlyOne():
            return NOTHING, _one_at_a_time(recipe, lowering)
        case ChainedPatch():
            return NOTHING, _chain(recipe, lowering)
        case PositionSwap():
            return BEFORE, _swap(recipe, lowering)
        case Steer():
            return BEFORE, steer_runs(recipe, lowering)
        case AblateSet():
            return NOTHING, _ablate_set(recipe, lowering)
        case KeepSet():
            return NOTHING, _keep_set(recipe, lowering)
        case Compare():
            return CLEAN, _compare(recipe, lowering)
        case CleanRun():
            return CLEAN, []


def _one_at_a_time(recipe: KeepOnlyOne | AblateOnlyOne, lowering: Lowering) -> list[Run]:
    context = lowering.context
    named = context.ports(("target",), recipe.target)
    context.wanted(("target",), named)
    sources = lowering.ablatable(("sources",), context.sources(("sources",), recipe.sources, named))
    context.wanted(("sources",), sources)
    lowering.check_places(named)
    targets = lowering.reach.sites(("target",), named)
    lowering.reach.check_direct(sources, targets)
    if context.faults:
        return []
    keep = isinstance(recipe, KeepOnlyOne)

    def run(condition: str, changed: list[Node], base: str | None = None) -> Run:
        return lowering.run(condition, [_one_link(target, keep, changed, recipe.places, base) for target in targets])

    return [run(EVERYTHING, [], "ablated"), *(run(str(source), [source]) for source in sources)]


def _one_link(
    target: Site, keep: bool, changed: list[Node], places: tuple[int, ...], base: str | None = None
) -> Rebuild:
    """keep: every source ablated but these. Otherwise: every source clean but these."""
    changes = tuple((node, Clean() if keep else Ablated()) for node in changed)
    return Rebuild(target, "ablated" if keep or base == "ablated" else "clean", changes, places)


def _chain(recipe: ChainedPatch, lowering: Lowering) -> list[Run]:
    context = lowering.context
    links = [link for number, text in enumerate(recipe.chain) if (link := context.link(number, text))]
    whole = len(links) == len(recipe.chain)
    named = context.sources(("sources",), recipe.sources, links[:1] if whole else [])
    sources = lowering.ablatable(("sources",), named)
    context.wanted(("sources",), sources)
    for number, (one, two) in enumerate(pairwise(links) if whole else ()):
        context.connect(number + 1, one, two)
        lowering.reach.sites(("chain", number), [one], read=[write(one.node)])
        lowering.reach.check_direct([one.node], [two])
    if whole:
        lowering.reach.check_direct(sources, links[:1])
        lowering.reach.sites(("chain", len(links) - 1), links[-1:])
        lowering.check_places(links[:1])
    if context.faults:
        return []
    keep = recipe.mode == "keep-only-one"
    firsts = [(UNCHANGED, Rebuild(links[0], "clean"))]
    firsts += [(EVERYTHING, Rebuild(links[0], "ablated", (), recipe.places))]
    firsts += [(str(source), _one_link(links[0], keep, [source], recipe.places)) for source in sources]
    return [
        run
        for label, first in firsts
        for run in chain_runs(context.shape, label, label, first, links, recipe.others, lowering.reads, lowering.freeze)
    ]


def _swap(recipe: PositionSwap, lowering: Lowering) -> list[Run]:
    context = lowering.context
    named = context.ports(("ports",), recipe.ports)
    first, second = recipe.tokens
    check_exchange(recipe, lowering)
    check_positions(lowering, ("ports",), named)
    context.wanted(("ports",), named)
    ports = lowering.reach.sites(("ports",), named)
    if context.faults:
        return []
    return [lowering.run(AFTER, swap_edits(context.shape, ports, first, second, recipe.places))]


def _ablate_set(recipe: AblateSet, lowering: Lowering) -> list[Run]:
    nodes = _ablated(lowering, ("nodes",), recipe.nodes)
    lowering.context.wanted(("nodes",), nodes)
    return [] if lowering.context.faults else [lowering.ablation("set ablated", nodes)]


def _keep_set(recipe: KeepSet, lowering: Lowering) -> list[Run]:
    context, shape = lowering.context, lowering.shape
    named = context.nodes(("nodes",), recipe.nodes)
    context.wanted(("nodes",), named)
    universe = shape.all_heads + (shape.mlps if recipe.within == "heads-and-mlps" else [])
    for node in named:
        if node not in universe:
            context.fault(("nodes",), f"{node} is never ablated within {recipe.within}, so it cannot be kept", node)
    outside = [node for node in universe if node not in named]
    ablated = [node for node in outside if lowering.reach.arrives(write(node))]
    if not ablated and not context.faults:
        context.fault(("nodes",), "everything that could change what is measured is kept: nothing is ablated")
    if context.faults:
        return []
    return [lowering.ablation("only the set kept", ablated), lowering.ablation(EVERYTHING, universe)]


def _compare(recipe: Compare, lowering: Lowering) -> list[Run]:
    chosen = [_chosen(condition, lowering, ("conditions", n)) for n, condition in enumerate(recipe.conditions)]
    if lowering.context.faults:
        return []
    if all(nodes is None for nodes in chosen):
        lowering.context.fault(("conditions",), "no head of this checkpoint plays these roles: nothing is compared")
    # A condition on roles that this checkpoint may lack (`$…:any`) is left out where it lacks them.
    return [
        lowering.ablation(condition.name, nodes)
        for condition, nodes in zip(recipe.conditions, chosen, strict=True)
        if nodes is not None
    ]


def _chosen(condition: Condition, lowering: Lowering, key: Key) -> list[Node] | None:
    """The nodes that a condition ablates; None if nothing that it names is there."""
    context = lowering.context
    if condition.ablate:
        return _ablated(lowering, (*key, "ablate"), condition.ablate) or None
    kept, among = context.nodes((*key, "keep"), condition.keep), context.nodes((*key, "among"), condition.among)
    for node in kept:
        if node not in among and not context.faults:
            context.fault((*key, "keep"), f"{node} is not among those that are ablated if not kept", node)
    if condition.keep and not kept:
        return None
    ablated = [node for node in lowering.ablatable((*key, "among"), among) if node not in kept]
    ablated = [node for node in ablated if lowering.reach.arrives(write(node))]
    if not ablated and not context.faults:
        context.fault(key, "everything that could change what is measured is kept: nothing is ablated")
    return ablated


def _ablated(lowering: Lowering, key: Key, names: tuple[str, ...]) -> list[Node]:
    """The named nodes whose ablation changes something that is measured."""
    return lowering.reach.nodes(key, lowering.ablatable(key, lowering.context.nodes(key, names)))
