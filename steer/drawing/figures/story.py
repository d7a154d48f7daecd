"""An intervention at a glance: what is exchanged, where a head then looks, what is written, and how often.

Grey is the model as it is, blue the model with the intervention on: in attention, in answers and in the bars.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import FancyArrowPatch, Rectangle

from steer.drawing.figures.pattern import head_name
from steer.drawing.figures.theme import ACCENT, INK, MUTED, despine, new_figure, pixels, short, task_of, title
from steer.results.details import Pattern, Transcript
from steer.results.result import Result
from steer.results.rows import Row, number, select

WIDTH, LINE, BAR, MORE = (
    7.0,
    0.165,
    0.17,
    0.08,
)  # inches: of a figure, at least; a row of cells; a bar; one of two lines
BESIDE = 0.15  # inches, left free on either side: there the title begins
LETTERS, SMALL, GAP = 7.5, 7, 3.1  # points: of tokens, of headings, and what is free on either side of a token
SEEN = 0.3  # of the attention: a token that gets so much is named again in its cell
BEFORE, MARKED = "before", "#cfe3f1"
SITES, SEVERAL = 4, 2  # as many fit into a heading, beside a bar
TOP, APART = 2.7, 1.6  # rows: above the first lane, and its heading with what is free below it
SAYS = "answer"
SHADES = {True: LinearSegmentedColormap.from_list("with", ["white", ACCENT])}
SHADES |= {False: LinearSegmentedColormap.from_list("without", ["white", "#5a5a5a"])}
NAMES = {"control": "changed in other heads (control)", "ceiling": "changed in the prompt (ceiling)"}
Lane = tuple[str, Pattern, bool]  # heading, attention, with the intervention?


def draw_story(result: Result) -> Figure:
    lanes, rows = _lanes(result), followed(result)
    keys = lanes[0][1].keys
    figure = new_figure(WIDTH, 1.0)
    edges = _edges(figure, keys)
    words = [SAYS, *(f"→ {word}" for _, one, _ in lanes for word in written(result, one))]
    width = edges[-1] + 8 + 1.2 * max(pixels(figure, word, LETTERS) for word in words)  # bold letters are wider
    figure.set_figwidth(max(WIDTH, width / figure.dpi + 2 * BESIDE))
    cast(ConstrainedLayoutEngine, figure.get_layout_engine()).set(w_pad=BESIDE)
    lines = TOP + sum(len(steps(one)) + APART for _, one, _ in lanes)
    two = any("\n" in label for label in _labels(rows, result))
    heights = [LINE * lines, 0.4 + (BAR + MORE * two) * len(rows)]
    figure.set_figheight(sum(heights) + 0.45)
    above, below = figure.subfigures(2, 1, squeeze=False, height_ratios=heights)[:, 0]
    _draw_lanes(above.add_subplot(), result, lanes, edges, width, lines)
    _draw_rates(below.add_subplot(), rows, result)
    title(figure, result)
    return figure


def has_story(result: Result) -> bool:
    """Is there a head that looks at the prompt at each step of the answer, before and after, and a rate?"""
    return len(_panels(result)) == 2 and bool(followed(result))


def followed(result: Result) -> list[Row]:
    """How many answers are the predicted one, by condition."""
    return select(result.rows, measure="exact-match", against="counterfactual", position=None)


def steps(pattern: Pattern) -> list[tuple[float, ...]]:
    """The attention with which each token of the answer is written."""
    count = len(pattern.answer)
    return list(pattern.weights[-count - 1 : -1]) if count and pattern.queries[-count:] == pattern.answer else []


def _panels(result: Result) -> list[Pattern]:
    """The first head that attends from the answer: before, and under the condition that is shown."""
    patterns = [one for one in result.of_kind(Pattern) if steps(one)]
    if not patterns:
        return []
    shown = result.provenance.shown or patterns[-1].condition
    mine = [one for one in patterns if (one.head, one.prompt) == (patterns[0].head, patterns[0].prompt)]
    return [one for name in (BEFORE, shown) for one in mine if one.condition == name]


def _lanes(result: Result) -> list[Lane]:
    before, after = _panels(result)
    return [
        (f"before: where {head_name(before)} looks at each step, the right answer fed in", before, False),
        (f"after: {_change(result, after)}", after, True),
    ]


def _change(result: Result, after: Pattern) -> str:
    """What is changed, and where."""
    origin, places = result.provenance, exchanged(result)
    sites = origin.edited.get(after.condition, ())
    roles = [
        f"${name}" for name, heads in origin.roles.items() if {site.rpartition(".")[0] for site in sites} & {*heads}
    ]
    where = ", ".join(sites) if 0 < len(sites) <= SITES else f"{len(sites)} sites"
    where += f" ({', '.join(roles)})" if roles else ""
    if not places:
        return f"{short(after.condition)}, changed at {where}"
    first, second = (after.keys[place - 1] for place in places)
    return f"{first} and {second} exchange their positions as seen by {where}"


def exchanged(result: Result) -> tuple[int, ...]:
    """The places, from 1, of the two tokens that exchange their positions; none for other interventions."""
    recipe, known = result.provenance.recipe, task_of(result).exchange
    if recipe.get("kind") == "position-swap" and recipe.get("tokens"):
        return tuple(recipe["tokens"])
    exchanges = recipe.get("kind") == "position-swap" or recipe.get("by") == "positions"
    return known.places if known and exchanges else ()


def written(result: Result, pattern: Pattern) -> tuple[str, ...]:
    """What the model wrote itself on this prompt, in this condition."""
    mine = (one for one in result.of_kind(Transcript) if one.condition == pattern.condition)
    return next((one.written for one in mine if one.prompt == pattern.prompt), ())


def _edges(figure: Figure, keys: Sequence[str]) -> list[float]:
    """Where each token begins, and the last one ends, in dots: each takes up the room that its letters need."""
    edges = [0.0]
    for key in keys:
        edges.append(edges[-1] + pixels(figure, key, LETTERS) + 2 * GAP * figure.dpi / 72)
    return edges


def _draw_lanes(axes: Axes, result: Result, lanes: list[Lane], edges: list[float], width: float, lines: float) -> None:
    axes.set_axis_off()
    axes.set(xlim=(0, width), ylim=(lines, 0))
    _draw_prompt(axes, lanes[0][1].keys, edges, exchanged(result))
    top = TOP
    axes.text(edges[-1] + 8, top + 0.4, SAYS, fontsize=LETTERS, va="center", weight="bold")
    for heading, pattern, changed in lanes:
        axes.text(0, top + 0.4, heading, fontsize=SMALL, va="center", color=ACCENT if changed else INK, weight="bold")
        _draw_steps(axes, pattern, written(result, pattern), edges, top + 1, changed)
        top += len(steps(pattern)) + APART


def _draw_prompt(axes: Axes, keys: Sequence[str], edges: list[float], places: tuple[int, ...]) -> None:
    for place, key in enumerate(keys):
        middle = (edges[place] + edges[place + 1]) / 2
        marked = place + 1 in places
        if marked:
            axes.add_patch(_box(edges, place, 1.2, MARKED, ACCENT))
        axes.text(middle, 1.72, key, fontsize=LETTERS, ha="center", va="center", weight="bold" if marked else "normal")
    if len(places) == 2:
        ends = [((edges[place - 1] + edges[place]) / 2, 1.15) for place in sorted(places)]
        arrow = FancyArrowPatch(
            *ends, arrowstyle="<|-|>", mutation_scale=7, connectionstyle="arc3,rad=-0.55",
            color=ACCENT, linewidth=1.2, shrinkA=0, shrinkB=0,
        )  # fmt: skip
        axes.add_patch(arrow)


def _box(edges: list[float], place: int, top: float, face: object, edge: str) -> Rectangle:
    size = edges[place + 1] - edges[place], 1
    return Rectangle((edges[place], top), *size, facecolor=face, edgecolor=edge, linewidth=0.5)


def _draw_steps(
    axes: Axes, pattern: Pattern, said: Sequence[str], edges: list[float], top: float, changed: bool
) -> None:
    for step, weights in enumerate(steps(pattern)):
        for place, weight in enumerate(weights):
            axes.add_patch(_box(edges, place, top + step, SHADES[changed](weight), "#dddddd"))
            if weight >= SEEN:
                middle, ink = (edges[place] + edges[place + 1]) / 2, "white" if weight > 0.6 else INK
                text = pattern.keys[place]
                axes.text(middle, top + step + 0.52, text, fontsize=LETTERS - 0.5, color=ink, ha="center", va="center")
    for step, word in enumerate(said):
        axes.text(
            edges[-1] + 8, top + step + 0.52, f"→ {word}", fontsize=LETTERS, va="center", weight="bold",
            color=ACCENT if changed else INK,
        )  # fmt: skip


def _labels(rows: list[Row], result: Result) -> list[str]:
    """Conditions by their names; where several are tried, with the nodes that each edits."""
    tried = [row.condition for row in rows if row.condition not in (BEFORE, *NAMES)]
    sites = {name: result.provenance.edited.get(name, ()) for name in tried if len(tried) > 1}
    nodes = {name: tuple(dict.fromkeys(site.rpartition(".")[0] for site in own)) for name, own in sites.items()}
    where = {name: f"\n{', '.join(own)}" for name, own in nodes.items() if 0 < len(own) <= SEVERAL}
    return [NAMES.get(name, short(name)) + where.get(name, "") for name in (row.condition for row in rows)]


def _draw_rates(axes: Axes, rows: list[Row], result: Result) -> None:
    compared = (BEFORE, *NAMES)
    for place, row in enumerate(rows):
        colour = MUTED if row.condition in compared else ACCENT
        axes.barh(place, row.value, color=colour, height=0.72, linewidth=0)
        axes.hlines(place, row.low, row.high, color=INK, linewidth=0.9)
        axes.text(max(row.value, row.high) + 0.01, place, number(row.value), fontsize=LETTERS, va="center")
    axes.set_yticks(range(len(rows)), _labels(rows, result))
    axes.tick_params(axis="y", length=0, labelsize=LETTERS)
    axes.set(xlim=(0, 1.1), ylim=(len(rows) - 0.4, -0.6), xticks=[])
    what = "exchange" if exchanged(result) else "change"
    heading = f"of {result.provenance.examples:,} such questions: answers that follow the {what}"
    axes.set_title(heading, fontsize=SMALL, loc="left", weight="bold")
    despine(axes, "bottom")
