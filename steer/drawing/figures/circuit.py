"""A circuit as a graph: nodes by layer; an edge's colour is its port, its width its effect."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
from matplotlib.path import Path as Bezier
from matplotlib.text import Text

from steer.anatomy.nodes import parse_node, parse_site
from steer.base.errors import SteerError
from steer.drawing.figures.routes import Box, route
from steer.drawing.figures.theme import (
    ACCENT,
    COLUMN,
    INK,
    MUTED,
    PALETTE,
    despine,
    new_figure,
    save_figure,
    theme,
)
from steer.drawing.look import PLAIN, Look
from steer.results.circuit import Circuit, Edge
from steer.results.evidence import Check, Evidence, Kept

WIDTH, HEIGHT = 1.0, 0.3  # inches that a node and its name take up
APART = 3.0  # dots between an edge and a box that it passes
Place = tuple[float, float]
PORT_COLOURS = {"q": 0, "k": 2, "v": 1, "": 7}  # of the colour-blind palette


def draw_all(circuit: Circuit, folder: Path, look: Look = PLAIN) -> list[Path]:
    """The graph, and the curve where the circuit was judged."""
    pictures = [draw_circuit(circuit, folder, look=look)]
    evidence = circuit.evidence
    if evidence is None or evidence.check is None:
        return pictures
    return [*pictures, draw_curve(circuit.checkpoint.name, evidence, evidence.check, folder, look=look)]


def draw_circuit(circuit: Circuit, folder: Path, name: str = "circuit", look: Look = PLAIN) -> Path:
    with theme():
        return save_figure(circuit_figure(circuit), folder, name, look)


def circuit_figure(circuit: Circuit) -> Figure:
    edges = strongest(circuit)
    rows = layers(circuit, edges)
    width = max(COLUMN * 1.6, 0.9 + WIDTH * max(map(len, rows.values()), default=1))
    figure = new_figure(width, 0.95 + 0.62 * max(len(rows), 2))
    axes = figure.add_subplot()
    places = placed(rows)
    nodes = _draw_nodes(axes, circuit, places)
    axes.set_yticks(range(len(rows)), list(rows))
    axes.set_ylim(-0.5, len(rows) - 0.4)
    half = max((abs(x) for x, _ in places.values()), default=0) + 0.5
    axes.set_xlim(-half - 0.15, half + 0.15)
    axes.set_xticks([])
    axes.set_title(_title(circuit, len(edges)), loc="left", fontsize=6.5)
    despine(figure, "left", "bottom")
    axes.tick_params(length=0)
    _legend(axes)
    boxes = _boxes(figure, nodes)
    for edge in edges:
        _draw_edge(axes, edge, places, boxes)
    return figure


def _boxes(figure: Figure, nodes: dict[str, Text]) -> dict[str, Box]:
    """What each node takes up of the picture, in dots."""
    figure.draw_without_rendering()  # only then the places of the axes are known
    patches = {node: cast(FancyBboxPatch, text.get_bbox_patch()) for node, text in nodes.items()}
    return {node: patch.get_window_extent().extents for node, patch in patches.items()}


def placed(rows: dict[str, list[str]]) -> dict[str, Place]:
    """Blocks from the bottom up, each centred; MLPs stand on the right of them all, out of the way of other paths."""
    aside = max(map(len, rows.values()), default=1) / 2
    return {
        node: (aside if is_mlp(node) else 0.5 + place - len(nodes) / 2, float(number))
        for number, nodes in enumerate(rows.values())
        for place, node in enumerate(nodes)
    }


def is_mlp(node: str) -> bool:
    """What has a layer but no heads."""
    parsed = parse_node(node)
    return parsed.layer is not None and not parsed.is_head


def strongest(circuit: Circuit) -> list[Edge]:
    """Each path once: the strongest of its edges, whichever head they were measured at."""
    paths: dict[tuple[str, str], Edge] = {}
    for edge in circuit.edges:
        key = edge.source, edge.target
        if key not in paths or strength(edge) > strength(paths[key]):
            paths[key] = edge
    return list(paths.values())


def strength(edge: Edge) -> float:
    company = 0.0 if edge.in_company is None else edge.in_company.value
    return max(edge.sufficiency.value, edge.necessity.value, company, 0.0)


def layers(circuit: Circuit, edges: list[Edge]) -> dict[str, list[str]]:
    """The nodes that edges join and the heads they lead to, by their block, in the order of the circuit's members."""
    drawn = {name for edge in edges for name in (edge.source, target_node(edge))}
    drawn |= {*circuit.evidence.traced_from} if circuit.evidence else set()
    if missing := sorted(drawn - {member.node for member in circuit.members}):
        raise SteerError(f"{circuit.checkpoint.name}: not among the circuit's members: {', '.join(missing)}")
    rows: dict[str, list[str]] = {}
    for member in circuit.members:
        if member.node in drawn:
            rows.setdefault(member.block, []).append(member.node)
    return rows


def target_node(edge: Edge) -> str:
    return str(parse_site(edge.target).node)


def _draw_edge(axes: Axes, edge: Edge, places: dict[str, Place], boxes: dict[str, Box]) -> None:
    port = parse_site(edge.target).port or ""
    source, target = places[edge.source], places[target_node(edge)]
    colour = PALETTE[PORT_COLOURS[port]]
    shift = {"q": -0.13, "k": 0.0, "v": 0.13}.get(port, 0.0)
    ends = (source[0], source[1] + 0.17), (target[0] + shift, target[1] - 0.19)
    start, end = axes.transData.transform(ends)
    four = axes.transData.inverted().transform(route(start, end, boxes, {edge.source, target_node(edge)}, APART))
    arrow = FancyArrowPatch(
        path=Bezier(four, [Bezier.MOVETO, *3 * [Bezier.CURVE4]]), arrowstyle="-|>", mutation_scale=6,
        linewidth=0.4 + 3 * min(strength(edge), 1), color=colour, alpha=0.75, shrinkA=0, shrinkB=0, zorder=1,
    )  # fmt: skip
    axes.add_patch(arrow)


def _draw_nodes(axes: Axes, circuit: Circuit, places: dict[str, Place]) -> dict[str, Text]:
    roles = {member.node: member.role for member in circuit.members}
    drawn = {}
    for node, (x, y) in places.items():
        role = roles.get(node)
        text = f"{node}\n{role.replace('-', ' ')}" if role else node
        box = {"boxstyle": "round,pad=0.25", "facecolor": "white", "linewidth": 1.2 if role else 0.6}
        box |= {"edgecolor": INK if role else MUTED}  # colours are ports
        drawn[node] = axes.text(x, y, text, ha="center", va="center", fontsize=5.5, color=INK, bbox=box, zorder=3)
    return drawn


def _title(circuit: Circuit, edges: int) -> str:
    """The title, with the accuracy that the drawn heads keep alone."""
    evidence = circuit.evidence
    into = ", ".join(evidence.traced_from if evidence else ()) or "the output heads"
    lines = [f"{circuit.checkpoint.name}: {edges} traced paths into {into}"]
    if evidence and evidence.check:
        kept = evidence.check.traced_heads
        lines += [f"the {kept.heads} heads on them, alone with all MLPs, keep {_kept(kept.faithfulness)}"]
    return "\n".join(lines)


def _kept(kept: Kept) -> str:
    groups = ", ".join(f"{name} {share.value:.1%}" for name, share in kept.groups.items())
    return f"{kept.value:.1%} of the accuracy" + (f" ({groups})" if groups else "")


def _legend(axes: Axes) -> None:
    for port, label in (("q", "into q"), ("k", "into k"), ("v", "into v"), ("", "into an MLP")):
        axes.plot([], [], color=PALETTE[PORT_COLOURS[port]], linewidth=2, label=label)
    axes.legend(loc="lower right", frameon=False, ncols=4, fontsize=6, bbox_to_anchor=(1.0, -0.06), handlelength=1.2)


def draw_curve(
    checkpoint: str, evidence: Evidence, check: Check, folder: Path, name: str = "curve", look: Look = PLAIN
) -> Path:
    """Accuracy against the number of heads that are kept."""
    curve, smallest = evidence.curve, check.smallest_circuit
    clean = curve[0][1]
    with theme():
        figure = new_figure(COLUMN, 2.3)
        axes = figure.add_subplot()
        axes.plot([size for size, _ in curve], [value for _, value in curve], "-o", color=ACCENT, markersize=2.5, lw=1)
        axes.axhline(0.9 * clean, color=MUTED, linestyle=":", linewidth=0.8)
        axes.annotate(  # at its end, and under it: there the curve has come above it
            "90 % of clean", (1, 0.9 * clean), (0, -2), xycoords=axes.get_yaxis_transform(), textcoords="offset points",
            fontsize=6, color=MUTED, ha="right", va="top",
        )  # fmt: skip
        size, kept, chance = smallest.heads, smallest.faithfulness, smallest.random_circuits
        whole = smallest.clean.value
        axes.errorbar(
            size, kept.value * whole, fmt="s", color=INK, markersize=4, zorder=4, label="faithful set (test)",
            yerr=[[(kept.value - kept.low) * whole], [(kept.high - kept.value) * whole]],
        )  # fmt: skip
        axes.errorbar(
            size, chance.mean * whole, fmt="x", color=MUTED, markersize=5, label="random sets of its size",
            yerr=[[(chance.mean - chance.min) * whole], [(chance.max - chance.mean) * whole]],
        )  # fmt: skip
        axes.set_xlabel("heads kept (all others mean-ablated)")
        axes.set_ylabel("exact match")
        axes.set_ylim(0, 1.02)
        axes.yaxis.set_major_formatter("{x:.0%}")
        axes.legend(frameon=False, loc="center right")
        named = f"{checkpoint}: smallest faithful set, {size} of {curve[0][0]} heads"
        axes.set_title(f"{named}\nkeeps {_kept(kept)}".replace(" (", "\n("), loc="left", fontsize=6)
        despine(figure)
        return save_figure(figure, folder, name, look)
