"""Tables as text, laid out by rich: fitted to the width of a terminal, and as wide as needed elsewhere.

Nothing is cut off: on a narrow terminal a cell is folded into several lines.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from io import StringIO
from pathlib import Path
from types import MappingProxyType

from rich.console import Console
from rich.table import Table
from rich.text import Text

from steer.results.compare import HOW, Comparison, Difference
from steer.results.details import Pattern
from steer.results.result import Result
from steer.results.rows import Row, measure_names, number, overall, own_warning, shared_warnings, swept_names

WIDEST = 100_000  # columns, if the output is not a terminal
EDITED = 12  # sites that fit on a line
# Kinds whose conditions have names, not sites.
NAMED = ("steer", "position-swap", "chained-swap", "intervene", "compare", "ablate-set")


def render(*parts: Table | str) -> str:
    """Tables and lines as one text for the standard output."""
    terminal = sys.stdout.isatty()
    width = Console().width if terminal else WIDEST
    text = StringIO()
    console = Console(file=text, width=width, force_terminal=terminal, highlight=False, markup=False, emoji=False)
    for part in parts:
        console.print(Text(part) if isinstance(part, str) else part, soft_wrap=isinstance(part, str))
    return "\n".join(line.rstrip() for line in text.getvalue().rstrip("\n").split("\n"))


def make_table(titles: Sequence[str], lines: Iterable[Sequence[str]], right: Sequence[str] = ()) -> Table:
    """A table of these lines, without columns that are empty everywhere. `right`: titles of right-aligned columns."""
    lines = list(lines)
    filled = [n for n in range(len(titles)) if any(line[n] for line in lines)]
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold", show_header=any(titles))
    for column in filled:
        side = "right" if titles[column] in right else "left"
        table.add_column(Text(titles[column]), justify=side, overflow="fold")  # type: ignore[arg-type]
    for line in lines:
        table.add_row(*(Text(line[column]) for column in filled))
    return table


def pairs(lines: Iterable[tuple[str, str]]) -> Table:
    """Names and what belongs to them, without a header."""
    return make_table(("", ""), lines)


def interval(low: float, high: float, unit: str = "share") -> str:
    return f"{number(low, unit)} to {number(high, unit)}"


def row_table(rows: Sequence[Row], positions: bool = False, played: Mapping[str, str] = MappingProxyType({})) -> Table:
    """The rows over all positions; with `positions`, also those of each position. `played`: heads with their roles."""
    titles = ("condition", "measure", "of", "against", "position", "value", "95 % interval", "by chance", "warning")
    shown, shared = rows if positions else overall(rows), shared_warnings(rows)
    swept, name = swept_names(rows), measure_names(rows)
    lines = (("", *(str(row.level(one)) for one in swept), *_cells(row, name(row), shared, played)) for row in shown)
    return make_table(("", *swept, *titles), lines, ("position", "value", *swept))


def _cells(row: Row, measure: str, shared: Sequence[str], played: Mapping[str, str]) -> tuple[str, ...]:
    place = "" if row.position is None else str(row.position)
    chance = "" if row.chance is None else f"{row.chance:.3f} (at {row.tokens})"
    numbers = number(row.value, row.unit), interval(row.low, row.high, row.unit)
    condition, of = (f"{name} {played.get(name, '')}".rstrip() for name in (row.condition, row.of))
    return (condition, measure, of, row.against, place, *numbers, chance, own_warning(row, shared))


def result_text(name: str, result: Result, pictures: Sequence[Path], known: bool) -> str:
    """One result as text: its table, what was edited, and where it was written."""
    origin = result.provenance
    fit = f"{origin.examples:,} episodes"
    if origin.examples < origin.wanted:
        fit += f" (all that fit; {origin.wanted:,} asked for)"
    state = "already known" if known else f"{origin.seconds:.1f} s"
    parts: list[Table | str] = [f"{name} on {origin.checkpoint.name}, {fit}: {result.folder} ({state})"]
    parts += [*filter(None, (origin.checkpoint.numbering,)), ""]
    parts += [row_table(result.rows, "positions" in origin.figures, origin.played), ""] if result.rows else []
    parts += [f"warning: {text}" for text in shared_warnings(result.rows)]
    parts += [f"ablated: {origin.ablation}"] if origin.ablation else []
    parts += [f"edited in {condition!r}: {', '.join(sites)}" for condition, sites in _edited(result).items()]
    return render(*parts, *(f"picture: {path}" for path in pictures))


def _edited(result: Result) -> dict[str, tuple[str, ...]]:
    """Edited sites that a condition's name leaves out."""
    origin, ends = result.provenance, {row.condition for row in result.rows if row.end}
    return {
        condition: sites
        for condition, sites in origin.edited.items()
        if origin.kind in NAMED
        and condition not in ends
        and 0 < len(sites) <= EDITED
        and condition not in " ".join(sites)
    }


def listing_table(lines: Iterable[Sequence[str]]) -> Table:
    """What lies in a folder of results."""
    return make_table(("recipe", "changes", "checkpoint", "episodes", "date", "folder"), lines, ("episodes",))


def comparison_parts(made: Comparison, positions: bool = False) -> list[Table | str]:
    """Two results side by side: a line for each number that both have."""
    titles = ("condition", "measure", "of", "against", "position", "first", "second", "difference", "95 % interval", "")
    shown = [one for one in made.differences if positions or one.first.position is None]
    name = measure_names(one.first for one in shown)
    table = make_table(
        titles,
        (_difference_cells(one, name(one.first)) for one in shown),
        ("position", "first", "second", "difference"),
    )
    below = [
        f"{len(rows)} rows only in the {which}"
        for which, rows in zip(("first", "second"), made.only, strict=True)
        if rows
    ]
    head = [f"first: {made.names[0]}", f"second: {made.names[1]}", HOW[made.pairing], ""]
    return [*head, table, *([""] if below else []), *below]


def _difference_cells(one: Difference, measure: str) -> tuple[str, ...]:
    condition, _, of, *numbers = one.cells(measure)
    place = "" if one.first.position is None else str(one.first.position)
    return (condition, measure, of, one.first.against, place, *numbers)


def sheet_text(patterns: Sequence[Pattern]) -> str:
    """For every head how much of its attention is on the right tokens; those that look at them most come first."""
    shares = sorted(((right_share(one), one) for one in patterns), key=lambda pair: -(pair[0] or 0))
    lines = [(one.head, ", ".join(one.roles), "–" if share is None else f"{share:.2f}") for share, one in shares]
    head = f"{patterns[0].prompt}", f"answer: {' '.join(patterns[0].answer)}", ""
    return render(*head, make_table(("head", "role", "attention on right tokens"), lines))


def right_share(pattern: Pattern) -> float | None:
    """The mean attention on what is right to look at, over the queries that have something; None without any."""
    queries = dict.fromkeys(query for query, _ in pattern.right)
    if not queries:
        return None
    return sum(pattern.weights[query][key] for query, key in pattern.right) / len(queries)


def pattern_text(pattern: Pattern, most: int = 4) -> str:
    """For each query, the keys it attends to most (places count from 1)."""
    head = f"{pattern.head} on: {pattern.prompt}", f"answer: {' '.join(pattern.answer)}", ""
    return render(*head, pattern_table(pattern, most))


def pattern_table(pattern: Pattern, most: int = 4) -> Table:
    lines = zip(pattern.queries, pattern.weights, strict=True)
    return make_table(("",) * (1 + most), ([query, *_most(pattern, row, most)] for query, row in lines))


def _most(pattern: Pattern, weights: Sequence[float], most: int) -> list[str]:
    top = sorted(range(len(weights)), key=lambda place: -weights[place])[:most]
    cells = [f"{pattern.keys[place]}@{place + 1} {weights[place]:.2f}" for place in top]
    return cells + [""] * (most - len(cells))
