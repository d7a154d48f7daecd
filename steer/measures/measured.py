"""What the measures of a recipe read, and whether they make sense for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from steer.anatomy.names import Node, Shape, Site
from steer.anatomy.resolve import Context, Key
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
LOGITS = Site(Node("logits"))
MEMORY = Site(Node("enc.memory"))


@dataclass(frozen=True)
class Reads:
    """What one measure reads, and which of it its numbers are made of."""

    all: tuple[Site, ...]
    numbers: tuple[Site, ...]
    rows: tuple[tuple[str, ...], ...]  # the names of its rows: no two measures may give the same


def measured_sites(recipe: Recipe, context: Context) -> list[Reads]:
    """What each measure reads."""
    found: list[Reads] = []
    for number, measure in enumerate(recipe.measures):
        key: Key = ("measures", number)
        if measure.against != "answer" and not isinstance(recipe, PositionSwap | Steer):
            context.fault((*key, "against"), "only a position-swap or a steer has a counterfactual answer")
        if isinstance(measure, AttentionMeasure) and measure.against != "answer" and _other_length(recipe):
            text = "the changed answer may be of another length, so there is no step by step to hold it against"
            context.fault((*key, "against"), text)
        reads = _reads(measure, recipe.task.labels, context, key)
        for row in reads.rows:
            if any(row in before.rows for before in found):
                context.fault(key, f"{' '.join(filter(None, row))} is measured twice")
        found.append(reads)
    return found


def _reads(measure: Measure, labels: Labels, context: Context, key: Key) -> Reads:
    match measure:
        case AttributionMeasure():
            nodes = _attributed(measure, context, (*key, "components"))
            writes = tuple(Site(node, "z" if node.is_head else None) for node in nodes)
            return Reads(tuple(attribution_sites(context.shape)), writes, _rows(measure.name, nodes))
        case AttentionMeasure():
            heads = _crossing(context, measure.heads, (*key, "heads"), "attention")
            return _patterns(heads, _rows(measure.name, heads, measure.against))
        case AnswerMeasure():
            _check_answers(measure, context, key)
            return Reads((LOGITS,), (LOGITS,), ((measure.name, measure.against, measure.decoding),))
        case PatternMeasure():
            heads = context.heads((*key, "heads"), measure.heads)
            return _patterns(heads, _rows(measure.name, heads, f"on episode {measure.episode}"))
        case AlignmentMeasure():
            heads = _crossing(context, measure.heads, (*key, "heads"), "copying from the prompt")
            return Reads((MEMORY,), (MEMORY,), _rows(measure.name, heads))
        case RSquaredMeasure():
            sites = tuple(_represented(measure, labels, context, key))
            return Reads(sites, sites, tuple((measure.name, str(site), measure.tokens) for site in sites))


def _patterns(heads: list[Node], rows: tuple[tuple[str, ...], ...]) -> Reads:
    sites = tuple(Site(node, "pattern") for node in heads)
    return Reads(sites, sites, rows)


def _rows(name: str, nodes: list[Node], how: str = "") -> tuple[tuple[str, ...], ...]:
    return tuple((name, f"of {node}", how) for node in nodes)


def check_figures(recipe: Recipe, context: Context) -> None:
    """A figure of what is not measured would be left out without a word."""
    measured = {measure.name for measure in recipe.measures}
    for number, figure in enumerate(recipe.figure):
        needed = FIGURE_OF.get(figure)
        if needed and needed not in measured:
            context.fault(("figure", number), f"{figure} draws {needed}, which is not among the measures")


def _other_length(recipe: Recipe) -> bool:
    return isinstance(recipe, Steer) and not recipe.task.keeps_length(recipe.variable)


def _attributed(measure: AttributionMeasure, context: Context, key: Key) -> list[Node]:
    nodes = context.nodes(key, measure.components)
    for node in nodes:
        if node.stack != "dec":
            context.fault(key, f"{node}: only the decoder writes into the stream that the logits read", node)
    return nodes


def _crossing(context: Context, names: tuple[str, ...], key: Key, what: str) -> list[Node]:
    heads = context.heads(key, names)
    for node in heads:
        if node.kind != "dec-cross":
            context.fault(key, f"{node}: {what} is measured on dec-cross heads, which look at the prompt", node)
    return heads


def _represented(measure: RSquaredMeasure, labels: Labels, context: Context, key: Key) -> list[Site]:
    if measure.tokens not in labels[measure.label]:
        text = "; ".join(f"{label} is of {' or '.join(tokens)}" for label, tokens in labels.items())
        context.fault((*key, "tokens"), text)
    site = context.site((*key, "site"), measure.site)
    if site is None:
        return []
    if site.port in ("scores", "pattern"):
        context.fault((*key, "site"), f"{site} is between tokens; R² is of activations, one vector a token")
    elif of_prompt(site) != (_sequence(measure.tokens, labels) == PROMPT):
        where = "prompt" if of_prompt(site) else "decoder"
        context.fault((*key, "tokens"), f"{site} has its values at the {where}'s tokens, not at {measure.tokens}")
    return [site]


def _sequence(tokens: str, labels: Labels) -> str:
    """The sequence of the tokens that carry a label."""
    return next(words[tokens] for words in labels.values() if tokens in words)


def of_prompt(site: Site) -> bool:
    """Does a site hold one value for each prompt token? (A cross-attention head's keys and values do.)"""
    return site.node.stack == "enc" or (site.node.kind == "dec-cross" and site.port in ("k", "v"))


def _check_answers(measure: AnswerMeasure, context: Context, key: Key) -> None:
    if measure.name == "token-accuracy" and measure.decoding == "greedy":
        context.fault((*key, "decoding"), "token-accuracy is of next tokens given the right ones: use decoding: forced")
    if measure.against != "answer" and measure.decoding == "forced":
        text = "a counterfactual answer must be the model's own: use exact-match with decoding: greedy"
        context.fault((*key, "decoding"), text)


def attribution_sites(shape: Shape) -> list[Site]:
    """What logit attribution reads: every write into the decoder's stream, and the stream at its end."""
    writers = [node for node in shape.writers if node.stack == "dec"]
    final = Site(Node("dec-resid", shape.decoder_layers - 1), "post")
    return [*(Site(node, "z" if node.is_head else None) for node in writers), final]
