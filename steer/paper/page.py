"""A reproduction as a page: the table of claims; then each recipe with figure, rows and where they come from."""

from __future__ import annotations

import os
from collections.abc import Sequence
from shlex import quote
from typing import TYPE_CHECKING

from steer.base.shipped import recipe_names
from steer.drawing.page import Line, Page, Section
from steer.paper.verdicts import AS, DIFFERS, OPEN, QUICK, Verdict, tally
from steer.results.circuit import CIRCUIT
from steer.results.files import ROWS
from steer.results.rows import ROW_TITLES, overall, row_lines

if TYPE_CHECKING:
    from steer.experiments.many import Outcome
    from steer.paper.reproduce import Reproduction
    from steer.results.provenance import Provenance

CIRCUIT_SECTION = "circuit"
MARKS = {AS: "same", DIFFERS: "other", OPEN: "open"}  # the colour of a verdict's line


def page_of(made: Reproduction) -> Page:
    """The table of claims and every figure."""
    quick = next((claim.status for claim in made.claims if claim.status.startswith(QUICK)), "")
    how = "Intervals are 95 %, bootstrapped over episodes. Verdicts follow from the numbers by the rule beside them."
    return Page(
        title=" ".join((f"{made.against.title} on {made.checkpoint}", *made.questions)),
        notice=f"A {quick}." if quick else "",
        lead=" ".join(filter(None, (f"{len(made.claims)} claims: {tally(made.claims)}.", how, made.against.note))),
        columns=("Fig.", "claim", made.against.where, "this checkpoint", made.against.rule, "verdict", "recipe"),
        lines=[_line(claim, made) for claim in made.claims],
        sections=[*_circuit_section(made), *(_section(outcome, made) for outcome in made.outcomes)],
        small=made.against.rule,
    )


def _line(claim: Verdict, made: Reproduction) -> Line:
    cells = (claim.figure, claim.claim, claim.paper, claim.here, claim.rule, claim.verdict, claim.recipe)
    shown = {outcome.name: outcome.name for outcome in made.outcomes}
    shown |= {CIRCUIT: CIRCUIT_SECTION} if made.circuit else {}
    return Line(MARKS.get(claim.kind, "none"), cells, shown.get(claim.recipe, ""))


def _circuit_section(made: Reproduction) -> list[Section]:
    if made.circuit is None:
        return []
    claims = [(n, f"{c.figure} {c.kind}") for n, c in enumerate(made.claims, 1) if c.recipe == CIRCUIT]
    caption = "what feeds the output heads, traced from the logits back to the prompt"
    command = f"steer discover --checkpoint {made.checkpoint}"
    return [Section(CIRCUIT_SECTION, caption, [made.circuit], claims=claims, command=command)]


def _section(outcome: Outcome, made: Reproduction) -> Section:
    """One recipe: its claims, figure and rows, the command that gives them again, and where they come from."""
    claims = [(n, f"{c.figure} {c.kind}") for n, c in enumerate(made.claims, 1) if c.recipe == outcome.name]
    text = next((path.read_text() for path in made.against.recipes() if path.stem == outcome.name), "")
    if outcome.result is None:
        return Section(outcome.name, faults=outcome.faults, claims=claims, recipe=text)
    result = outcome.result
    file = os.path.relpath(result.folder / ROWS, made.index.parent) if result.folder else ""
    return Section(
        outcome.name, result.provenance.description, outcome.pictures, (), claims,
        _command(outcome.name, result.provenance, made.questions), text,
        ROW_TITLES, row_lines(overall(result.rows)), file, _provenance(result.provenance),
    )  # fmt: skip


def _command(name: str, origin: Provenance, questions: Sequence[str]) -> str:
    shipped = next((known for known in recipe_names() if known.rpartition("/")[2] == name), name)
    count = origin.recipe.get("episodes", {}).get("count")
    others = [change for change in questions if not change.startswith("episodes.count=")]
    return " ".join(
        ("steer run", shipped, f"checkpoint={origin.checkpoint.name}", *map(quote, others), f"episodes.count={count}")
    )


def _provenance(origin: Provenance) -> list[tuple[str, str]]:
    said = [
        ("checkpoint", f"{origin.checkpoint.name}, weights {origin.checkpoint.sha256[:12]}"),
        ("episodes", f"{origin.examples:,} of {origin.wanted:,} asked for"),
        ("ablation", origin.ablation),
        ("intervals", origin.intervals),
        ("forward passes for each batch", str(origin.forwards)),
        ("computed on", f"{origin.device}, {origin.dtype}, {origin.seconds:.1f} s"),
        ("versions", ", ".join(f"{name} {version}" for name, version in origin.versions.items())),
        ("content", origin.hash[:12]),
    ]
    return [(name, value) for name, value in said if value]
