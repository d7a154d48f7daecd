"""One look for all figures, set inside a context, so that importing steer does not change the user's settings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from textwrap import fill

import matplotlib as mpl
import seaborn as sns
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from steer.base.files import write_atomically
from steer.results.result import Result
from steer.tasks import TASKS
from steer.tasks.task import Task

COLUMN = 3.4  # inches: one column of a two-column paper
WIDEST, TALLEST = 40, 150  # inches: enough for a sheet of every head, and small enough for memory
LINES, LINE = 4, 0.13  # of a title, at most; and the height of one in inches
INK, ACCENT, STRICT, MUTED = "#222222", "#0173b2", "#d55e00", "#949494"  # from seaborn's colour-blind palette
SEEN = ("checkpoint=", "episodes.count=")  # changes that the title shows anyway
FORMATS = ("png", "pdf", "svg")
SETTINGS = {
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
}


def task_of(result: Result) -> Task:
    """The task that a result is about."""
    return TASKS[result.provenance.task]


@contextmanager
def theme() -> Iterator[None]:
    with mpl.rc_context():
        sns.set_theme(context="paper", style="ticks", palette="colorblind", rc=SETTINGS)
        yield


def new_figure(width: float, height: float) -> Figure:
    """A figure that needs no screen and leaves pyplot's global state alone."""
    figure = Figure(figsize=(min(width, WIDEST), min(height, TALLEST)), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def title(figure: Figure, result: Result, where: str = "") -> None:
    """What is shown, on which checkpoint and how many episodes (or on what `where` says)."""
    origin = result.provenance
    width = int(19 * figure.get_figwidth())  # letters of this size in a line
    text = _lines(origin.description or origin.name, width)
    where = where or f"{origin.examples:,} episodes, 95 % intervals"
    below = [f"{origin.checkpoint.name}, {where}", *filter(None, (origin.checkpoint.numbering,))]
    changes = [change for change in origin.changes if not change.startswith(SEEN)]
    below += [f"changed: {', '.join(changes)}"] if changes else []
    below += dict.fromkeys(f"Warning: {row.warning}" for row in result.rows if row.warning)
    lines = "\n".join(_lines(line, width) for line in below)
    more = f"{text}{lines}".count("\n")  # than the two lines that every figure has room for
    figure.set_figheight(figure.get_figheight() + LINE * more)
    figure.suptitle(f"{text}\n{lines}", fontsize=7, x=0.02, ha="left")


def _lines(text: str, width: int) -> str:
    return fill(text, width, break_on_hyphens=False, max_lines=LINES, placeholder=" …")


def short(text: str, most: int = 34) -> str:
    """A name for an axis: on one line, and cut if it is too long."""
    words = " ".join(text.split())
    return words if len(words) <= most else f"{words[: most - 1]}…"


def picture_files(folder: Path, name: str) -> list[Path]:
    return [folder / f"{name}.{suffix}" for suffix in FORMATS]


def save_figure(figure: Figure, folder: Path, name: str) -> Path:
    """Write PNG, PDF and SVG, with one layout for all three. Returns the path of the PNG."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for suffix in FORMATS:
        dated = {"Date": None} if suffix == "svg" else {"CreationDate": None} if suffix == "pdf" else {}
        drawn = BytesIO()
        figure.savefig(drawn, format=suffix, dpi=300, metadata=dated)
        write_atomically(folder / f"{name}.{suffix}", drawn.getvalue())
    return folder / f"{name}.png"
