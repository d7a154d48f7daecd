"""The parts of a verdict on a claim: rows of a result, a rule with its wording, and a line of the table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from steer.results.result import Result
from steer.results.rows import Row
from steer.results.rows import find as find_row

Roles: TypeAlias = Mapping[str, Sequence[str]]  # role -> the heads in it, the lead first
AS, DIFFERS, OPEN, NOT_SHOWN = "as in the paper", "differs", "open", "not shown"
FULL, QUICK = "full", "quick look"  # on as many examples as the recipe says, or on fewer
VERDICTS = (AS, DIFFERS, OPEN, NOT_SHOWN)


class MissingError(Exception):
    """What a claim needs is not in the result."""


@dataclass(frozen=True)
class Finding:
    """What a checkpoint shows: in words, as a verdict, and in the main number."""

    here: str
    verdict: str
    row: Row | None = None


@dataclass(frozen=True)
class Rule:
    """How a claim is judged, and the same in words."""

    words: str
    decide: Callable[[Result, Roles], Finding]


@dataclass(frozen=True)
class Change:
    """How R² before and after an ablation is judged, and the same in words."""

    words: str
    decide: Callable[[Row, Row], str]


def ruled(words: str) -> Callable[[Callable[[Result, Roles], Finding]], Rule]:
    return lambda decide: Rule(words, decide)


def change(words: str) -> Callable[[Callable[[Row, Row], str]], Change]:
    return lambda decide: Change(words, decide)


@dataclass(frozen=True)
class Verdict:
    """A line of the table of claims. `verdict` is one of `VERDICTS`, often with a reason after it."""

    figure: str
    claim: str
    paper: str
    here: str
    rule: str
    verdict: str
    value: float | None
    low: float | None
    high: float | None
    recipe: str
    status: str = FULL

    @property
    def kind(self) -> str:
        return next(kind for kind in VERDICTS if self.verdict.startswith(kind))


@dataclass(frozen=True)
class Claim:
    """What the paper says, the recipe that shows it, and the rule by which a checkpoint is compared with it."""

    figure: str
    recipe: str
    claim: str
    paper: str
    rule: Rule

    def judge(self, result: Result | None, roles: Roles, missing: str = "", status: str = FULL) -> Verdict:
        """The claim's line of the table; `missing` says why a result, or a part of it, is not there."""
        try:
            if result is None:
                raise MissingError("the recipe gave no result")
            finding = self.rule.decide(result, roles)
        except MissingError as error:
            finding = Finding("–", f"{NOT_SHOWN}: {missing or error}")
        row = finding.row
        value, low, high = (row.value, row.low, row.high) if row else (None, None, None)
        return Verdict(
            self.figure, self.claim, self.paper, finding.here, self.rule.words, finding.verdict, value, low, high,
            self.recipe, status,
        )  # fmt: skip


def find(result: Result, position: int | None = None, **fields: str) -> Row:
    """The row with these fields, over all positions unless one is given."""
    row = find_row(result.rows, position, **fields)
    if row is None:
        raise MissingError(f"the result has no row for {', '.join(fields.values())}")
    return row


def lead(roles: Roles, role: str) -> str:
    """The head that leads in a role."""
    if not roles.get(role):
        raise MissingError(f"this checkpoint has no head for the role ${role}")
    return roles[role][0]


def share(row: Row) -> str:
    return f"{row.value:.1%} ({row.low:.1%} to {row.high:.1%})"


def number(row: Row) -> str:
    if row.chance is not None:
        return f"{row.value:.3f} ({row.low:.3f} to {row.high:.3f}), by chance {row.chance:.3f}"
    return f"{row.value:.2f} ({row.low:.2f} to {row.high:.2f})"


def tally(verdicts: Iterable[Verdict]) -> str:
    """How many claims have each kind of verdict."""
    counts = Counter(verdict.kind for verdict in verdicts)
    said = {kind: "differ" if kind == DIFFERS and counts[kind] != 1 else kind for kind in VERDICTS}
    return ", ".join(f"{counts[kind]} {said[kind]}" for kind in VERDICTS)
