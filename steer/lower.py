"""From a recipe to a plan: one function for each kind of experiment, pure data in and out.

Names are checked against the model's shape here. `lower` gathers every fault with the key it belongs to; who has the
file at hand turns the key into a line and column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeVar

from steer.errors import SteerError
from steer.names import INPUT_PORTS, Node, Shape, Site
from steer.plan import Ablated, Clean, Edit, Plan, Put, Rebuild, Recorded, Run, Swapped, make_plan, make_run
from steer.recipe import (
    AblateOnlyOne,
    AblateSet,
    AttentionMeasure,
    AttributionMeasure,
    ChainedPatch,
    CleanRun,
    KeepOnlyOne,
    KeepSet,
    PositionSwap,
    Recipe,
)

Key = tuple[str | int, ...]
T = TypeVar("T")
NOTHING, EVERYTHING = "nothing ablated", "everything ablated"
BEFORE, AFTER = "before", "after"
LOGITS = Site(Node("logits"))


class LoweringError(SteerError):
    """A recipe that does not fit the model; `placed` has the key of each fault."""

    def __init__(self, placed: list[tuple[Key, str]]) -> None:
        self.placed = placed
        super().__init__(*(f"{'.'.join(map(str, key))}: {text}" for key, text in placed))


@dataclass
class Context:
    """The model's shape and the faults found so far."""

    shape: Shape
    faults: list[tuple[Key, str]] = field(default_factory=list)

    def each(self, key: str, texts: Iterable[str], read: Callable[[str], list[T]]) -> list[T]:
        """Read every name of a list, noting the ones that cannot be read."""
        found: list[T] = []
        for number, text in enumerate(texts):
            try:
                found += read(text)
            except SteerError as error:
                self.faults += [((key, number), fault) for fault in error.faults]
        return list(dict.fromkeys(found))

    def nodes(self, key: str, texts: Iterable[str]) -> list[Node]:
        return self.each(key, texts, self.shape.expand_nodes)

    def heads(self, key: str, texts: Iterable[str]) -> list[Node]:
        return self.each(key, texts, self.shape.expand_heads)

    def sites(self, key: str, texts: Iterable[str]) -> list[Site]:
        return self.each(key, texts, lambda text: [self.shape.site(text)])

    def ports(self, key: str, texts: Iterable[str]) -> list[Site]:
        """q, k or v of one or more heads (`enc-self-0.*.v`)."""
        return self.each(key, texts, self._ports)

    def _ports(self, text: str) -> list[Site]:
        head, _, port = text.strip().rpartition(".")
        if port.lower() not in INPUT_PORTS:
            raise SteerError(f"{text!r} must end in .q, .k or .v: paths are patched into what a head reads")
        return [Site(node, port.lower()) for node in self.shape.expand_heads(head)]


def lower(recipe: Recipe, shape: Shape) -> Plan:
    context = Context(shape)
    reads = [*_measured_sites(recipe, context), *context.sites("tensors", recipe.tensors)]
    freeze = [Put(site, Clean()) for site in context.sites("freeze", recipe.freeze)]
    match recipe:
        case KeepOnlyOne() | AblateOnlyOne():
            clean, runs = NOTHING, _one_at_a_time(recipe, context, freeze, reads)
        case ChainedPatch():
            clean, runs = NOTHING, _chain(recipe, context, freeze, reads)
        case PositionSwap():
            clean, runs = BEFORE, _swap(recipe, context, freeze, reads)
        case AblateSet() | KeepSet():
            clean, runs = NOTHING, _set(recipe, context, freeze, reads)
        case CleanRun():
            clean, runs = "clean", []
    if context.faults:
        raise LoweringError(context.faults)
    return make_plan(shape, reads, runs, clean)


def _measured_sites(recipe: Recipe, context: Context) -> list[Site]:
    sites: list[Site] = []
    for number, measure in enumerate(recipe.measures):
        if measure.against == "counterfactual" and not isinstance(recipe, PositionSwap):
            text = "only a position-swap has a counterfactual answer"
            context.faults.append((("measures", number, "against"), text))
        if isinstance(measure, AttributionMeasure):
            components = context.nodes("measures", measure.components)
            if any(node.stack != "dec" for node in components):
                text = "only the decoder writes into the stream that the logits read"
                context.faults.append((("measures", number, "components"), text))
            sites += attribution_sites(context.shape)
        elif isinstance(measure, AttentionMeasure):
            heads = context.heads("measures", measure.heads)
            if any(node.kind != "dec-cross" for node in heads):
                text = "attention is measured on dec-cross heads, which look at the prompt"
                context.faults.append((("measures", number, "heads"), text))
            sites += [Site(node, "pattern") for node in heads]
        else:
            sites.append(LOGITS)
    return list(dict.fromkeys(sites))


def attribution_sites(shape: Shape) -> list[Site]:
    """What logit attribution reads: every write into the decoder's stream, and the stream at its end."""
    writers = [node for node in shape.writers if node.stack == "dec"]
    final = Site(Node("dec-resid", shape.decoder_layers - 1), "post")
    return [*(Site(node, "z" if node.is_head else None) for node in writers), final]


def _one_at_a_time(
    recipe: KeepOnlyOne | AblateOnlyOne, context: Context, freeze: list[Put], reads: list[Site]
) -> list[Run]:
    targets, sources = context.ports("target", recipe.target), context.nodes("sources", recipe.sources)
    _check_direct(context, "sources", sources, targets)
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
    sources = context.nodes("sources", recipe.sources)
    links = context.ports("chain", recipe.chain)
    if not context.faults:
        _check_direct(context, "sources", sources, links[:1])
        for number, (one, two) in enumerate(pairwise(links)):
            _check_direct(context, "chain", [one.node], [two], number + 1)
    if context.faults:
        return []
    keep = recipe.mode == "keep-only-one"
    firsts = [(NOTHING + " before the chain", Rebuild(links[0], "clean"))]
    firsts += [(EVERYTHING, Rebuild(links[0], "ablated", (), recipe.places))]
    firsts += [(str(source), _one_link(links[0], keep, [source], recipe.places)) for source in sources]
    return [run for label, first in firsts for run in _walk(recipe, context, label, first, links, freeze, reads)]


def _walk(
    recipe: ChainedPatch, context: Context, label: str, first: Rebuild, links: list[Site], freeze: list[Put],
    reads: list[Site],
) -> list[Run]:  # fmt: skip
    """The runs of one chain: each but the last records what its head writes, the next one passes that on."""
    runs: list[Run] = []
    edit = first
    for link, after in pairwise(links):
        name = f"{label} -> {link}"
        runs.append(make_run(context.shape, name, [edit], [Site(link.node, "z")]))
        edit = Rebuild(after, recipe.others, ((link.node, Recorded(name)),))
    return [*runs, make_run(context.shape, f"{label} -> {links[-1]}", [*freeze, edit], reads, label)]


def _swap(recipe: PositionSwap, context: Context, freeze: list[Put], reads: list[Site]) -> list[Run]:
    ports = context.ports("ports", recipe.ports)
    first, second = recipe.tokens
    if first == second or not {first, second} <= {1, 2, 3}:
        context.faults.append((("tokens",), "must be two different places of the question, from 1 to 3"))
    if recipe.episodes.arity != 2:
        text = "a swap needs questions of two arguments: set episodes.arity to 2"
        context.faults.append((("episodes", "arity"), text))
    change = (Node("enc.pos"), Swapped(first, second))
    for number, port in enumerate(ports):
        if Node("enc.pos") not in context.shape.sources(port):
            context.faults.append((("ports", number), f"{port} does not read the prompt's positions"))
    if context.faults:
        return []
    edits: list[Edit] = [*freeze, *(Rebuild(port, "clean", (change,), recipe.places) for port in ports)]
    return [make_run(context.shape, AFTER, edits, reads, AFTER)]


def _set(recipe: AblateSet | KeepSet, context: Context, freeze: list[Put], reads: list[Site]) -> list[Run]:
    named = context.nodes("nodes", recipe.nodes)
    if isinstance(recipe, KeepSet):
        mlps = [node for node in context.shape.writers if node.kind.endswith("mlp")]
        universe = context.shape.all_heads + (mlps if recipe.within == "heads-and-mlps" else [])
        ablated = [node for node in universe if node not in named]
    else:
        universe, ablated = named, named
    if context.faults:
        return []

    def run(condition: str, nodes: list[Node]) -> Run:
        puts = [Put(Site(node, "z" if node.is_head else None), Ablated(), recipe.places) for node in nodes]
        return make_run(context.shape, condition, [*puts, *freeze], reads, condition)

    if isinstance(recipe, AblateSet):
        return [run("set ablated", ablated)]
    return [run("only the set kept", ablated), run(EVERYTHING, universe)]


def _check_direct(context: Context, key: str, sources: list[Node], targets: list[Site], number: int = 0) -> None:
    for target in targets:
        direct = context.shape.sources(target)
        for source in sources:
            if source not in direct:
                kinds = ", ".join(
                    dict.fromkeys(str(node) if node.layer is None else f"{node.kind}-{node.layer}" for node in direct)
                )
                text = f"{source} does not feed {target} directly; its direct sources are {kinds or 'none'}"
                context.faults.append(((key, number), text))
