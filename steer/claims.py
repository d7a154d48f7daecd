"""The paper's claims, held against what a checkpoint shows: results in, verdicts out.

Every verdict follows from the numbers by a rule that is stated here, the same for every checkpoint. R² counts as
clear from a tenth of the variance on, and as erased when less than a tenth of it is left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from steer.plan import ENDS
from steer.results import Result

Row: TypeAlias = dict[str, Any]
Cast: TypeAlias = Mapping[str, Sequence[str]]  # role -> heads that play it, the lead first
AS, DIFFERS, NOT_SHOWN = "as in the paper", "differs", "not shown"
CLEAR, ERASED = 0.1, 0.1


class MissingError(Exception):
    """What a claim needs is not in the result."""


@dataclass(frozen=True)
class Finding:
    """What a checkpoint shows: in words, in the main number, and as a verdict."""

    here: str
    verdict: str
    row: Row | None = None


Judge: TypeAlias = Callable[[Result, Cast], Finding]


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
        return told | {"verdict": found.verdict, **numbers, "recipe": self.recipe}


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


def exact_match(result: Result, cast: Cast) -> Finding:
    row = find(result, measure="exact-match")
    return Finding(share(row), AS if row["high"] >= 0.98 else f"{DIFFERS}: below 98 %", row)


def attribution(result: Result, cast: Cast) -> Finding:
    """Among heads, as in the paper; an MLP that writes more is named."""
    rows = [row for row in result.rows if row["position"] == "all"]
    heads = sorted((row for row in rows if "." in row["head"] and row["head"].count("-") == 2), key=_value)[::-1]
    names = [row["head"] for row in heads]
    output = lead(cast, "output")
    place = names.index(output)
    second = heads[1:2] if place == 0 else heads[:1]
    here = f"{output} {number(heads[place])}" + "".join(f"; {row['head']} {number(row)}" for row in second)
    others = [row for row in rows if row["head"].startswith("dec-mlp") and row["value"] > heads[0]["value"]]
    here += "".join(f"; {row['head']} {number(row)}" for row in others)
    verdict = AS if place == 0 else f"{DIFFERS}: {names[0]} leads, the Output Head is number {place + 1} of the heads"
    return Finding(here, verdict, heads[place])


def attention_accuracy(result: Result, cast: Cast) -> Finding:
    head = lead(cast, "output")
    rows = [find(result, measure="attention-accuracy", head=head, position=place) for place in "123"]
    low = [row["position"] for row in rows if row["value"] <= 0.9]
    here = f"{head}: " + ", ".join(map(share, rows))
    verdict = f"{DIFFERS}: not above 90 % at position {', '.join(low)}" if low else AS
    return Finding(here, verdict, find(result, measure="attention-accuracy", head=head))


def alignment(result: Result, cast: Cast) -> Finding:
    head = lead(cast, "output")
    own, other = (find(result, head=head, measure="ov-alignment", against=what) for what in ("own row", "other rows"))
    above = find(result, head=head, measure="ov-above-null")
    end = next(told["null_high"] for told in result.details["alignments"] if told["head"] == head)
    here = f"own row {number(own)}, others {number(other)}; {share(above)} of tokens above the null's 97.5 % point"
    if own["low"] > end:
        return Finding(here, AS, own)
    inside = "the own row is above the mean of the others, but inside their spread"
    return Finding(here, f"{DIFFERS}: {inside if own['low'] > other['high'] else 'no alignment'}", own)


def main_source(role: str) -> Judge:
    """Which head, kept alone, keeps most of the Output Head's attention accuracy?"""

    def judge(result: Result, cast: Cast) -> Finding:
        wanted, rows = lead(cast, role), _sweep(result)
        nothing, everything = (find(result, condition=end) for end in (ENDS[0], ENDS[2]))
        if everything["high"] >= nothing["low"]:
            here = f"nothing ablated {share(nothing)}, everything ablated {share(everything)}"
            return Finding(here, f"{DIFFERS}: ablating every source costs nothing, so no source is needed", everything)
        heads = [row for row in rows if "-mlp-" not in row["condition"]]
        best, mine = max(heads, key=_value), _row(rows, wanted)
        scale = f"; nothing ablated {share(nothing)}, everything ablated {share(everything)}"
        here = f"{wanted} {share(mine)}" + (f", {best['condition']} {share(best)}" if best is not mine else "") + scale
        more = [row for row in rows if row not in heads and row["value"] > best["value"]]
        here += "".join(f"; {row['condition']} {share(row)}, not swept in the paper" for row in more)
        if mine["low"] <= everything["high"]:
            return Finding(here, f"{DIFFERS}: {wanted} alone keeps no more than is kept with everything ablated", mine)
        return Finding(here, AS if best is mine else f"{DIFFERS}: {best['condition']} keeps more", mine)

    return judge


def needed_sources(roles: tuple[str, str]) -> Judge:
    """Which two heads cost most when one alone is ablated?"""

    def judge(result: Result, cast: Cast) -> Finding:
        wanted = [lead(cast, role) for role in roles]
        rows = [row for row in _sweep(result) if "-mlp-" not in row["condition"]]
        nothing = find(result, condition=ENDS[0])
        worst = sorted(rows, key=_value)[:2]
        here = f"nothing ablated {share(nothing)}; largest drops: "
        here += ", ".join(f"{row['condition']} to {share(row)}" for row in worst)
        lost = [head for head in wanted if _row(rows, head)["high"] < nothing["low"]]
        if not lost:
            named = " or ".join(dict.fromkeys(wanted))
            return Finding(here, f"{DIFFERS}: ablating {named} alone costs nothing", worst[0])
        more = [row["condition"] for row in worst if row["condition"] not in wanted]
        if not more:
            return Finding(here, AS, worst[0])
        text = f"{' and '.join(more)} costs more" if len(lost) == 2 else f"of the two, only {lost[0]} matters here"
        return Finding(here, f"{DIFFERS}: {text}", worst[0])

    return judge


def carries(role: str, port: str) -> Judge:
    def judge(result: Result, cast: Cast) -> Finding:
        row = find(result, condition="clean", head=f"{lead(cast, role)}.{port}", measure="r-squared")
        if row["low"] <= row["null"]:
            return Finding(f"R² {number(row)}", f"{DIFFERS}: not above chance", row)
        weak = f"{DIFFERS}: above chance, but only {row['value']:.1%} of the variance"
        return Finding(f"R² {number(row)}", AS if row["value"] >= CLEAR else weak, row)

    return judge


def changed(role: str, port: str, condition: str, verdict: Callable[[Row, Row], str]) -> Judge:
    """R² of a site before and after an ablation."""

    def judge(result: Result, cast: Cast) -> Finding:
        site = f"{lead(cast, role)}.{port}"
        before = find(result, condition="clean", head=site, measure="r-squared")
        after = find(result, condition=condition, head=site, measure="r-squared")
        here = f"R² {number(before)} → {number(after)}"
        if before["low"] <= before["null"]:
            return Finding(here, f"{DIFFERS}: not above chance to begin with", after)
        return Finding(here, verdict(before, after), after)

    return judge


def erased(before: Row, after: Row) -> str:
    left = after["value"] / before["value"]
    return AS if left <= ERASED else f"{DIFFERS}: {left:.0%} of it is left"


def lowered(before: Row, after: Row) -> str:
    return AS if after["high"] < before["low"] else f"{DIFFERS}: not lowered beyond the intervals"


def survives(before: Row, after: Row) -> str:
    if after["low"] <= after["null"]:
        return f"{DIFFERS}: not above chance any more"
    left = after["value"] / before["value"]
    return AS if left > ERASED else f"{DIFFERS}: only {left:.0%} of it is left"


def attention_follows(result: Result, cast: Cast) -> Finding:
    def mass(condition: str, against: str) -> Row:
        return find(result, condition=condition, measure="attention-mass", against=against)

    right, other = ((mass("before", what), mass("after", what)) for what in ("answer", "counterfactual"))
    here = f"on the answer {share(right[0])} → {share(right[1])}; "
    here += f"on the other colour {share(other[0])} → {share(other[1])}"
    moved = other[1]["low"] > other[0]["high"] and other[1]["low"] > right[1]["high"]
    return Finding(here, AS if moved else f"{DIFFERS}: the attention does not change sides", other[1])


def answers_follow(result: Result, cast: Cast) -> Finding:
    before, row = (
        find(result, condition=when, measure="exact-match", against="counterfactual") for when in ("before", "after")
    )
    if row["low"] <= before["high"]:
        return Finding(share(row), f"{DIFFERS}: no more answers follow than before", row)
    further = f"{DIFFERS}: goes further, the answers themselves follow"
    return Finding(share(row), further if row["low"] > 0.5 else AS, row)


def _sweep(result: Result) -> list[Row]:
    return [row for row in result.rows if row["position"] == "all" and row["condition"] not in ENDS]


def _row(rows: Sequence[Row], condition: str) -> Row:
    for row in rows:
        if row["condition"] == condition:
            return row
    raise MissingError(f"{condition} is not among the swept sources")


def _value(row: Row) -> float:
    return float(row["value"])
