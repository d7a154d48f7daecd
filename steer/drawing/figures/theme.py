"""One look for all figures, set inside a context, so that importing steer does not change the user's settings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from textwrap import fill
from typing import Any

import matplotlib as mpl
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap, to_hex
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties

from steer.base.files import write_atomically
from steer.drawing.look import PLAIN, Look
from steer.results.result import Result
from steer.tasks import TASKS
from steer.tasks.task import Task

COLUMN = 3.4  # inches: one column of a two-column paper
WIDEST, TALLEST = 40, 150  # inches: enough for a sheet of every head, and small enough for memory
LINES, LINE = 4, 0.13  # of a title, at most; and the height of one in inches
SMALL, MARGIN = 7, 0.02  # a title's letters; what is left free beside it, as a share of the width
INK, ACCENT, STRICT, MUTED, RIGHT = (
    "#222222",
    "#0173b2",
    "#cc78bc",
    "#949494",
    "#d55e00",
)  # from seaborn's colour-blind palette
AGAINST = {"counterfactual": "#0173b2", "answer": "#de8f05", "neither": "#949494"}  # what answers are compared with
SEEN = ("checkpoint=", "episodes.count=")  # changes that the title shows anyway
FORMATS = ("png",)  # others on request: each takes as long as the picture itself
PALETTE = (  # seaborn's "colorblind", whose import takes longer than most pictures
    "#0173b2", "#de8f05", "#029e73", "#d55e00", "#cc78bc", "#ca9161", "#fbafe4", "#949494", "#ece133", "#56b4e9",
)  # fmt: skip
HEAT = LinearSegmentedColormap.from_list("attention", [  # light to dark, as seaborn's "mako"
    "#def5e5", "#96ddb5", "#49c1ad", "#359eaa", "#357aa2", "#3c5598", "#3e3469", "#2a1b33", "#0b0405",
])  # fmt: skip
SETTINGS: dict[Any, Any] = {  # seaborn's context "paper" and style "ticks", with smaller letters
    "axes.axisbelow": True,
    "axes.edgecolor": ".15",
    "axes.labelcolor": ".15",
    "axes.linewidth": 1.0,
    "axes.prop_cycle": cycler(color=PALETTE),
    "font.sans-serif": ["Arial", "DejaVu Sans", "Liberation Sans", "Bitstream Vera Sans", "sans-serif"],
    "grid.color": ".8",
    "lines.linewidth": 1.2,
    "lines.markersize": 4.8,
    "lines.solid_capstyle": "round",
    "patch.edgecolor": "w",
    "patch.force_edgecolor": True,
    "patch.linewidth": 0.8,
    "text.color": ".15",
    **{f"{axis}tick.color": ".15" for axis in "xy"},
    **{f"{axis}tick.{what}": size for axis in "xy" for what, size in (
        ("major.size", 4.8), ("major.width", 1.0), ("minor.size", 3.2), ("minor.width", 0.8),
    )},
    "font.size": 8,
    "axes.titlesize": 9,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
    "text.parse_math": False,  # a name may hold a dollar sign
    "svg.hashsalt": "steer",  # the same result gives the same file
}  # fmt: skip


def task_of(result: Result) -> Task:
    """The task that a result is about."""
    return TASKS[result.provenance.task]


@contextmanager
def theme() -> Iterator[None]:
    with mpl.rc_context(SETTINGS):
        yield


def palette(count: int) -> list[str]:
    """As many colours, no two the same: ten that colour-blind readers can tell apart, or as many hues."""
    if count <= len(PALETTE):
        return list(PALETTE[:count])
    import seaborn as sns

    return [to_hex(colour) for colour in sns.color_palette("husl", count)]


def despine(where: Figure | Axes, *also: str) -> None:
    """Take the frame's upper and right side away, and others that are named."""
    for axes in where.axes if isinstance(where, Figure) else (where,):
        for side in ("top", "right", *also):
            axes.spines[side].set_visible(False)


def new_figure(width: float, height: float) -> Figure:
    """A figure that needs no screen and leaves pyplot's global state alone."""
    figure = Figure(figsize=(min(width, WIDEST), min(height, TALLEST)), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def title(figure: Figure, result: Result, where: str = "") -> None:
    """What is shown, on which checkpoint and how many episodes (or on what `where` says)."""
    origin = result.provenance
    text = _fitting(figure, origin.description or origin.name)
    where = where or f"{origin.examples:,} episodes, 95 % intervals"
    below = [f"{origin.checkpoint.name}, {where}", *filter(None, (origin.checkpoint.numbering,))]
    changes = [change for change in origin.changes if not change.startswith(SEEN)]
    below += [f"changed: {', '.join(changes)}"] if changes else []
    below += dict.fromkeys(f"Warning: {row.warning}" for row in result.rows if row.warning)
    lines = "\n".join(_fitting(figure, line) for line in below)
    more = f"{text}{lines}".count("\n")  # than the two lines that every figure has room for
    figure.set_figheight(figure.get_figheight() + LINE * more)
    figure.suptitle(f"{text}\n{lines}", fontsize=SMALL, x=MARGIN, ha="left")


def _fitting(figure: Figure, text: str) -> str:
    """In lines that stay within the figure: a line of wide letters holds fewer of them."""
    letters = int(19 * figure.get_figwidth())
    lines, room = _lines(text, letters), (1 - 2 * MARGIN) * figure.bbox.width
    while letters > 1 and (widest := max(pixels(figure, line) for line in lines.splitlines() or [""])) > room:
        letters = max(int(letters * room / widest), 1)
        lines = _lines(text, letters)
    return lines


def pixels(figure: Figure, line: str, size: float = SMALL) -> float:
    """How wide a line of text is in this figure."""
    renderer = figure.canvas.get_renderer()  # type: ignore[attr-defined]
    return float(renderer.get_text_width_height_descent(line, FontProperties(size=size), False)[0])


def _lines(text: str, width: int) -> str:
    """Lines of like length: no word stands alone in the last one."""
    whole = _filled(text, width)
    count = whole.count("\n")
    narrower = (_filled(text, less) for less in range(width * 2 // 3, width))
    return next((lines for lines in narrower if lines.count("\n") == count and "…" not in lines), whole)


def _filled(text: str, width: int) -> str:
    return fill(text, max(width, 1), break_on_hyphens=False, max_lines=LINES, placeholder=" …")


def short(text: str, most: int = 34) -> str:
    """A name for an axis: on one line, and cut if it is too long."""
    words = " ".join(text.split())
    return words if len(words) <= most else f"{words[: most - 1]}…"


def formats_of(look: Look) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*FORMATS, *look.formats)))


def picture_files(folder: Path, name: str, look: Look = PLAIN) -> list[Path]:
    return [folder / f"{name}.{suffix}" for suffix in formats_of(look)]


def save_figure(figure: Figure, folder: Path, name: str, look: Look = PLAIN) -> Path:
    """Write the PNG, and other files on request, with one layout for all. Returns the path of the PNG."""
    if look.size:
        width, *height = look.size
        figure.set_size_inches(width, height[0] if height else figure.get_figheight())
    if layout := figure.get_layout_engine():
        layout.execute(figure)
    figure.set_layout_engine("none")
    for suffix in formats_of(look):
        write_atomically(folder / f"{name}.{suffix}", rendered(figure, suffix))
    return folder / f"{name}.png"


def rendered(figure: Figure, suffix: str, dots: int = 300) -> bytes:
    """The figure as the content of a file."""
    dated = {"Date": None} if suffix == "svg" else {"CreationDate": None} if suffix == "pdf" else {}
    drawn = BytesIO()
    figure.savefig(drawn, format=suffix, dpi=dots, metadata=dated)
    return drawn.getvalue()
