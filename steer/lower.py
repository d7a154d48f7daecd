"""From a recipe to a plan: one function for each kind of experiment, pure data in and out.

Names are checked against the model's shape here. `lower` gathers every fault with the key it belongs to; who has the
file at hand turns the key into a line and column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import Any, TypeVar

from steer.errors import SteerError
from steer.names import INPUT_PORTS, Node, Shape, Site
from steer.plan import Ablated, Clean, Edit, Plan, Put, Rebuild, Recorded, Run, Swapped, make_plan, make_run
from steer.recipe import (
    AblateOnlyOne,
    AblateSet,
    AnswerMeasure,
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
    keys: dict[tuple[Key, Any], Key] = field(default_factory=dict)  # (list, thing) -> the entry that named the thing

    def fault(self, key: Key, text: str, thing: Any = None) -> None:
        """Note a fault, at the entry of a list that named the thing, if one is given."""
        self.faults.append((self.keys.get((key, thing), key), text))

    def each(self, key: Key, texts: Iterable[str], read: Callable[[str], list[T]]) -> list[T]:
        """Read every name of a list, each thing once, noting the names that cannot be read."""
        found: list[T] = []
        for number, text in enumerate(texts):
            try:
                things = read(text)
            except SteerError as error:
                self.faults += [((*key, number), fault) for fault in error.faults]
                continue
            found += things
            self.keys |= {(key, thing): (*key, number) for thing in things}
        return list(dict.fromkeys(found))

    def nodes(self, key: Key, texts: Iterable[str]) -> list[Node]:
        return self.each(key, texts, self.shape.expand_nodes)

    def heads(self, key: Key, texts: Iterable[str]) -> list[Node]:
        return self.each(key, texts, self.shape.expand_heads)

    def sites(self, key: Key, texts: Iterable[str]) -> list[Site]:
        return self.each(key, texts, self.shape.expand_sites)

    def ports(self, key: Key, texts: Iterable[str]) -> list[Site]:
        """q, k or v of one or more heads (`enc-self-0.*.v`), or an MLP (`enc-mlp-1`)."""
        return self.each(key, texts, self._ports)

    def _ports(self, text: str) -> list[Site]:
        mlps = [Site(node) for node in self.shape.mlps if fnmatchcase(str(node), text.strip().lower())]
        if mlps:
            return mlps
        head, _, port = text.strip().rpartition(".")
        if port.lower() not in INPUT_PORTS:
            raise SteerError(
                f"{text!r} must end in .q, .k or .v (or be an MLP): paths are patched into what a head reads"
            )
        return [Site(node, port.lower()) for node in self.shape.expand_heads(head)]

    def link(self, number: int, text: str) -> Site | None:
        """One port of a chain: a head by its name, no glob."""
        try:
            found = self._ports(text)
        except SteerError as error:
            self.faults += [(("chain", number), fault) for fault in error.faults]
            return None
        if len(found) > 1:
            self.fault(("chain", number), f"{text!r} stands for {len(found)} ports; a chain's link is one head's")
        return found[0] if len(found) == 1 else None


def lower(recipe: Recipe, shape: Shape) -> Plan:
    context = Context(shape)
    reads = [*_measured_sites(recipe, context), *context.sites(("tensors",), recipe.tensors)]
    freeze = [Put(site, Clean()) for site in context.sites(("freeze",), recipe.freeze)]
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
    _check_freeze(context, freeze, runs)
    if context.faults:
        raise LoweringError(context.faults)
    return make_plan(shape, reads, runs, clean)


def name_faults(data: Any, shape: Shape) -> list[tuple[Key, str]]:
    """The names in a recipe's raw data that the model does not have: for files that fail the schema as well."""
    context = Context(shape)
    if not isinstance(data, dict):
        return []
    ports, nodes, sites = context.ports, context.nodes, context.sites
    readers = {"target": ports, "ports": ports, "chain": ports, "sources": nodes, "nodes": nodes}
    for key, read in (readers | {"freeze": sites, "tensors": sites}).items():
        read((key,), _texts(data.get(key)))
    measures = data.get("measures")
    for number, measure in enumerate(measures if isinstance(measures, list) else []):
        if isinstance(measure, dict):
            context.heads(("measures", number, "heads"), _texts(measure.get("heads")))
    return context.faults


def _texts(value: Any) -> list[str]:
    listed = value if isinstance(value, list) else [value]
    return [text for text in listed if isinstance(text, str)]


def _measured_sites(recipe: Recipe, context: Context) -> list[Site]:
    sites: list[Site] = []
    for number, measure in enumerate(recipe.measures):
        key: Key = ("measures", number)
        if measure.against == "counterfactual" and not isinstance(recipe, PositionSwap):
            context.fault((*key, "against"), "only a position-swap has a counterfactual answer")
        match measure:
            case AttributionMeasure():
                sites += _attributed(measure, context, (*key, "components"))
            case AttentionMeasure():
                sites += _attended(measure, context, (*key, "heads"))
            case AnswerMeasure():
                _check_answers(measure, context, key)
                sites.append(LOGITS)
    return list(dict.fromkeys(sites))


def _attributed(measure: AttributionMeasure, context: Context, key: Key) -> list[Site]:
    for node in context.nodes(key, measure.components):
        if node.stack != "dec":
            context.fault(key, f"{node}: only the decoder writes into the stream that the logits read", node)
    return attribution_sites(context.shape)


def _attended(measure: AttentionMeasure, context: Context, key: Key) -> list[Site]:
    heads = context.heads(key, measure.heads)
    for node in heads:
        if node.kind != "dec-cross":
            context.fault(key, f"{node}: attention is measured on dec-cross heads, which look at the prompt", node)
    return [Site(node, "pattern") for node in heads]


def _check_answers(measure: AnswerMeasure, context: Context, key: Key) -> None:
    if measure.name == "token-accuracy" and measure.decoding == "greedy":
        context.fault((*key, "decoding"), "token-accuracy is of next tokens given the right ones: use decoding: forced")
    if measure.against == "counterfactual" and measure.decoding == "forced":
        text = "a counterfactual answer must be the model's own: use exact-match with decoding: greedy"
        context.fault((*key, "decoding"), text)


def attribution_sites(shape: Shape) -> list[Site]:
    """What logit attribution reads: every write into the decoder's stream, and the stream at its end."""
    writers = [node for node in shape.writers if node.stack == "dec"]
    final = Site(Node("dec-resid", shape.decoder_layers - 1), "post")
    return [*(Site(node, "z" if node.is_head else None) for node in writers), final]


def _one_at_a_time(
    recipe: KeepOnlyOne | AblateOnlyOne, context: Context, freeze: list[Put], reads: list[Site]
) -> list[Run]:
    targets, sources = context.ports(("target",), recipe.target), context.nodes(("sources",), recipe.sources)
    _check_direct(context, sources, targets)
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
    sources = context.nodes(("sources",), recipe.sources)
    links = [link for number, text in enumerate(recipe.chain) if (link := context.link(number, text))]
    if not context.faults:
        _check_direct(context, sources, links[:1])
        for number, (one, two) in enumerate(pairwise(links)):
            _check_direct(context, [one.node], [two], ("chain", number + 1))
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
        written = Site(link.node, "z" if link.node.is_head else None)
        runs.append(make_run(context.shape, name, [*freeze, edit], [written]))
        edit = Rebuild(after, recipe.others, ((link.node, Recorded(name)),))
    return [*runs, make_run(context.shape, f"{label} -> {links[-1]}", [*freeze, edit], reads, label)]


def _swap(recipe: PositionSwap, context: Context, freeze: list[Put], reads: list[Site]) -> list[Run]:
    ports = context.ports(("ports",), recipe.ports)
    first, second = recipe.tokens
    if {first, second} != {1, 3}:
        context.fault(("tokens",), "must be 1 and 3: the arguments of a question of two stand there")
    if recipe.episodes.arity != 2:
        context.fault(("episodes", "arity"), "a swap needs questions of two arguments: set episodes.arity to 2")
    change = (Node("enc.pos"), Swapped(first, second))
    for port in ports:
        if Node("enc.pos") not in context.shape.sources(port):
            context.fault(("ports",), f"{port} does not read the prompt's positions", port)
    if context.faults:
        return []
    # A port in a later block than the first reads a stream that the earlier ports have changed already.
    earliest = min(context.shape.steps.index(project_step(port)) for port in ports)
    edits: list[Edit] = list(freeze)
    for port in ports:
        later = context.shape.steps.index(project_step(port)) > earliest
        edits.append(Rebuild(port, "current" if later else "clean", (change,), recipe.places))
    return [make_run(context.shape, AFTER, edits, reads, AFTER)]


def project_step(port: Site) -> str:
    """The step that computes a port from its stream."""
    return f"{port.path.rpartition('.')[0]}.project"


def _set(recipe: AblateSet | KeepSet, context: Context, freeze: list[Put], reads: list[Site]) -> list[Run]:
    named = context.nodes(("nodes",), recipe.nodes)
    if isinstance(recipe, KeepSet):
        mlps = context.shape.mlps
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


def _check_direct(context: Context, sources: list[Node], targets: list[Site], key: Key = ("sources",)) -> None:
    for target in targets:
        direct = context.shape.sources(target)
        kinds = dict.fromkeys(str(node) if node.layer is None else f"{node.kind}-{node.layer}" for node in direct)
        for source in sources:
            if source not in direct:
                text = f"{source} does not feed {target} directly; its direct sources are {', '.join(kinds) or 'none'}"
                context.fault(key, text, source)


def _check_freeze(context: Context, freeze: list[Put], runs: list[Run]) -> None:
    """A site cannot be held at its clean value and edited as well."""
    edited = {edit.site for run in runs for edit in run.edits if edit not in freeze}
    for put in freeze:
        if put.site in edited:
            context.fault(("freeze",), f"{put.site} is frozen and edited in one recipe", put.site)
