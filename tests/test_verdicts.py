"""Verdicts on rows made for each side of each rule: an interval that straddles the line decides nothing."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from steer import claims
from steer.claims import AS, DIFFERS, NOT_SHOWN, Judge
from steer.paper import CLAIMS, hold_all
from steer.results import Result

CAST = {
    "output": ["dec-cross-1.5", "dec-cross-1.1"], "primitive-pairing": ["enc-self-1.1", "enc-self-1.4"],
    "question-broadcast": ["enc-self-0.5"], "rhs-scanner": ["dec-cross-0.6"],
    "primitive-retrieval": ["enc-self-1.0"], "function-retrieval": ["enc-self-1.2"],
}  # fmt: skip
Ends = tuple[float, float, float]  # low, value, high


def row(ends: Ends | float, **labels: object) -> dict:
    low, value, high = ends if isinstance(ends, tuple) else (ends - 0.01, ends, ends + 0.01)
    common = {"condition": "clean", "measure": "m", "head": "", "against": "answer", "position": "all"}
    return common | {"value": value, "low": low, "high": high} | labels


def held(judge: Judge, *rows: dict, **details: list) -> dict:
    return claims.Claim("1", "r", "c", "p", judge).hold(Result({}, list(rows), details=details), CAST, "")


def agrees(judge: Judge, *rows: dict, **details: list) -> bool:
    verdict = held(judge, *rows, **details)["verdict"]
    assert verdict.startswith((AS, DIFFERS)), verdict
    return verdict.startswith(AS)


# A label carried


def r2(ends: Ends | float, null: float = 0.05, condition: str = "clean", head: str = "dec-cross-1.5.k") -> dict:
    return row(ends, condition=condition, measure="r-squared", head=head, null=null)


@pytest.mark.parametrize(
    ("ends", "null", "verdict"),
    [
        ((0.30, 0.40, 0.50), 0.05, True),
        ((0.30, 0.40, 0.50), 0.35, False),  # the value is above chance, the interval holds it
        ((0.30, 0.40, 0.50), 0.45, False),
        ((0.30, 0.40, 0.50), 0.60, False),
        ((0.02, 0.03, 0.04), 0.01, False),  # above chance, and next to nothing of the variance
    ],
)
def test_a_label_is_carried_when_the_whole_interval_is_above_chance(ends: Ends, null: float, verdict: bool):
    assert agrees(claims.carries("output", "k"), r2(ends, null)) is verdict


def change(rule, before: dict, after: dict) -> bool:
    return agrees(claims.changed("output", "k", "off", rule), before, after | {"condition": "off"})


@pytest.mark.parametrize("rule", [claims.erased, claims.lowered, claims.survives])
def test_what_was_not_there_is_neither_erased_nor_kept(rule):
    """Before the ablation the interval holds chance: no later number can show anything."""
    before = r2((0.04, 0.40, 0.80))
    assert not any(change(rule, before, r2(after)) for after in (0.0, 0.02, 0.3, 0.9))


def test_erased_is_nearly_nothing_of_what_was():
    before = r2((0.55, 0.60, 0.65))
    assert change(claims.erased, before, r2((0.005, 0.01, 0.02)))
    assert not change(claims.erased, before, r2((0.05, 0.15, 0.25)))
    assert not change(claims.erased, before, r2((0.55, 0.60, 0.65)))


def test_lowered_is_lower_than_both_intervals():
    before = r2((0.50, 0.60, 0.70))
    assert change(claims.lowered, before, r2((0.30, 0.40, 0.49)))
    assert not change(claims.lowered, before, r2((0.30, 0.40, 0.51)))  # lower, but within the intervals
    assert not change(claims.lowered, before, r2((0.71, 0.80, 0.90)))


def test_what_survives_is_above_chance_and_not_next_to_nothing():
    before = r2((0.50, 0.60, 0.70))
    assert change(claims.survives, before, r2((0.30, 0.40, 0.50)))
    assert not change(claims.survives, before, r2((0.30, 0.40, 0.50), null=0.35))
    assert not change(claims.survives, before, r2((0.01, 0.02, 0.03), null=0.005))


# Sweeps


def heads(measured: dict[str, Ends | float], nothing: Ends | float = 0.9, everything: Ends | float = 0.1) -> list[dict]:
    kept = [row(value, condition=name) for name, value in measured.items()]
    return [row(nothing, condition="nothing ablated"), row(everything, condition="everything ablated"), *kept]


MINE, OTHER, THIRD = "enc-self-1.1", "enc-self-0.3", "enc-self-1.7"


@pytest.mark.parametrize(
    ("rows", "verdict"),
    [
        (heads({MINE: 0.7, OTHER: 0.3}), True),
        (heads({MINE: 0.3, OTHER: 0.7}), False),
        (heads({OTHER: 0.3, MINE: 0.7, THIRD: 0.5}), True),
        (heads({MINE: 0.7, "enc-mlp-1": 0.8}), True),  # not swept in the paper
        (heads({MINE: (0.05, 0.3, 0.5)}), False),  # its interval reaches down to everything ablated
        (heads({MINE: (0.12, 0.3, 0.5)}), True),
        (heads({MINE: 0.7}, nothing=(0.6, 0.9, 1.0), everything=(0.5, 0.55, 0.61)), False),  # a scale without length
        (heads({MINE: 0.7}, nothing=(0.62, 0.9, 1.0), everything=(0.5, 0.55, 0.61)), True),
    ],
)
def test_the_main_source_keeps_most_and_more_than_nothing(rows: list[dict], verdict: bool):
    assert agrees(claims.main_source("primitive-pairing"), *rows) is verdict


def test_the_lead_of_a_role_is_meant():
    second = "enc-self-1.4"  # plays the role as well
    assert not agrees(claims.main_source("primitive-pairing"), *heads({MINE: 0.3, second: 0.8}))


NEEDED = claims.needed_sources(("primitive-retrieval", "function-retrieval"))
ONE, TWO = "enc-self-1.0", "enc-self-1.2"


@pytest.mark.parametrize(
    ("rows", "verdict"),
    [
        (heads({ONE: 0.5, TWO: 0.6, OTHER: 0.85}), True),
        (heads({ONE: 0.5, TWO: 0.6, OTHER: 0.55}), False),  # a third head costs more than one of them
        (heads({ONE: 0.5, TWO: 0.6, "enc-mlp-0": 0.1}), True),
        (heads({ONE: (0.7, 0.8, 0.9), TWO: (0.7, 0.8, 0.9), OTHER: 0.89}), False),  # losses within the intervals
        (heads({ONE: 0.95, TWO: 0.99, OTHER: 0.89}), False),  # better without them
    ],
)
def test_needed_sources_cost_more_than_all_others(rows: list[dict], verdict: bool):
    assert agrees(NEEDED, *rows) is verdict


# Counts and shares


@pytest.mark.parametrize(("value", "verdict"), [(0.985, True), (0.90, False)])
def test_exact_match_is_as_high_as_the_papers(value: float, verdict: bool):
    assert agrees(claims.exact_match, row(value, measure="exact-match")) is verdict


@pytest.mark.parametrize(
    ("shares", "verdict"),
    [
        ({"dec-cross-1.5": 2.0, "dec-self-0.1": 1.0}, True),
        ({"dec-self-0.1": 1.0, "dec-cross-1.5": 2.0}, True),
        ({"dec-cross-1.5": 2.0, "dec-cross-1.1": 3.0}, False),
        ({"dec-cross-1.5": 2.0, "dec-mlp-1": 3.0, "dec.tok": 4.0}, True),  # no heads
    ],
)
def test_the_output_head_leads_the_heads(shares: dict[str, float], verdict: bool):
    rows = [row(value, head=name, measure="logit-attribution") for name, value in shares.items()]
    rows += [row(99.0, head="dec-self-0.1", measure="logit-attribution", position="2")]  # of one position alone
    assert agrees(claims.attribution, *rows) is verdict


@pytest.mark.parametrize(
    ("places", "verdict"),
    [((0.97, 0.97, 0.97), True), ((0.97, 0.80, 0.97), False), ((0.80, 0.97, 0.97), False), ((0.97, 0.97, 0.8), False)],
)
def test_every_position_must_be_looked_at_rightly(places: Sequence[float], verdict: bool):
    labels = {"measure": "attention-accuracy", "head": "dec-cross-1.5"}
    rows = [row(value, position=str(place), **labels) for place, value in enumerate(places, 1)]
    stranger = [row(0.1, position=str(n), measure="attention-accuracy", head="dec-cross-1.1") for n in range(1, 4)]
    assert agrees(claims.attention_accuracy, *stranger, *rows, row(0.9, **labels)) is verdict


@pytest.mark.parametrize(
    ("own", "verdict"), [((4.5, 5, 5.5), True), ((3.5, 5, 6.5), False), ((1, 2, 3), False), ((-0.5, 0.2, 1), False)]
)
def test_alignment_lies_above_the_spread_of_other_rows(own: Ends, verdict: bool):
    labels = {"head": "dec-cross-1.5"}
    rows = [
        row(own, measure="ov-alignment", against="own row", **labels),
        row(0.0, measure="ov-alignment", against="other rows", **labels),
        row(0.5, measure="ov-above-null", against="other rows", **labels),
    ]
    nulls = [{"head": "dec-cross-1.1", "null_high": -9.0}, {"head": "dec-cross-1.5", "null_high": 4.0}]
    assert agrees(claims.alignment, *rows, alignments=nulls) is verdict


# The exchange


def swap(measure: str, **ends: Ends | float) -> list[dict]:
    """before_answer=…, after_counterfactual=…"""
    return [
        row(value, condition=name.partition("_")[0], measure=measure, against=name.partition("_")[2])
        for name, value in ends.items()
    ]


@pytest.mark.parametrize(
    ("on_answer", "on_other", "verdict"),
    [
        ((0.1, 0.15, 0.2), (0.6, 0.7, 0.8), True),
        ((0.5, 0.55, 0.65), (0.6, 0.7, 0.8), False),  # more on the other colour, within the intervals
        ((0.6, 0.7, 0.8), (0.3, 0.4, 0.5), False),  # moved, but not to the other side
        ((0.0, 0.05, 0.1), (0.1, 0.2, 0.3), False),  # on the other side, but not moved beyond the intervals
    ],
)
def test_attention_changes_sides_beyond_the_intervals(on_answer: Ends, on_other: Ends, verdict: bool):
    rows = swap(
        "attention-mass", before_answer=0.7, before_counterfactual=(0.1, 0.15, 0.2), after_answer=on_answer,
        after_counterfactual=on_other,
    )  # fmt: skip
    assert agrees(claims.attention_follows, *rows) is verdict


@pytest.mark.parametrize(
    ("after", "verdict"),
    [((0.3, 0.4, 0.45), True), ((0.1, 0.2, 0.3), False), ((0.14, 0.2, 0.3), False), ((0.0, 0.05, 0.1), False)],
)
def test_answers_follow_when_more_do_than_before(after: Ends, verdict: bool):
    rows = swap("exact-match", before_counterfactual=(0.05, 0.1, 0.15), after_counterfactual=after)
    rows += swap("exact-match", before_answer=0.9, after_answer=0.1)
    assert agrees(claims.answers_follow, *rows) is verdict


# The table


def test_a_claims_line_carries_its_own_numbers():
    told = held(claims.carries("output", "k"), r2(0.9, head="dec-cross-1.1.k"), r2((0.3, 0.4, 0.5)))
    assert (told["low"], told["value"], told["high"]) == (0.3, 0.4, 0.5)
    assert "0.400" in told["here"]


def test_what_is_missing_is_not_shown():
    claim = claims.Claim("1", "r", "c", "p", claims.carries("output", "k"))
    assert claim.hold(None, CAST, "")["verdict"].startswith(NOT_SHOWN)
    assert claim.hold(None, CAST, "no such role")["verdict"] == f"{NOT_SHOWN}: no such role"
    other = Result({}, [r2(0.5, head="dec-cross-1.1.k")])
    assert claim.hold(other, CAST, "")["verdict"].startswith(NOT_SHOWN)
    assert claim.hold(Result({}, [r2(0.5)]), {}, "")["value"] is None


OF = {  # the words of a claim -> the role and the port that it speaks of
    "Question-Broadcast Z": "enc-self-0.5.z", "Primitive-Pairing Z": "enc-self-1.1.z", "Output K": "dec-cross-1.5.k",
    "RHS-Scanner Z": "dec-cross-0.6.z", "Output Q": "dec-cross-1.5.q",
}  # fmt: skip
WITHOUT = {
    "without Question-Broadcast": "Question-Broadcast ablated",
    "without Primitive-Pairing": "Primitive-Pairing ablated",
    "without Primitive-Retrieval": "Primitive-Retrieval ablated",
    "without Function-Retrieval": "Function-Retrieval ablated",
    "without the RHS-Scanners": "RHS-Scanners ablated",
    "two retrieval heads alone": "only retrieval heads kept",
}


def test_every_claim_on_structure_reads_the_site_and_condition_that_it_names():
    """A number of its own for every site and condition: the claim's words say which must stand in its line."""
    conditions = ["clean", *WITHOUT.values()]
    number = {
        (site, condition): round(0.9 - 0.02 * n - 0.11 * m, 3)
        for m, site in enumerate(dict.fromkeys(OF.values()))
        for n, condition in enumerate(conditions)
    }
    assert len(set(number.values())) == len(number)
    rows = [r2(value, 0.0, condition, site) for (site, condition), value in number.items()]
    given = Result({}, rows)
    table = hold_all({"fig06_index_in_question": given, "fig10_relative_index": given}, CAST, {})
    told = {line["claim"]: line for line in table if line["value"] is not None}
    structural = [claim for claim in CLAIMS if claim.recipe in ("fig06_index_in_question", "fig10_relative_index")]
    assert len(told) == len(structural) >= 12
    for text, line in told.items():
        site = next(site for name, site in OF.items() if name in text)
        condition = next((condition for name, condition in WITHOUT.items() if name in text), "clean")
        assert line["value"] == number[site, condition], text


def test_a_role_without_a_head_differs_and_one_with_heads_names_them():
    told = {line["claim"]: line for line in hold_all({}, {"output": ["dec-cross-0.3", "dec-cross-0.1"]}, {})}
    assert told["a head plays the role output"]["here"] == "dec-cross-0.3, dec-cross-0.1"
    assert told["a head plays the role output"]["verdict"].startswith(AS)
    assert told["a head plays the role rhs-scanner"]["verdict"].startswith(DIFFERS)
