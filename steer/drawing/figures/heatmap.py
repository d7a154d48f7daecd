"""Heat maps of experiments that go from site to site: layer by head, or site by place with the tokens that stand there.

White is the clean number, red lies above it, blue below, on one scale for all panels of a picture; the colour bar says
where the other end lies. Grey cells have no number: nothing that is done there can change what is measured. Of a logit
lens, which changes nothing, there is a picture for each condition, from light (zero) to dark.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colorbar import Colorbar
from matplotlib.colors import Colormap, Normalize
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from steer.anatomy.nodes import Site, parse_site
from steer.drawing.figures.theme import COLUMN, HEAT, INK, new_figure, short, title
from steer.results.details import PlaceTokens
from steer.results.result import Result
from steer.results.rows import Row, shared_warnings, swept_names

CELL = 0.17  # inches
EMPTY = "#dddddd"
Cells = dict[tuple[str, str], float]  # (line, column) -> value


@dataclass(frozen=True)
class Panel:
    """One map. Lines and columns are called as recipes name them."""

    name: str
    lines: tuple[str, ...]
    columns: tuple[str, ...]
    across: str  # what the columns are
    cells: Cells

    @property
    def values(self) -> np.ndarray:
        rows = [[self.cells.get((line, column), np.nan) for column in self.columns] for line in self.lines]
        return np.array(rows, dtype=float)


def series(rows: Sequence[Row]) -> dict[tuple[str, ...], list[Row]]:
    """The rows by what they count, at each point of a sweep: a picture each."""
    lines: dict[tuple[str, ...], list[Row]] = {}
    swept = swept_names(rows)
    for row in rows:
        point = tuple(f"{name} {row.level(name)}" for name in swept)
        if is_lens(row):
            lines.setdefault((row.measure, row.condition, row.against, *point), []).append(row)
        elif row.position is None:
            lines.setdefault((row.measure, row.of, row.against, row.decoding, *point), []).append(row)
    return {key: mine for key, mine in lines.items() if any(row.site for row in mine)}


def is_lens(row: Row) -> bool:
    """Is the number of the site itself, and not of what is done there?"""
    return bool(row.site) and row.of == row.site


def heatmaps(result: Result) -> Iterator[tuple[str, Result]]:
    """The name of each picture, and the rows that it shows."""
    for number, (key, rows) in enumerate(series(result.rows).items()):
        words = (re.sub(r"[^\w.-]+", "-", word) for word in key if word)  # part of a file's name
        name = "heatmap" if number == 0 else "-".join(["heatmap", *words])
        yield name, replace(result, rows=rows)


def draw_heatmap(result: Result) -> Figure:
    """All panels of one measure, under one another."""
    rows = result.rows
    panels = make_panels(rows, {site: one.tokens for one in result.of_kind(PlaceTokens) for site in one.sites})
    scale = scale_of(rows)
    heights = [CELL * len(panel.lines) + 0.4 + 0.05 * _letters(panel) for panel in panels]
    letters = max(len(line) for panel in panels for line in panel.lines)
    width = CELL * max(len(panel.columns) for panel in panels) + 0.06 * letters + 1.3
    figure = new_figure(max(COLUMN, width), sum(heights) + 0.75)
    grid = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights)[:, 0]
    widest = max(len(panel.columns) for panel in panels)  # cells of one size, whatever a panel holds
    colours = HEAT if is_lens(rows[0]) else _diverging()
    images = [_fill(axes, panel, scale, widest, colours) for axes, panel in zip(grid, panels, strict=True)]
    bar = figure.colorbar(images[0], ax=list(grid), shrink=min(1.0, 1.6 / sum(heights)), aspect=14)
    _mark_ends(bar, rows)
    warned = [replace(rows[0], warning=text) for text in shared_warnings(rows)]  # of a single cell the table tells
    count = result.provenance.examples
    where = f"{count:,} example{'s' * (count > 1)}; "
    where += rows[0].condition if is_lens(rows[0]) else f"white: {_end(rows, 'nothing').condition}"
    sweep = result.provenance.recipe.get("sweep") or {}
    swept = [name for name in swept_names(rows) if name.removesuffix(" (swept)") in sweep]
    where += "".join(f", {name} {rows[0].level(name)}" for name in swept)
    title(figure, replace(result, rows=warned), where)
    return figure


def _letters(panel: Panel) -> int:
    """Of the longest name under a panel, where names stand upright."""
    return max(map(len, panel.columns)) if panel.across == "place" else 1


def scale_of(rows: Sequence[Row]) -> Normalize:
    """As far to each side of the clean number as the farthest cell, or the other end, lies."""
    if is_lens(rows[0]):
        return Normalize(0.0, max(row.value for row in rows) or 1.0)
    clean = _end(rows, "nothing").value
    reach = max(abs(row.value - clean) for row in rows) or 1.0
    return Normalize(clean - reach, clean + reach)


def _end(rows: Sequence[Row], end: str) -> Row:
    return next(row for row in rows if row.end == end)


def make_panels(rows: Sequence[Row], tokens: dict[str, tuple[str, ...]]) -> list[Panel]:
    """Sites of one kind and port together: by place, if there are several, else by layer and head."""
    patched = [row for row in rows if row.site]
    by_place = len({row.place for row in patched}) > 1
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in patched:
        site = parse_site(row.site)
        port = "" if by_place and not site.node.is_head else site.port or ""  # points of a stream stand in one map
        groups.setdefault((site.node.kind, port), []).append(row)
    return [_by_place(mine, tokens) if by_place else _by_layer(mine) for mine in groups.values()]


def _by_place(rows: Sequence[Row], tokens: dict[str, tuple[str, ...]]) -> Panel:
    said = tokens.get(rows[0].site, ())

    def column(place: str) -> str:
        return f"{said[int(place) - 1]} {place}" if place.isdecimal() and int(place) <= len(said) else place

    cells = {(row.site, column(row.place)): row.value for row in rows}
    numbered = sorted({int(row.place) for row in rows if row.place.isdecimal()})
    words = dict.fromkeys(row.place for row in rows if not row.place.isdecimal())
    columns = (*(column(str(place)) for place in numbered), *words)
    return Panel(_glob(rows), tuple(dict.fromkeys(row.site for row in rows)), columns, "place", cells)


def _by_layer(rows: Sequence[Row]) -> Panel:
    """A line for each layer, a column for each head; what has no heads has one column."""
    cells, lines, columns = {}, {}, {}  # type: tuple[Cells, dict[str, int], dict[str, int]]
    for row in rows:
        site = parse_site(row.site)
        head = "" if site.node.head is None else str(site.node.head)
        line = _line(site)
        cells[line, head] = row.value
        lines[line], columns[head] = site.node.layer or 0, site.node.head or 0
    across = "head" if any(columns) else ""
    ordered = tuple(sorted(lines, key=lines.__getitem__)), tuple(sorted(columns, key=columns.__getitem__))
    return Panel(_glob(rows), *ordered, across, cells)


def _line(site: Site) -> str:
    """All sites of a line, as a recipe names them: `dec-cross-1.*.z`."""
    if site.node.head is None:
        return str(site)
    return f"{site.node.kind}-{site.node.layer}.*" + (f".{site.port}" if site.port else "")


def _glob(rows: Sequence[Row]) -> str:
    """All sites of a panel, as a recipe names them: `dec-cross-*.*.z`."""
    site = parse_site(rows[0].site)
    if site.node.layer is None:
        return str(site)
    heads = "" if site.node.head is None else ".*"
    ports = {parse_site(row.site).port for row in rows}
    port = f".{site.port if len(ports) == 1 else '*'}" if site.port else ""
    return f"{site.node.kind}-*{heads}{port}"


def _diverging() -> Colormap:
    import seaborn as sns  # for this figure alone: it takes longer to load than most figures to draw

    colours: Colormap = sns.color_palette("vlag", as_cmap=True)
    return colours


def _fill(axes: Axes, panel: Panel, scale: Normalize, widest: int, colours: Colormap) -> AxesImage:
    image = axes.imshow(
        panel.values, cmap=colours.with_extremes(bad=EMPTY), norm=scale, aspect="equal", interpolation="nearest"
    )
    axes.set_yticks(range(len(panel.lines)), [short(line) for line in panel.lines])
    axes.set_xticks(range(len(panel.columns)), [short(column, 16) for column in panel.columns])
    axes.tick_params(length=0, labelsize=6, pad=1)
    axes.tick_params(axis="x", labelrotation=90 if panel.across == "place" else 0)
    axes.set_title(panel.name, fontsize=7, loc="left")
    axes.set_xlabel(panel.across, fontsize=6, loc="left")
    axes.set_xlim(-0.5, widest - 0.5)
    axes.hlines(np.arange(0.5, len(panel.lines) - 1), -0.5, len(panel.columns) - 0.5, color="white", linewidth=0.5)
    axes.vlines(np.arange(0.5, len(panel.columns) - 1), -0.5, len(panel.lines) - 0.5, color="white", linewidth=0.5)
    axes.spines[:].set_visible(False)
    return image


def _mark_ends(bar: Colorbar, rows: Sequence[Row]) -> None:
    """The measure's name, and where the ends of the scale lie."""
    first = rows[0]
    against = f"\n(against {first.against})" if first.against not in ("", "answer") else ""
    bar.set_label(
        f"{first.measure.replace('-', ' ')}{against}" + (f" of {first.of}" if first.of and not is_lens(first) else ""),
        fontsize=6,
    )
    if first.unit == "share":
        bar.ax.yaxis.set_major_formatter("{x:.0%}")
    for row in rows:
        if row.end:
            bar.ax.axhline(row.value, color=INK, linewidth=1.0)
            bar.ax.text(-0.15, row.value, short(row.condition, 18), transform=bar.ax.get_yaxis_transform(),
                        ha="right", va="center", fontsize=5)  # fmt: skip
    bar.ax.tick_params(labelsize=6, length=2)
    values = [row.value for row in rows]
    if min(values) < max(values):  # the part of the scale that there is something on
        bar.ax.set_ylim(min(values), max(values))
