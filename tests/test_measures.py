"""Measures checked by hand or by another way of computing them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steer.measure.intervals import Z95, wilson


@given(st.integers(0, 300), st.integers(1, 300))
def test_wilson_ends_solve_its_equation(hits: int, total: int):
    """The interval holds the rates p for which |hits/total - p| is within z standard errors *of p*."""
    hits = min(hits, total)
    for end in wilson(hits, total):
        distance, error = abs(hits / total - end), np.sqrt(end * (1 - end) / total)
        assert distance == pytest.approx(Z95 * error, abs=1e-7)


def test_wilson_of_nothing_knows_nothing():
    assert wilson(0, 0) == (0.0, 1.0)
