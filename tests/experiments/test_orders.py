"""What a worker does with an order, in this process: known results, weights that are others, models that change."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pytest
from parted import assert_same_rows
from small import checkpoint

from steer.base.errors import SteerError
from steer.experiments import orders, pool
from steer.experiments.api import run
from steer.experiments.one import run_experiment
from steer.experiments.orders import Order, order_of
from steer.experiments.pool import Pool
from steer.experiments.spread import Sweep
from steer.experiments.work import AbsentError, Begun, Parcel, PoisonedError, parcel_of
from steer.models.checkpoint import load_checkpoint, save_checkpoint
from steer.recipe.load import load_recipe

SWEEP = """
kind: keep-only-one
checkpoint: model
target: dec-cross-1.0.k
sources: 'enc-self-*.*'
episodes: {split: test, count: 510}
measures: [{name: attention-accuracy, heads: dec-cross-1.0}]
"""


@pytest.fixture
def order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Order:
    save(tmp_path / "model", 0)
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    monkeypatch.chdir(tmp_path)
    for kept in (orders.SUBJECTS, orders.EXPERIMENTS):
        kept.clear()
    return order_of(load_recipe("sweep.yaml"))


def save(folder: Path, seed: int) -> None:
    made = checkpoint(seed)
    save_checkpoint(folder, made.transformer.float(), made.record)


def finished(order: Order, begun: Begun, parcel: Parcel | None = None):
    """All parts of an order, by hand."""
    assert begun.cut is not None
    first = [orders.average(order, begun, shards, parcel) for shards in begun.cut.first]
    averages = orders.merge_averages(first) if first else None
    parts = [orders.gather(order, begun, part, averages, parcel) for part in begun.cut.parts]
    return orders.finish(order, begun, parts, 0.0, parcel)


def test_parts_of_an_order_give_the_rows_of_one_process(order: Order):
    begun = orders.begin(order)
    assert begun.cut is not None
    assert (len(begun.cut.parts), len(begun.cut.first)) == (2, 3)
    one = run_experiment(load_recipe("sweep.yaml"), load_checkpoint("model"))
    two = finished(order, begun)
    assert_same_rows(one.rows, two.rows)
    assert one.provenance.hash == two.provenance.hash
    assert len(orders.SUBJECTS) == len(orders.EXPERIMENTS) == 1  # loaded once, prepared once


def test_a_process_does_all_parts_of_an_order(order: Order, monkeypatch: pytest.MonkeyPatch):
    one = run_experiment(load_recipe("sweep.yaml"), load_checkpoint("model"))
    begun = pickle.loads(pool.do_whole(order))
    assert begun.result is not None
    assert_same_rows(one.rows, begun.result.rows)
    broken = pickle.loads(pool.do_whole(replace(order, version="0.0.1")))
    assert "not 0.0.1" in broken.faults[0]
    monkeypatch.setattr(pool, "in_processes", lambda work, things, jobs: [(thing, None) for thing in things])
    ((came, lost),) = Pool(2).run([order])
    assert came is order
    assert "ended from outside, 2 times over" in lost.faults[0]


def test_a_small_experiment_is_a_single_part_and_a_known_one_is_none(order: Order):
    few = order_of(load_recipe("sweep.yaml", "episodes.count=20"))
    begun = orders.begin(few)
    assert begun.result is not None
    again = orders.begin(replace(few, known=frozenset([begun.content])))
    assert (again.content, again.result, again.cut) == (begun.content, None, None)
    assert orders.begin(replace(order, known=frozenset([begun.content]))).cut is not None  # another's is not its own


def test_other_weights_than_another_worker_found_are_refused(order: Order):
    begun = orders.begin(order)
    assert begun.cut is not None
    with pytest.raises(PoisonedError) as caught:
        orders.gather(order, replace(begun, weights="others"), begun.cut.parts[0], None)
    assert "other weights than on another worker" in caught.value.faults[0]


def test_a_model_that_has_changed_is_loaded_again(order: Order):
    few = order_of(load_recipe("sweep.yaml", "episodes.count=20"))
    before = orders.begin(few)
    save(Path("model"), 1)
    after = orders.begin(few)
    assert before.weights != after.weights
    assert before.content != after.content
    assert before.result is not None
    assert after.result is not None
    assert before.result.rows != after.result.rows


def test_the_same_recipe_in_another_precision_is_another_order(order: Order):
    """The worker has the model at hand in the first one."""
    few = load_recipe("sweep.yaml", "episodes.count=20")
    for dtype in ("float32", "float64", "float32"):
        begun = orders.begin(order_of(few, dtype=dtype))
        alone = run(few, "model", dtype=dtype)
        assert begun.result is not None
        assert begun.result.provenance.dtype == alone.provenance.dtype == dtype
        assert begun.content == alone.provenance.hash
        assert_same_rows(begun.result.rows, alone.rows, 1e-12)


def test_points_of_a_sweep_are_put_together_in_its_order_whichever_ends_first(order: Order):
    Path("points.yaml").write_text(f"{SWEEP.replace('510', '20')}sweep: {{seed: [0, 1], episodes.count: [10, 20, 30]}}")
    loaded = load_recipe("points.yaml")
    whole = run(loaded, "model")
    assert len({row.examples for row in whole.rows}) == 3
    sweep = Sweep(loaded, [order_of(point) for _, point in loaded.points])
    assert len({one.key for one in sweep.orders}) == 6
    ends = [4, 0, 5, 2, 1, 3]
    *early, last = [sweep.whole(number, orders.begin(sweep.orders[number])) for number in ends]
    assert early == [None] * 5
    assert isinstance(last, Begun)
    assert last.result is not None
    assert [row.levels for row in last.result.rows] == [row.levels for row in whole.rows]
    assert_same_rows(last.result.rows, whole.rows)


def test_a_model_that_is_not_there_is_asked_for_and_taken_from_a_parcel(order: Order):
    whole = finished(order, orders.begin(order))
    parcel = parcel_of(Path("model"))
    Path("model").rename("elsewhere")
    orders.SUBJECTS.clear()
    orders.EXPERIMENTS.clear()
    with pytest.raises(AbsentError):
        orders.begin(order)
    sent = finished(order, orders.begin(order, parcel), parcel)
    assert_same_rows(whole.rows, sent.rows)
    assert sent.provenance.checkpoint == whole.provenance.checkpoint


def test_a_worker_of_another_version_is_refused(order: Order):
    with pytest.raises(PoisonedError) as caught:
        orders.begin(replace(order, version="0.0.1"))
    assert "not 0.0.1" in caught.value.faults[0]


def test_equal_recipes_of_two_folders_are_two_orders(order: Order):
    """The files that they name are relative to their folders."""
    Path("elsewhere").mkdir()
    Path("elsewhere/sweep.yaml").write_text(SWEEP)
    assert order_of(load_recipe("sweep.yaml")).key == order.key
    assert order_of(load_recipe("elsewhere/sweep.yaml")).key != order.key


def test_a_folder_that_is_too_large_is_not_sent(order: Order, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("steer.experiments.work.LARGEST_PARCEL", 100)
    with pytest.raises(SteerError, match="put it on a path that they share"):
        parcel_of(Path("model"))
