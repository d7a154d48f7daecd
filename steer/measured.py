"""What the measures of a recipe read, and whether they make sense for it."""

from __future__ import annotations

from steer.names import Node, Shape, Site
from steer.recipe import (
    AlignmentMeasure,
    AnswerMeasure,
    AttentionMeasure,
    AttributionMeasure,
    PatternMeasure,
    PositionSwap,
    Recipe,
    RSquaredMeasure,
    Steer,
)
from steer.resolve import Context, Key

# Figures that draw one measure alone.
FIGURE_OF = {
    "scatter": "r-squared",
    "patterns": "attention-pattern",
    "histogram": "ov-alignment",
    "rates": "exact-match",
}
LOGITS = Site(Node("logits"))
MEMORY = Site(Node("enc.memory"))


def measured_sites(recipe: Recipe, context: Context) -> list[Site]:
    sites: list[Site] = []
    for number, measure in enumerate(recipe.measures):
        key: Key = ("measures", number)
        if measure.against != "answer" and not isinstance(recipe, PositionSwap | Steer):
            context.fault((*key, "against"), "only a position-swap or a steer has a counterfactual answer")
        if isinstance(measure, AttentionMeasure) and measure.against != "answer" and _other_length(recipe):
            text = "another function's answer may be of another length, so there is no step by step to hold it against"
            context.fault((*key, "against"), text)
        match measure:
            case AttributionMeasure():
                sites += _attributed(measure, context, (*key, "components"))
            case AttentionMeasure():
                sites += _attended(measure, context, (*key, "heads"))
            case AnswerMeasure():
                _check_answers(measure, context, key)
                sites.append(LOGITS)
            case PatternMeasure():
                sites += [Site(node, "pattern") for node in context.heads((*key, "heads"), measure.heads)]
            case AlignmentMeasure():
                _crossing(context, measure.heads, (*key, "heads"), "copying from the prompt")
                sites.append(MEMORY)
            case RSquaredMeasure():
                sites += _represented(measure, context, key)
    return list(dict.fromkeys(sites))


def check_figures(recipe: Recipe, context: Context) -> None:
    """A figure of what is not measured would be left out without a word."""
    measured = {measure.name for measure in recipe.measures}
    for number, figure in enumerate(recipe.figure):
        needed = FIGURE_OF.get(figure)
        if needed and needed not in measured:
            context.fault(("figure", number), f"{figure} draws {needed}, which is not among the measures")


def _other_length(recipe: Recipe) -> bool:
    return isinstance(recipe, Steer) and recipe.variable == "function"


def _attributed(measure: AttributionMeasure, context: Context, key: Key) -> list[Site]:
    for node in context.nodes(key, measure.components):
        if node.stack != "dec":
            context.fault(key, f"{node}: only the decoder writes into the stream that the logits read", node)
    return attribution_sites(context.shape)


def _attended(measure: AttentionMeasure, context: Context, key: Key) -> list[Site]:
    return [Site(node, "pattern") for node in _crossing(context, measure.heads, key, "attention")]


def _crossing(context: Context, names: tuple[str, ...], key: Key, what: str) -> list[Node]:
    heads = context.heads(key, names)
    for node in heads:
        if node.kind != "dec-cross":
            context.fault(key, f"{node}: {what} is measured on dec-cross heads, which look at the prompt", node)
    return heads


def _represented(measure: RSquaredMeasure, context: Context, key: Key) -> list[Site]:
    if (measure.label == "relative-index") != (measure.tokens == "steps"):
        text = "relative-index is of steps; index-in-question is of symbols or colours"
        context.fault((*key, "tokens"), text)
    site = context.site((*key, "site"), measure.site)
    if site is None:
        return []
    if site.port in ("scores", "pattern"):
        context.fault((*key, "site"), f"{site} is between tokens; R² is of activations, one vector a token")
    elif of_prompt(site) != (measure.tokens != "steps"):
        where = "prompt" if of_prompt(site) else "decoder"
        context.fault((*key, "tokens"), f"{site} has its values at the {where}'s tokens, not at {measure.tokens}")
    return [site]


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
