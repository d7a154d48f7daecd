"""Things as they look in a notebook's cell: a table, and the figure that belongs to it."""

from __future__ import annotations

from base64 import b64encode
from html import escape

from steer.base.shown import Card, Shown
from steer.results.circuit import Circuit
from steer.results.details import Pattern
from steer.results.result import Result

LINES = 40  # of a table; a notebook's cell is no place for more
DOTS = 110  # an inch


def html(thing: Shown) -> str:
    card = thing.card()
    return "\n".join(filter(None, (*_parts(card), *_figures(thing))))


def _parts(card: Card) -> list[str]:
    parts = [f"<p><b>{escape(card.title)}</b></p>"]
    if card.pairs:
        parts.append(_table([(f"<b>{escape(name)}</b>", escape(value)) for name, value in card.pairs]))
    if card.rows:
        head = "".join(f"<th>{escape(column)}</th>" for column in card.columns)
        shown = [tuple(map(escape, row)) for row in card.rows[:LINES]]
        parts.append(_table(shown, f"<thead><tr>{head}</tr></thead>"))
        more = len(card.rows) - LINES
        parts += [f"<p>and {more} more</p>"] if more > 0 else []
    if card.text:
        parts.append(f"<pre>{escape(card.text)}</pre>")
    return parts


def _table(rows: list[tuple[str, ...]], head: str = "") -> str:
    body = "".join("<tr>" + "".join(f'<td style="text-align:left">{c}</td>' for c in row) + "</tr>" for row in rows)
    return f"<table>{head}<tbody>{body}</tbody></table>"


def _figures(thing: Shown) -> list[str]:
    """The pictures, each as part of the page; none where nothing can be drawn."""
    from steer.drawing.figures.cells import drawn_for

    if not isinstance(thing, Result | Circuit | Pattern) and not hasattr(thing, "patterns"):
        return []
    return [f'<img src="data:image/png;base64,{b64encode(png).decode()}">' for png in drawn_for(thing, DOTS)]
