"""Verdicts on rows made for each side of each rule: an interval that straddles the line decides nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from judged import ROLES, Ends, judged, r2, row, verdict
from made import made_result

from steer.paper import rules as claims
from steer.paper.claims import CLAIMS, judge_all
from steer.paper.verdicts import AS, DIFFERS, NOT_SHOWN, OPEN, Claim, tally
from steer.results.rows import Row

# Sweeps


def heads(measured: dict[str, Ends | float], nothing: Ends | float = 0.9, everything: Ends | float = 0.1) -> list[Row]:
    kept = [row(value, condition=name) for name, value in measured.items()]
    return [row(nothing, condition="nothing ablated"), row(everything, condition="everything ablated"), *kept]


MINE, OTHER, THIRD = "enc-self-1.1", "enc-self-0.3", "enc-self-1.7"


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (heads({MINE: 0.7, OTHER: 0.3}), AS),
        (heads({MINE: 0.3, OTHER: 0.7}), DIFFERS),
        (heads({OTHER: 0.3, MINE: 0.7, THIRD: 0.5}), AS),
        (heads({MINE: (0.5, 0.6, 0.7), OTHER: (0.45, 0.5, 0.55)}), OPEN),  # more, within the intervals
        (heads({MINE: (0.5, 0.6, 0.7), OTHER: (0.65, 0.7, 0.75)}), OPEN),  # less, within the intervals
        (heads({MINE: (0.5, 0.6, 0.7), OTHER: 0.45, THIRD: (0.1, 0.4, 0.55)}), OPEN),  # the third, which is wide, may
        (heads({MINE: (0.5, 0.6, 0.7), OTHER: (0.3, 0.8, 0.95), THIRD: 0.75}), DIFFERS),  # the third keeps more surely
        (heads({MINE: 0.7, "enc-mlp-1": 0.8}), AS),  # not swept in the paper
        (heads({MINE: (0.05, 0.3, 0.5)}), DIFFERS),  # its interval reaches down to everything ablated
        (heads({MINE: (0.12, 0.3, 0.5)}), AS),
        (heads({MINE: 0.7}, nothing=(0.6, 0.9, 1.0), everything=(0.5, 0.55, 0.61)), DIFFERS),  # a scale without length
        (heads({MINE: 0.7}, nothing=(0.62, 0.9, 1.0), everything=(0.5, 0.55, 0.61)), AS),
    ],
)
def test_the_main_source_keeps_most_and_more_than_nothing(rows: list[Row], told: str):
    assert verdict(claims.main_source("primitive-pairing"), *rows) == told


def test_a_role_is_not_set_against_itself():
    """A second head of the role may keep more, and is named; a head outside it may not."""
    alike = ROLES["primitive-pairing"][1]
    told = judged(claims.main_source("primitive-pairing"), *heads({MINE: 0.6, alike: 0.8, OTHER: 0.3}))
    assert told.verdict == AS
    assert f"{alike} 80.0% (79.0% to 81.0%), of the same role" in told.here
    assert verdict(claims.main_source("primitive-pairing"), *heads({MINE: 0.6, alike: 0.8, OTHER: 0.7})) == DIFFERS


def test_the_lead_of_a_role_is_meant():
    second = "enc-self-1.4"  # plays the role as well
    assert verdict(claims.main_source("primitive-pairing"), *heads({MINE: 0.3, second: 0.8, OTHER: 0.5})) == DIFFERS


NEEDED = claims.needed_sources(("primitive-retrieval", "function-retrieval"))
ONE, TWO = "enc-self-1.0", "enc-self-1.2"


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (heads({ONE: 0.5, TWO: 0.6, OTHER: 0.85}), AS),
        (heads({ONE: 0.5, TWO: 0.6, OTHER: 0.3}), DIFFERS),  # a third head costs more than both of them
        (heads({ONE: 0.3, TWO: 0.6, OTHER: 0.45}), DIFFERS),  # or more than one of them
        (heads({ONE: 0.3, TWO: (0.4, 0.5, 0.6), OTHER: (0.4, 0.45, 0.55)}), AS),  # not beyond the intervals
        (heads({ONE: (0.5, 0.7, 0.8), TWO: 0.85, OTHER: (0.4, 0.71, 0.86), THIRD: 0.8}), DIFFERS),  # as the fourth does
        (heads({ONE: 0.5, TWO: 0.6, "enc-mlp-0": 0.1}), AS),
        (heads({ONE: (0.7, 0.8, 0.9), TWO: (0.7, 0.8, 0.9), OTHER: 0.89}), DIFFERS),  # losses within the intervals
        (heads({ONE: 0.5, TWO: (0.7, 0.8, 0.9), OTHER: 0.89}), DIFFERS),  # one of the two is not needed
        (heads({ONE: 0.95, TWO: 0.99, OTHER: 0.89}), DIFFERS),  # better without them
    ],
)
def test_needed_sources_cost_more_than_all_others(rows: list[Row], told: str):
    assert verdict(NEEDED, *rows) == told


# Counts and shares


@pytest.mark.parametrize(("ends", "told"), [(0.985, AS), (0.9, DIFFERS), ((0.96, 0.97, 0.981), AS)])
def test_exact_match_reaches_the_papers(ends: Ends | float, told: str):
    assert verdict(claims.exact_match, row(ends, measure="exact-match")) == told


@pytest.mark.parametrize(
    ("shares", "told"),
    [
        ({"dec-cross-1.5": 2.0, "dec-self-0.1": 1.0}, AS),
        ({"dec-self-0.1": 1.0, "dec-cross-1.5": 2.0}, AS),
        ({"dec-cross-1.5": 2.0, "dec-cross-1.1": 3.0}, DIFFERS),
        ({"dec-cross-1.5": 2.0, "dec-cross-1.1": 1.99}, OPEN),
        ({"dec-cross-1.5": 2.0, "dec-cross-1.1": 2.01}, OPEN),
        ({"dec-cross-1.5": 2.0, "dec-mlp-1": 3.0, "dec.tok": 4.0}, AS),  # no heads
        ({"dec-cross-1.5": 2.0, "dec-cross-1.1": 1.5, "dec-self-0.1": (0.2, 1.0, 1.995)}, OPEN),  # the third may
        ({"dec-cross-1.5": 2.0, "dec-cross-1.1": (1.0, 3.0, 5.0), "dec-self-0.1": 2.5}, DIFFERS),  # the third does
    ],
)
def test_the_output_head_leads_the_heads(shares: dict[str, Ends | float], told: str):
    rows = [row(value, of=name, measure="logit-attribution") for name, value in shares.items()]
    rows += [row(99.0, of="dec-self-0.1", measure="logit-attribution", position=2)]  # of one position alone
    assert verdict(claims.attribution, *rows) == told


HIGH, LOW, BOTH = (0.95, 0.97, 0.98), (0.7, 0.8, 0.89), (0.89, 0.92, 0.95)


@pytest.mark.parametrize(
    ("places", "told"),
    [
        ((HIGH, HIGH, HIGH), AS), ((HIGH, LOW, HIGH), DIFFERS), ((LOW, HIGH, HIGH), DIFFERS),
        ((HIGH, HIGH, LOW), DIFFERS), ((HIGH, HIGH, BOTH), OPEN), ((BOTH, LOW, HIGH), DIFFERS),
    ],
)  # fmt: skip
def test_every_position_must_be_looked_at_rightly(places: Sequence[Ends], told: str):
    labels = {"measure": "attention-accuracy", "of": "dec-cross-1.5"}
    rows = [row(ends, position=place, **labels) for place, ends in enumerate(places, 1)]
    stranger = [row(0.1, position=n, measure="attention-accuracy", of="dec-cross-1.1") for n in range(1, 4)]
    assert verdict(claims.attention_accuracy, *stranger, *rows, row(0.9, **labels)) == told


@pytest.mark.parametrize(
    ("above", "told"), [((0.6, 0.7, 0.8), AS), ((0.45, 0.55, 0.65), OPEN), ((0.2, 0.4, 0.49), DIFFERS)]
)
def test_most_tokens_must_lie_above_the_null(above: Ends, told: str):
    rows = [
        row(5.0, measure="ov-alignment", against="own row"), row(0.0, measure="ov-alignment", against="other rows"),
        row(above, measure="ov-above-null", against="other rows"),
    ]  # fmt: skip
    mine, others = ([replace(one, of=head) for one in rows] for head in ("dec-cross-1.5", "dec-cross-1.1"))
    number = 0.9 if told == DIFFERS else 0.0
    others[2] = replace(others[2], low=number, value=number, high=number)
    assert verdict(claims.alignment, *others, *mine) == told


# The exchange


def swap(measure: str, **ends: Ends | float) -> list[Row]:
    """before_answer=…, after_counterfactual=…"""
    return [
        row(value, condition=name.partition("_")[0], measure=measure, against=name.partition("_")[2])
        for name, value in ends.items()
    ]


@pytest.mark.parametrize(
    ("on_answer", "on_other", "told"),
    [
        ((0.1, 0.15, 0.2), (0.6, 0.7, 0.8), AS),
        ((0.5, 0.55, 0.65), (0.6, 0.7, 0.8), DIFFERS),  # more on the other colour, within the intervals
        ((0.6, 0.7, 0.8), (0.3, 0.4, 0.5), DIFFERS),  # moved, but not to the other side
        ((0.0, 0.05, 0.1), (0.15, 0.25, 0.3), DIFFERS),  # on the other side, but not moved beyond the intervals
    ],
)
def test_attention_changes_sides_beyond_the_intervals(on_answer: Ends, on_other: Ends, told: str):
    rows = swap(
        "attention-mass", before_answer=0.7, before_counterfactual=(0.1, 0.15, 0.2), after_answer=on_answer,
        after_counterfactual=on_other,
    )  # fmt: skip
    assert verdict(claims.attention_follows, *rows) == told


@pytest.mark.parametrize(
    ("after", "told"),
    [
        ((0.3, 0.4, 0.45), AS),
        ((0.4, 0.48, 0.55), OPEN),
        ((0.55, 0.6, 0.7), DIFFERS),  # further than in the paper
        ((0.14, 0.2, 0.3), DIFFERS),  # a rise within the intervals
        ((0.0, 0.05, 0.1), DIFFERS),
    ],
)
def test_answers_follow_when_more_do_than_before(after: Ends, told: str):
    rows = swap("exact-match", before_counterfactual=(0.05, 0.1, 0.15), after_counterfactual=after)
    rows += swap("exact-match", before_answer=0.9, after_answer=0.1)
    assert verdict(claims.answers_follow, *rows) == told


# The table


def test_a_claims_line_carries_its_own_numbers():
    told = judged(claims.carries("output", "k"), r2(0.9, of="dec-cross-1.1.k"), r2((0.3, 0.4, 0.5)))
    assert (told.low, told.value, told.high) == (0.3, 0.4, 0.5)
    assert "0.400" in told.here


def test_what_is_missing_is_not_shown():
    claim = Claim("1", "r", "c", "p", claims.carries("output", "k"))
    assert claim.judge(None, ROLES).verdict.startswith(NOT_SHOWN)
    assert claim.judge(None, ROLES, "no such role").verdict == f"{NOT_SHOWN}: no such role"
    other = made_result([r2(0.5, of="dec-cross-1.1.k")])
    assert claim.judge(other, ROLES).verdict.startswith(NOT_SHOWN)
    assert claim.judge(made_result([r2(0.5)]), {}).value is None


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
    given = made_result(rows)
    table = judge_all({"fig06_index_in_question": given, "fig10_relative_index": given}, ROLES, {})
    told = {line.claim: line for line in table if line.value is not None}
    structural = [claim for claim in CLAIMS if claim.recipe in ("fig06_index_in_question", "fig10_relative_index")]
    assert len(told) == len(structural) >= 12
    for text, line in told.items():
        site = next(site for name, site in OF.items() if name in text)
        condition = next((condition for name, condition in WITHOUT.items() if name in text), "clean")
        assert line.value == number[site, condition], text


def test_every_kind_of_verdict_is_counted():
    line = judged(claims.carries("output", "k"), r2(0.5))
    texts = (AS, AS, f"{DIFFERS}: so", f"{OPEN}: so", f"{NOT_SHOWN}: so", AS)
    told = tally([replace(line, verdict=text) for text in texts])
    assert told == f"3 {AS}, 1 {DIFFERS}, 1 {OPEN}, 1 {NOT_SHOWN}"
    assert tally([replace(line, verdict=f"{DIFFERS}: so")] * 2) == f"0 {AS}, 2 differ, 0 {OPEN}, 0 {NOT_SHOWN}"


def test_a_role_without_a_head_differs_and_one_with_heads_names_them():
    told = {line.claim: line for line in judge_all({}, {"output": ["dec-cross-0.3", "dec-cross-0.1"]}, {})}
    assert told["a head plays the role output"].here == "dec-cross-0.3, dec-cross-0.1"
    assert told["a head plays the role output"].verdict.startswith(AS)
    assert told["a head plays the role rhs-scanner"].verdict.startswith(DIFFERS)
