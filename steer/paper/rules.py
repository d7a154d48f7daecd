"""The rules by which the paper's claims are judged: results in, verdicts out.

Every verdict follows from the numbers by a rule that is stated with it, the same for every checkpoint, and looks at
their intervals: where an interval lies on both sides of what decides, the verdict is open.
"""

from __future__ import annotations

from collections.abc import Sequence

from steer.paper.verdicts import (
    AS,
    DIFFERS,
    NOT_SHOWN,
    OPEN,
    Cast,
    Change,
    Claim,
    Finding,
    Judge,
    MissingError,
    Row,
    change,
    find,
    lead,
    meets,
    number,
    ruled,
    share,
)
from steer.plan.plan import ENDS
from steer.results.result import Result

__all__ = ["AS", "DIFFERS", "NOT_SHOWN", "OPEN", "Claim", "Finding"]  # beside the rules: what they are read with
CLEAR, TRACE, HALF = 0.1, 0.1, 0.5  # R² that shows clusters; what of it may be left when it is gone; most of it


@ruled("the interval reaches 98 %, or lies above")
def exact_match(result: Result, cast: Cast) -> Finding:
    row = find(result, measure="exact-match")
    return Finding(share(row), AS if row["high"] >= 0.98 else f"{DIFFERS}: below 98 %", row)


@ruled("its interval lies above that of every other head; an MLP that writes more is named")
def attribution(result: Result, cast: Cast) -> Finding:
    rows = [row for row in result.rows if row["position"] == "all"]
    heads = sorted((row for row in rows if "." in row["head"] and row["head"].count("-") == 2), key=_value)[::-1]
    names = [row["head"] for row in heads]
    output = lead(cast, "output")
    place = names.index(output)
    second = heads[1:2] if place == 0 else heads[:1]
    here = f"{output} {number(heads[place])}" + "".join(f"; {row['head']} {number(row)}" for row in second)
    others = [row for row in rows if row["head"].startswith("dec-mlp") and row["value"] > heads[0]["value"]]
    here += "".join(f"; {row['head']} {number(row)}" for row in others)
    if any(meets(heads[place], row) for row in second):
        return Finding(here, f"{OPEN}: {second[0]['head']} writes as much, as far as the intervals tell", heads[place])
    verdict = AS if place == 0 else f"{DIFFERS}: {names[0]} leads, the Output Head is number {place + 1} of the heads"
    return Finding(here, verdict, heads[place])


@ruled("above 90 % at each of the positions 1 to 3, interval and all, on two-argument questions")
def attention_accuracy(result: Result, cast: Cast) -> Finding:
    head = lead(cast, "output")
    rows = [find(result, measure="attention-accuracy", head=head, position=place) for place in "123"]
    below, unsure = ([r["position"] for r in rows if r[end] <= 0.9] for end in ("high", "low"))
    here = f"{head}: " + ", ".join(map(share, rows))
    verdict = AS if not unsure else f"{OPEN}: the interval meets 90 % at position {', '.join(unsure)}"
    verdict = f"{DIFFERS}: not above 90 % at position {', '.join(below)}" if below else verdict
    return Finding(here, verdict, find(result, measure="attention-accuracy", head=head))


@ruled("more than half of the colour tokens lie above 97.5 % of the null, interval and all")
def alignment(result: Result, cast: Cast) -> Finding:
    head = lead(cast, "output")
    own, other = (find(result, head=head, measure="ov-alignment", against=what) for what in ("own row", "other rows"))
    above = find(result, head=head, measure="ov-above-null")
    here = f"{share(above)} of tokens above the null's 97.5 % point; own row {number(own)}, others {number(other)}"
    if above["low"] > HALF:
        return Finding(here, AS, above)
    if above["high"] > HALF:
        return Finding(here, f"{OPEN}: about half of the tokens", above)
    weak = f"on average only, {above['value']:.1%} of the tokens are above the null"
    return Finding(here, f"{DIFFERS}: {weak if own['low'] > other['high'] else 'no alignment'}", above)


def main_source(role: str) -> Judge:
    """Which head, kept alone, keeps most of the Output Head's attention accuracy?"""

    @ruled(
        "kept alone it keeps more than each other head does and than everything ablated leaves, beyond the intervals"
    )
    def judge(result: Result, cast: Cast) -> Finding:
        wanted, rows = lead(cast, role), _sweep(result)
        nothing, everything = (find(result, condition=end) for end in (ENDS[0], ENDS[2]))
        if everything["high"] >= nothing["low"]:
            here = f"nothing ablated {share(nothing)}, everything ablated {share(everything)}"
            return Finding(here, f"{DIFFERS}: ablating every source costs nothing, so no source is needed", everything)
        mine = _row(rows, wanted)
        others = [row for row in rows if "-mlp-" not in row["condition"] and row is not mine]
        best = max(others, key=_value, default=everything)
        here = f"{wanted} {share(mine)}, {best['condition']} {share(best)}; nothing ablated {share(nothing)}"
        here += f", everything ablated {share(everything)}"
        more = [row for row in rows if "-mlp-" in row["condition"] and row["value"] > max(mine["value"], best["value"])]
        here += "".join(f"; {row['condition']} {share(row)}, not swept in the paper" for row in more)
        return Finding(here, _compared(wanted, mine, best, everything), mine)

    return judge


def _compared(wanted: str, mine: Row, best: Row, everything: Row) -> str:
    if mine["low"] <= everything["high"]:
        return f"{DIFFERS}: {wanted} alone keeps no more than is kept with everything ablated"
    if meets(mine, best):
        return f"{OPEN}: {best['condition']} keeps as much, as far as the intervals tell"
    return AS if mine["value"] > best["value"] else f"{DIFFERS}: {best['condition']} keeps more"


def needed_sources(roles: tuple[str, str]) -> Judge:
    """Which two heads cost most when one alone is ablated?"""

    @ruled("ablated alone each of the two costs accuracy, no other head more than either, beyond the intervals")
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
        if len(lost) < len(set(wanted)):
            return Finding(here, f"{DIFFERS}: of the two, only {lost[0]} matters here", worst[0])
        least = max(_row(rows, head)["low"] for head in wanted)
        more = [row["condition"] for row in worst if row["condition"] not in wanted and row["high"] < least]
        return Finding(here, f"{DIFFERS}: {' and '.join(more)} costs more" if more else AS, worst[0])

    return judge


def carries(role: str, port: str) -> Judge:
    @ruled(f"R² is above chance and at least {CLEAR}, interval and all")
    def judge(result: Result, cast: Cast) -> Finding:
        row = find(result, condition="clean", head=f"{lead(cast, role)}.{port}", measure="r-squared")
        if row["low"] <= row["null"]:
            return Finding(f"R² {number(row)}", f"{DIFFERS}: not above chance", row)
        weak = f"{DIFFERS}: above chance, but only {row['value']:.1%} of the variance"
        unsure = f"{OPEN}: above chance, about {CLEAR}"
        return Finding(
            f"R² {number(row)}", AS if row["low"] >= CLEAR else unsure if row["high"] >= CLEAR else weak, row
        )

    return judge


def changed(role: str, port: str, condition: str, verdict: Change) -> Judge:
    """R² of a site before and after an ablation. Where the label was not there, an ablation can show nothing of it."""

    @ruled(f"{verdict.rule}; nothing is shown where R² before is not above chance")
    def judge(result: Result, cast: Cast) -> Finding:
        site = f"{lead(cast, role)}.{port}"
        before = find(result, condition="clean", head=site, measure="r-squared")
        after = find(result, condition=condition, head=site, measure="r-squared")
        here = f"R² {number(before)} → {number(after)}"
        if before["low"] <= before["null"]:
            return Finding(here, f"{NOT_SHOWN}: not above chance to begin with", after)
        return Finding(here, verdict.judge(before, after), after)

    return judge


def _left(before: Row, after: Row) -> str:
    return f"{after['value'] / before['value']:.0%} of it is left"


@change("R² after is at chance, and its interval below a tenth of R² before")
def erased(before: Row, after: Row) -> str:
    if after["low"] > after["null"]:
        return f"{DIFFERS}: {_left(before, after)}, above chance"
    return AS if after["high"] <= TRACE * before["value"] else f"{OPEN}: perhaps at chance, but the interval is wide"


@change("R² after lies below half of R² before, interval and all")
def lowered(before: Row, after: Row) -> str:
    if not after["high"] < before["low"]:
        return f"{DIFFERS}: not lowered beyond the intervals"
    if after["high"] < HALF * before["value"]:
        return AS
    return f"{DIFFERS if after['low'] > HALF * before['value'] else OPEN}: lowered, but {_left(before, after)}"


@change("R² after is above chance and above half of R² before, interval and all")
def survives(before: Row, after: Row) -> str:
    if after["low"] <= after["null"]:
        return f"{DIFFERS}: not above chance any more"
    if after["low"] > HALF * before["value"]:
        return AS
    return f"{DIFFERS if after['high'] < HALF * before['value'] else OPEN}: only {_left(before, after)}"


@ruled("afterwards more attention is on the other colour than before, and than on the answer, beyond the intervals")
def attention_follows(result: Result, cast: Cast) -> Finding:
    def mass(condition: str, against: str) -> Row:
        return find(result, condition=condition, measure="attention-mass", against=against)

    right, other = ((mass("before", what), mass("after", what)) for what in ("answer", "counterfactual"))
    here = f"on the answer {share(right[0])} → {share(right[1])}; "
    here += f"on the other colour {share(other[0])} → {share(other[1])}"
    moved = other[1]["low"] > other[0]["high"] and other[1]["low"] > right[1]["high"]
    return Finding(here, AS if moved else f"{DIFFERS}: the attention does not change sides", other[1])


@ruled("more answers are the predicted ones than before, and not more than half, interval and all")
def answers_follow(result: Result, cast: Cast) -> Finding:
    before, row = (
        find(result, condition=when, measure="exact-match", against="counterfactual") for when in ("before", "after")
    )
    if row["low"] <= before["high"]:
        return Finding(share(row), f"{DIFFERS}: no more answers follow than before", row)
    if row["low"] > HALF:
        return Finding(share(row), f"{DIFFERS}: goes further, the answers themselves follow", row)
    return Finding(share(row), AS if row["high"] <= HALF else f"{OPEN}: about half of the answers follow", row)


def _sweep(result: Result) -> list[Row]:
    return [row for row in result.rows if row["position"] == "all" and row["condition"] not in ENDS]


def _row(rows: Sequence[Row], condition: str) -> Row:
    for row in rows:
        if row["condition"] == condition:
            return row
    raise MissingError(f"{condition} is not among the swept sources")


def _value(row: Row) -> float:
    return float(row["value"])
