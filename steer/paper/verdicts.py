"""What a verdict on a claim is made of: a result's rows, the rule in words, and the line of the table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from steer.results.result import Result

Row: TypeAlias = dict[str, Any]
Cast: TypeAlias = Mapping[str, Sequence[str]]  # role -> heads that play it, the lead first
AS, DIFFERS, OPEN, NOT_SHOWN = "as in the paper", "differs", "open", "not shown"
FULL, QUICK = "full", "quick look"  # on as many episodes as the recipe says, or on fewer
VERDICTS = (AS, DIFFERS, OPEN, NOT_SHOWN)


class MissingError(Exception):
    """What a claim needs is not in the result."""


@dataclass(frozen=True)
class Finding:
    """What a checkpoint shows: in words, in the main number, and as a verdict."""

    here: str
    verdict: str
    row: Row | None = None


@dataclass(frozen=True)
class Judge:
    """How a claim is judged, and the rule in words."""

    rule: str
    judge: Callable[[Result, Cast], Finding]

    def __call__(self, result: Result, cast: Cast) -> Finding:
        return self.judge(result, cast)


@dataclass(frozen=True)
class Change:
    """How R² before and after an ablation is judged, and the rule in words."""

    rule: str
    judge: Callable[[Row, Row], str]


def ruled(rule: str) -> Callable[[Callable[[Result, Cast], Finding]], Judge]:
    return lambda judge: Judge(rule, judge)


def change(rule: str) -> Callable[[Callable[[Row, Row], str]], Change]:
    return lambda judge: Change(rule, judge)


@dataclass(frozen=True)
class Claim:
    figure: str
    recipe: str
    claim: str
    paper: str
    judge: Judge

    def hold(self, result: Result | None, cast: Cast, missing: str) -> dict[str, Any]:
        """The claim's line of the table; `missing` says why a result, or a part of it, is not there."""
        try:
            if result is None:
                raise MissingError("the recipe gave no result")
            found = self.judge(result, cast)
        except MissingError as error:
            found = Finding("–", f"{NOT_SHOWN}: {missing or error}")
        numbers = {key: found.row[key] if found.row else None for key in ("value", "low", "high")}
        told = {"figure": self.figure, "claim": self.claim, "paper": self.paper, "here": found.here}
        return told | {"rule": self.judge.rule, "verdict": found.verdict, **numbers, "recipe": self.recipe}


def find(result: Result, **labels: str) -> Row:
    """The one row with these labels, over all positions unless one is named."""
    wanted = {"position": "all"} | labels
    for row in result.rows:
        if all(row[key] == value for key, value in wanted.items()):
            return row
    raise MissingError(f"the result has no row for {', '.join(labels.values())}")


def lead(cast: Cast, role: str) -> str:
    if not cast.get(role):
        raise MissingError(f"this checkpoint has no head for the role ${role}")
    return cast[role][0]


def share(row: Row) -> str:
    return f"{row['value']:.1%} ({row['low']:.1%} to {row['high']:.1%})"


def number(row: Row) -> str:
    if "null" in row:
        return f"{row['value']:.3f} ({row['low']:.3f} to {row['high']:.3f}), by chance {row['null']:.3f}"
    return f"{row['value']:.2f} ({row['low']:.2f} to {row['high']:.2f})"


def meets(row: Row, other: Row) -> bool:
    """Whether two intervals have a number in common."""
    return bool(row["low"] <= other["high"] and other["low"] <= row["high"])


def tally(claims: Sequence[Mapping[str, Any]]) -> str:
    """How many claims end how."""
    counts = {kind: sum(claim["verdict"].startswith(kind) for claim in claims) for kind in VERDICTS}
    return ", ".join(f"{count} {kind}" for kind, count in counts.items())
