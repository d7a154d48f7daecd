"""What the measures of a recipe read, and whether they make sense for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from steer.anatomy.keyed import KeyedNames
from steer.anatomy.layout import Layout
from steer.anatomy.nodes import BETWEEN_TOKENS, Node, Site
from steer.base.errors import Key
from steer.recipe.schema import (
    AlignmentMeasure,
    AnswerMeasure,
    AttentionMeasure,
    AttributionMeasure,
    Measure,
    PatternMeasure,
    PositionSwap,
    Recipe,
    RSquaredMeasure,
    Steer,
)
from steer.tasks.task import PROMPT

Labels = Mapping[str, Mapping[str, str]]  # label -> which tokens carry it -> their sequence
# Figures that draw one measure alone.
FIGURE_OF = {
    "scatter": "r-squared",
    "patterns": "attention-pattern",
    "histogram": "ov-alignment",
    "rates": "exact-match",
}


@dataclass(frozen=True)
class Reads:
    """What one measure reads, and which of it its numbers are made of."""

    all: tuple[Site, ...]
    numbers: tuple[Site, ...]
    rows: tuple[tuple[str, ...], ...]  # the names of its rows: no two measures may give the same


def measured_sites(recipe: Recipe, names: KeyedNames) -> list[Reads]:
    """What each measure reads."""
    found: list[Reads] = []
    for number, measure in enumerate(recipe.measures):
        key: Key = ("measures", number)
        if measure.against != "answer" and not isinstance(recipe, PositionSwap | Steer):
            names.fault((*key, "against"), "only a position-swap or a steer has a counterfactual answer")
        if isinstance(measure, AttentionMeasure) and measure.against != "answer" and _other_length(recipe):
            text = "the changed answer may be of another length, so there is no step by step to hold it against"
            names.fault((*key, "against"), text)
        reads = _reads(measure, recipe.task.labels, names, key)
        for row in reads.rows:
            if any(row in before.rows for before in found):
                names.fault(key, f"{' '.join(filter(None, row))} is measured twice")
        found.append(reads)
    return found


def _reads(measure: Measure, labels: Labels, names: KeyedNames, key: Key) -> Reads:
    match measure:
        case AttributionMeasure():
            nodes = _attributed(measure, names, (*key, "components"))
            writes = tuple(map(names.layout.write, nodes))
            return Reads(tuple(attribution_sites(names.layout)), writes, _rows(measure.name, nodes))
        case AttentionMeasure():
            heads = _crossing(names, measure.heads, (*key, "heads"), "attention")
            return _patterns(heads, _rows(measure.name, heads, measure.against))
        case AnswerMeasure():
            _check_answers(measure, names, key)
            logits = (names.layout.logits,)
            return Reads(logits, logits, ((measure.name, measure.against, measure.decoding),))
        case PatternMeasure():
            heads = names.heads((*key, "heads"), measure.heads)
            return _patterns(heads, _rows(measure.name, heads, f"on episode {measure.episode}"))
        case AlignmentMeasure():
            heads = _crossing(names, measure.heads, (*key, "heads"), "copying from the prompt")
            read = tuple(dict.fromkeys(looked_at(names.layout, head) for head in heads))
            return Reads(read, read, _rows(measure.name, heads))
        case RSquaredMeasure():
            sites = tuple(_represented(measure, labels, names, key))
            return Reads(sites, sites, tuple((measure.name, str(site), measure.tokens) for site in sites))


def _patterns(heads: list[Node], rows: tuple[tuple[str, ...], ...]) -> Reads:
    sites = tuple(Site(node, "pattern") for node in heads)
    return Reads(sites, sites, rows)


def _rows(name: str, nodes: list[Node], how: str = "") -> tuple[tuple[str, ...], ...]:
    return tuple((name, f"of {node}", how) for node in nodes)


def check_figures(recipe: Recipe, names: KeyedNames) -> None:
    """A figure of what is not measured would be left out without a word."""
    measured = {measure.name for measure in recipe.measures}
    for number, figure in enumerate(recipe.figure):
        needed = FIGURE_OF.get(figure)
        if needed and needed not in measured:
            names.fault(("figure", number), f"{figure} draws {needed}, which is not among the measures")


def _other_length(recipe: Recipe) -> bool:
    return isinstance(recipe, Steer) and not recipe.task.keeps_length(recipe.variable)


def _attributed(measure: AttributionMeasure, names: KeyedNames, key: Key) -> list[Node]:
    nodes = names.nodes(key, measure.components)
    for node in nodes:
        if not names.layout.reaches_logits(node):
            names.fault(key, f"{node}: only the decoder writes into the stream that the logits read", node)
    return nodes


def _crossing(names: KeyedNames, texts: tuple[str, ...], key: Key, what: str) -> list[Node]:
    heads = names.heads(key, texts)
    for node in heads:
        if not is_crossing(names.layout, node):
            names.fault(key, f"{node}: {what} is measured on dec-cross heads, which look at the prompt", node)
    return heads


def _represented(measure: RSquaredMeasure, labels: Labels, names: KeyedNames, key: Key) -> list[Site]:
    if measure.tokens not in labels[measure.label]:
        text = "; ".join(f"{label} is of {' or '.join(tokens)}" for label, tokens in labels.items())
        names.fault((*key, "tokens"), text)
    site = names.site((*key, "site"), measure.site)
    if site is None:
        return []
    if site.port in BETWEEN_TOKENS:
        names.fault((*key, "site"), f"{site} is between tokens; R² is of activations, one vector a token")
    elif of_prompt(names.layout, site) != (_sequence(measure.tokens, labels) == PROMPT):
        where = "prompt" if of_prompt(names.layout, site) else "decoder"
        names.fault((*key, "tokens"), f"{site} has its values at the {where}'s tokens, not at {measure.tokens}")
    return [site]


def _sequence(tokens: str, labels: Labels) -> str:
    """The sequence of the tokens that carry a label."""
    return next(words[tokens] for words in labels.values() if tokens in words)


def of_prompt(layout: Layout, site: Site) -> bool:
    """Does a site hold one value for each prompt token? (Keys and values of a head that looks there do.)"""
    return layout.sequence(site) == layout.prompt


def is_crossing(layout: Layout, node: Node) -> bool:
    """A head that looks from the answer at the prompt."""
    if not node.is_head:
        return False
    return (layout.sequence(Site(node, "q")), layout.looks_at(node)) == (layout.answer, layout.prompt)


def looked_at(layout: Layout, head: Node) -> Site:
    """What a head's keys and values are made from."""
    stream = layout.reads(Site(head, "v"))
    return next(one.read_as for one in layout.streams if one.name == stream)


def _check_answers(measure: AnswerMeasure, names: KeyedNames, key: Key) -> None:
    if measure.name == "token-accuracy" and measure.decoding == "greedy":
        names.fault((*key, "decoding"), "token-accuracy is of next tokens given the right ones: use decoding: forced")
    if measure.against != "answer" and measure.decoding == "forced":
        text = "a counterfactual answer must be the model's own: use exact-match with decoding: greedy"
        names.fault((*key, "decoding"), text)


def attribution_sites(layout: Layout) -> list[Site]:
    """What logit attribution reads: every write into the stream that the logits read, and that stream at its end."""
    return [*(layout.write(node) for node in layout.nodes if layout.reaches_logits(node)), layout.stream(layout.logits)]
