"""Rows made for one side of a rule, and what a rule says of them."""

from __future__ import annotations

from made import made_result, made_row

from steer.paper.verdicts import AS, DIFFERS, NOT_SHOWN, OPEN, Claim, Rule, Verdict
from steer.results.rows import Row

ROLES = {
    "output": ["dec-cross-1.5", "dec-cross-1.1"], "primitive-pairing": ["enc-self-1.1", "enc-self-1.4"],
    "question-broadcast": ["enc-self-0.5"], "rhs-scanner": ["dec-cross-0.6"],
    "primitive-retrieval": ["enc-self-1.0"], "function-retrieval": ["enc-self-1.2"],
}  # fmt: skip
Ends = tuple[float, float, float]  # low, value, high


def row(ends: Ends | float, **fields: object) -> Row:
    low, value, high = ends if isinstance(ends, tuple) else (ends - 0.01, ends, ends + 0.01)
    return made_row(value, low, high, **fields)


def judged(rule: Rule, *rows: Row) -> Verdict:
    return Claim("1", "r", "c", "p", rule).judge(made_result(list(rows)), ROLES)


def verdict(rule: Rule, *rows: Row) -> str:
    """The verdict's kind, without its reason."""
    told = judged(rule, *rows).verdict
    return next(kind for kind in (AS, DIFFERS, OPEN, NOT_SHOWN) if told == kind or told.startswith(f"{kind}: "))


def r2(ends: Ends | float, null: float = 0.05, condition: str = "clean", of: str = "dec-cross-1.5.k") -> Row:
    return row(ends, condition=condition, measure="r-squared", of=of, chance=null)
