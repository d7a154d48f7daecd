"""Verdicts on labels that are carried, erased, lowered or kept, on rows made for each side of each rule."""

from __future__ import annotations

from dataclasses import replace

import pytest
from judged import Ends, judged, r2, verdict

from steer.paper import rules as claims
from steer.paper.verdicts import AS, DIFFERS, NOT_SHOWN, OPEN
from steer.results.rows import Row


@pytest.mark.parametrize(
    ("ends", "null", "told"),
    [
        ((0.30, 0.40, 0.50), 0.05, AS),
        ((0.30, 0.40, 0.50), 0.35, DIFFERS),  # the value is above chance, the interval holds it
        ((0.30, 0.40, 0.50), 0.45, DIFFERS),
        ((0.30, 0.40, 0.50), 0.60, DIFFERS),
        ((0.02, 0.03, 0.04), 0.01, DIFFERS),  # above chance, and next to nothing of the variance
        ((0.08, 0.12, 0.16), 0.01, OPEN),
        ((0.08, 0.09, 0.12), 0.01, OPEN),
    ],
)
def test_a_label_is_carried_when_the_whole_interval_is_above_chance(ends: Ends, null: float, told: str):
    assert verdict(claims.carries("output", "k"), r2(ends, null)) == told


def changed(rule, before: Row, after: Row) -> str:
    return verdict(claims.changed("output", "k", "off", rule), before, replace(after, condition="off"))


@pytest.mark.parametrize("rule", [claims.erased, claims.lowered, claims.survives])
def test_what_was_not_there_is_neither_erased_nor_kept(rule):
    """Before the ablation the interval holds chance: no later number can show anything."""
    later = [r2(after) for after in (0.0, 0.02, 0.3, 0.9)]
    assert {changed(rule, r2((low, 0.40, 0.80)), after) for low in (0.04, 0.05) for after in later} == {NOT_SHOWN}
    assert NOT_SHOWN not in {changed(rule, r2((0.051, 0.40, 0.80)), after) for after in later}  # just above it


def test_a_change_that_is_not_shown_still_tells_its_numbers_and_its_rule():
    rule = claims.changed("output", "k", "off", claims.lowered)
    told = judged(rule, r2((0.04, 0.40, 0.80)), r2((0.1, 0.2, 0.3), condition="off"))
    assert (told.low, told.value, told.high) == (0.1, 0.2, 0.3)
    assert told.rule.startswith(claims.lowered.words)
    assert "before is not above chance" in told.rule


BEFORE = r2((0.55, 0.60, 0.65))


@pytest.mark.parametrize(
    ("after", "null", "told"),
    [
        ((0.005, 0.01, 0.02), 0.02, AS),
        ((0.015, 0.02, 0.03), 0.01, AS),  # above chance for sure, and hardly anything
        ((0.01, 0.02, 0.04), 0.02, OPEN),  # perhaps more than a twentieth is left
        ((0.03, 0.031, 0.04), 0.02, OPEN),
        ((0.031, 0.035, 0.04), 0.02, DIFFERS),
        ((0.05, 0.06, 0.07), 0.10, DIFFERS),  # more than a twentieth of it, though at chance
        ((0.55, 0.60, 0.65), 0.02, DIFFERS),
    ],
)
def test_erased_is_a_twentieth_left_interval_and_all(after: Ends, null: float, told: str):
    assert changed(claims.erased, BEFORE, r2(after, null)) == told


@pytest.mark.parametrize(
    ("after", "told"),
    [
        ((0.10, 0.20, 0.29), AS),
        ((0.20, 0.28, 0.35), OPEN),  # below half of 0.6 by its value alone
        ((0.25, 0.32, 0.40), OPEN),
        ((0.35, 0.40, 0.45), DIFFERS),  # lower for sure, and more than half is left for sure
        ((0.20, 0.28, 0.56), DIFFERS),  # the intervals overlap
        ((0.66, 0.80, 0.90), DIFFERS),
    ],
)
def test_lowered_is_below_half_interval_and_all(after: Ends, told: str):
    assert changed(claims.lowered, BEFORE, r2(after)) == told


@pytest.mark.parametrize(
    ("after", "null", "told"),
    [
        ((0.40, 0.50, 0.60), 0.05, AS),
        ((0.28, 0.35, 0.60), 0.05, OPEN),  # half of 0.6 lies inside
        ((0.10, 0.20, 0.29), 0.05, DIFFERS),
        ((0.40, 0.50, 0.60), 0.45, DIFFERS),  # its interval holds chance
    ],
)
def test_what_survives_is_above_chance_and_more_than_half(after: Ends, null: float, told: str):
    assert changed(claims.survives, BEFORE, r2(after, null)) == told
