"""Two results side by side: intervals of differences against published ones, and against a bootstrap over pairs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from made import made_result, made_row

from steer.base.errors import SteerError
from steer.results.compare import compare_results, difference
from steer.results.files import read_result, write_result
from steer.results.intervals import wilson
from steer.results.result import Result
from steer.results.rows import Labels, Row
from steer.results.samples import Samples, sampled
from steer.results.tally import Tally, bootstrap_weights
from steer.tasks.task import PlainExample

LABELS = Labels("clean", "exact-match")


def share(hits: int, total: int) -> Row:
    return made_row(hits / total, *wilson(hits, total))


def made(values: np.ndarray, counts: np.ndarray | None = None, hits: bool = True, examples: str = "same") -> Result:
    """A result of one measure, with what each example gave."""
    tally = Tally(len(values), values.shape[1], hits, LABELS)
    tally.put(list(range(len(values))), values, np.ones_like(values) if counts is None else counts)
    rows = tally.table(bootstrap_weights(len(values), 0))
    return replace(made_result(rows), samples=Samples(examples, {LABELS: tally.values}, {LABELS: tally.counts}))


def test_independent_shares_have_newcombes_interval():
    """Newcombe (1998), Statistics in Medicine 17, table II, method 10: 56/70 - 48/80, and three more."""
    for (a, m, b, n), low, high in (
        ((56, 70, 48, 80), 0.0524, 0.3339), ((9, 10, 3, 10), 0.1705, 0.8090),
        ((10, 10, 0, 20), 0.6791, 1.0000), ((10, 10, 0, 10), 0.6075, 1.0000),
    ):  # fmt: skip
        found = difference(share(b, n), share(a, m))
        assert (found.low, min(found.high, 1)) == pytest.approx((low, high), abs=6e-5)


@pytest.mark.parametrize("rho", [0.9, 0.5, 0.0, -0.5])
def test_paired_intervals_agree_with_a_bootstrap_over_pairs(rho: float):
    rng = np.random.default_rng(1)
    normal = rng.multivariate_normal([0.2, 0.5], [[1, rho], [rho, 1]], 900)
    one, other = ((normal[:, n : n + 1] > 0).astype(float) for n in (0, 1))
    found = compare_results(made(one), made(other))
    assert found.pairing == "paired"
    drawn = bootstrap_weights(900, 5, 4_000) @ (other - one)[:, 0] / 900
    low, high = np.percentile(drawn, [2.5, 97.5])
    assert (found.differences[0].low, found.differences[0].high) == pytest.approx((low, high), abs=0.006)


def test_ratios_over_positions_are_paired_by_what_each_example_moves():
    rng = np.random.default_rng(2)
    counts = (np.arange(5) < rng.integers(1, 6, (800, 1))).astype(float)
    shared = rng.normal(size=(800, 1))
    noise = np.array([0.3, 0.3, 0.3, 2, 0.3])  # pairs go together everywhere but at the fourth place
    one, other = (shared + noise * rng.normal(size=(800, 5)) + shift for shift in (4.0, 4.1))
    found = compare_results(made(one, counts, False), made(other, counts, False))
    weights = bootstrap_weights(800, 7, 4_000)
    drawn = (weights @ ((other - one) * counts).sum(1)) / (weights @ counts.sum(1))
    low, high = np.percentile(drawn, [2.5, 97.5])
    assert (found.differences[0].low, found.differences[0].high) == pytest.approx((low, high), abs=0.015)
    independent = difference(found.differences[0].first, found.differences[0].second)
    assert independent.high - independent.low > 2 * (high - low)
    by_place = {one.first.position: one for one in found.differences}
    drawn = (weights @ ((other - one) * counts)[:, 3]) / (weights @ counts[:, 3])
    assert (by_place[4].low, by_place[4].high) == pytest.approx(tuple(np.percentile(drawn, [2.5, 97.5])), abs=0.03)


def test_other_examples_or_none_kept_are_independent():
    values = np.repeat([[1.0], [0.0]], 50, 0)
    same = made(values)
    for other in (made(values, examples="others"), replace(same, samples=None)):
        found = compare_results(same, other)
        assert found.pairing == "independent"
        assert found.differences[0].high > 0.1
    assert compare_results(same, same).differences[0].high == pytest.approx(0)


def test_rows_are_matched_by_all_that_they_are_of():
    def rows(*heads: str) -> list[Row]:
        return [made_row(0.5, 0.4, 0.6, condition=name, of=head) for name in ("a", "b") for head in heads]

    one = made_result([*rows("dec-cross-1.4"), made_row(0.1, 0, 0.2, condition="alone")])
    found = compare_results(one, made_result(rows("dec-cross-1.4", "dec-cross-1.5")))
    assert [pair.first.condition for pair in found.differences] == ["a", "b"]
    assert [len(rows) for rows in found.only] == [1, 2]
    renamed = compare_results(one, made_result(rows("dec-cross-0.7")))  # another model's head, and there is no doubt
    assert [(pair.first.of, pair.second.of) for pair in renamed.differences] == [("dec-cross-1.4", "dec-cross-0.7")] * 2
    with pytest.raises(SteerError, match="no row of the same thing"):
        compare_results(one, made_result([made_row(0.5, 0.4, 0.6, measure="other")]))


def test_a_head_is_set_beside_another_models_only_where_there_is_no_doubt():
    def result(*heads: str) -> Result:
        same = made_row(0.5, 0.4, 0.6, condition="both")
        return made_result([same, *(made_row(0.5, 0.4, 0.6, of=head) for head in heads)])

    for one, other in ((("dec-cross-1.4", "dec-cross-1.5"), ("dec-cross-0.7",)), (("dec-cross-1.4",), ("a", "b"))):
        for first, second in ((one, other), (other, one)):
            found = compare_results(result(*first), result(*second))
            assert [pair.first.condition for pair in found.differences] == ["both"]
            assert [tuple(row.of for row in rows) for rows in found.only] == [first, second]


def test_the_same_prompts_with_other_right_answers_are_other_examples():
    """Rows of the two are of different questions: what an example gave to one says nothing of the other."""
    asked = [[PlainExample(("ant", word), (answer,)) for word in ("bee", "cat")] for answer in ("dog", "elk")]
    assert [str(one) for one in asked[0]] == [str(one) for one in asked[1]]
    values = np.repeat([[1.0], [0.0]], 50, 0)
    results = [made(values, examples=sampled(some, ()).examples) for some in (asked[0], asked[0], asked[1])]
    found = [compare_results(results[0], other).pairing for other in results]
    assert found == ["paired", "paired", "independent"]


def test_what_each_example_gave_is_read_back(tmp_path: Path):
    one = made(np.random.default_rng(0).random((7, 3)) > 0.5)
    write_result(one, tmp_path)
    again = read_result(tmp_path).samples
    assert again.examples == "same"
    assert np.array_equal(again.values[LABELS], one.samples.values[LABELS])
    (tmp_path / "examples.safetensors").write_bytes(b"broken")
    with pytest.raises(SteerError, match="is not as `steer run` writes it"):
        read_result(tmp_path)
