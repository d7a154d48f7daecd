"""From a recipe to a plan: one function for each kind of experiment, pure data in and out.

Names are checked against the model's shape on the way (`resolve`), what the measures read comes from `measured`.
Every fault is gathered and raised once.
"""

from __future__ import annotations

from itertools import pairwise

from steer.measured import check_figures, measured_sites
from steer.names import Node, Shape, Site
from steer.plan import ENDS, Ablated, Clean, Edit, Plan, Put, Rebuild, Run, chain_runs, make_plan, make_run
from steer.recipe import (
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
from steer.resolve import Context, Key, LoweringError, check_freeze
from steer.steered import BEFORE, check_positions, steer_runs, swap_edits

NOTHING, UNCHANGED, EVERYTHING = ENDS
AFTER, CLEAN = "after", "clean"


def lower(recipe: Recipe, shape: Shape) -> Plan:
    context = Context(shape)
    reads = [*measured_sites(recipe, context), *context.sites(("tensors",), recipe.tensors)]
    context.wanted(("measures",), reads)
    freeze = [Put(site, Clean()) for site in context.sites(("freeze",), recipe.freeze)]
    match recipe:
        case KeepOnlyOne() | AblateOnlyOne():
            clean, runs = NOTHING, _one_at_a_time(recipe, context, freeze, reads)
        case ChainedPatch():
            clean, runs = NOTHING, _chain(recipe, context, freeze, reads)
        case PositionSwap():
            clean, runs = BEFORE, _swap(recipe, context, freeze, reads)
        case Steer():
            clean, runs = BEFORE, steer_runs(recipe, context, freeze, reads)
        case AblateSet() | KeepSet():
            clean, runs = NOTHING, _set(recipe, context, freeze, reads)
        case Compare():
            clean, runs = CLEAN, _compare(recipe, context, freeze, reads)
        case CleanRun():
            clean, runs = CLEAN, []
    check_freeze(context, freeze, runs)
    check_figures(recipe, context)
    if context.faults:
        raise LoweringError(context.faults)
    return make_plan(shape, reads, runs, clean)


def _one_at_a_time(
    recipe: KeepOnlyOne | AblateOnlyOne, context: Context, freeze: list[Put], reads: list[Site]
) -> list[Run]:
    targets = context.ports(("target",), recipe.target)
    context.wanted(("target",), targets)
    sources = context.sources(("sources",), recipe.sources, targets)
    context.wanted(("sources",), sources)
    if context.faults:
        return []
    keep = isinstance(recipe, KeepOnlyOne)

    def run(condition: str, changed: list[Node], base: str | None = None) -> Run:
        edits: list[Edit] = [*freeze, *(_one_link(target, keep, changed, recipe.places, base) for target in targets)]
        return make_run(context.shape, condition, edits, reads, condition)

    return [run(EVERYTHING, [], "ablated"), *(run(str(source), [source]) for source in sources)]


def _one_link(
    target: Site, keep: bool, changed: list[Node], places: tuple[int, ...], base: str | None = None
) -> Rebuild:
    """keep: every source ablated but these. Otherwise: every source clean but these."""
    changes = tuple((node, Clean() if keep else Ablated()) for node in changed)
    return Rebuild(target, "ablated" if keep or base == "ablated" else "clean", changes, places)


def _chain(recipe: ChainedPatch, context: Context, freeze: list[Put], reads: list[Site]) -> list[Run]:
    links = [link for number, text in enumerate(recipe.chain) if (link := context.link(number, text))]
    whole = len(links) == len(recipe.chain)
    sources = context.sources(("sources",), recipe.sources, links[:1] if whole else [])
    context.wanted(("sources",), sources)
    for number, (one, two) in enumerate(pairwise(links) if whole else ()):
        context.connect(number + 1, one, two)
    if context.faults:
        return []
    keep = recipe.mode == "keep-only-one"
    firsts = [(UNCHANGED, Rebuild(links[0], "clean"))]
    firsts += [(EVERYTHING, Rebuild(links[0], "ablated", (), recipe.places))]
    firsts += [(str(source), _one_link(links[0], keep, [source], recipe.places)) for source in sources]
    return [
        run
        for label, first in firsts
        for run in chain_runs(context.shape, label, label, first, links, recipe.others, reads, freeze)
    ]


def _swap(recipe: PositionSwap, context: Context, freeze: list[Put], reads: list[Site]) -> list[Run]:
    ports = context.ports(("ports",), recipe.ports)
    first, second = recipe.tokens
    if {first, second} != {1, 3}:
        context.fault(("tokens",), "must be 1 and 3: the arguments of a question of two stand there")
    if recipe.episodes.arity != 2:
        context.fault(("episodes", "arity"), "a swap needs questions of two arguments: set episodes.arity to 2")
    check_positions(context, ("ports",), ports)
    context.wanted(("ports",), ports)
    if context.faults:
        return []
    edits = [*freeze, *swap_edits(context.shape, ports, first, second, recipe.places)]
    return [make_run(context.shape, AFTER, edits, reads, AFTER)]


def _set(recipe: AblateSet | KeepSet, context: Context, freeze: list[Put], reads: list[Site]) -> list[Run]:
    named = context.nodes(("nodes",), recipe.nodes)
    context.wanted(("nodes",), named)
    if isinstance(recipe, KeepSet):
        mlps = context.shape.mlps
        universe = context.shape.all_heads + (mlps if recipe.within == "heads-and-mlps" else [])
        ablated = [node for node in universe if node not in named]
    else:
        universe, ablated = named, named
    if context.faults:
        return []

    def run(condition: str, nodes: list[Node]) -> Run:
        return _ablation(recipe, context, condition, nodes, freeze, reads)

    if isinstance(recipe, AblateSet):
        return [run("set ablated", ablated)]
    return [run("only the set kept", ablated), run(EVERYTHING, universe)]


def _compare(recipe: Compare, context: Context, freeze: list[Put], reads: list[Site]) -> list[Run]:
    chosen = [_chosen(condition, context, ("conditions", n)) for n, condition in enumerate(recipe.conditions)]
    if context.faults:
        return []
    # A condition on roles that this checkpoint may lack (`$…:any`) is left out where it lacks them.
    return [
        _ablation(recipe, context, condition.name, nodes, freeze, reads)
        for condition, nodes in zip(recipe.conditions, chosen, strict=True)
        if nodes is not None
    ]


def _chosen(condition: Condition, context: Context, key: Key) -> list[Node] | None:
    """The nodes that a condition ablates; None if nothing that it names is there."""
    if condition.ablate:
        return context.nodes((*key, "ablate"), condition.ablate) or None
    kept, among = context.nodes((*key, "keep"), condition.keep), context.nodes((*key, "among"), condition.among)
    for node in kept:
        if node not in among and not context.faults:
            context.fault((*key, "keep"), f"{node} is not among those that are ablated if not kept", node)
    return None if condition.keep and not kept else [node for node in among if node not in kept]


def _ablation(
    recipe: Recipe, context: Context, condition: str, nodes: list[Node], freeze: list[Put], reads: list[Site]
) -> Run:
    """These nodes ablated in the whole forward pass."""
    puts = [Put(Site(node, "z" if node.is_head else None), Ablated(), recipe.places) for node in nodes]
    return make_run(context.shape, condition, [*puts, *freeze], reads, condition)
