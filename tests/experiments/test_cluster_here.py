"""The way through a cluster, on a scheduler and a worker in this process: quick, with nothing that dies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Timer

import pytest
from parted import assert_same_rows, scheduler
from small import checkpoint

from steer.experiments import orders
from steer.experiments.api import build_recipe, run_many
from steer.experiments.cluster import Doing, Round, opened
from steer.experiments.many import Job, Outcome, run_paths
from steer.experiments.orders import order_of
from steer.models.checkpoint import save_checkpoint

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")
PARTS = """
kind: keep-only-one
checkpoint: model
target: dec-cross-1.0.k
sources: 'enc-self-*.*'
episodes: {split: test, count: 510}
measures: [{name: attention-accuracy, heads: dec-cross-1.0}]
"""
SWEEP = """
kind: ablate-set
checkpoint: model
nodes: ['enc-self-{layer}.*']
episodes: {split: test, count: 12}
measures: [{name: answer-probability}]
sweep: {layer: [0, 1], checkpoint: [model, other]}
"""
WRONG = SWEEP.replace("12", "12, arity: 9")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for seed, name in enumerate(("model", "other")):
        made = checkpoint(seed)
        save_checkpoint(tmp_path / name, made.transformer.float(), made.record)
    for name, text in (("parts", PARTS), ("sweep", SWEEP), ("wrong", WRONG)):
        (tmp_path / f"{name}.yaml").write_text(text)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for kept in (orders.SUBJECTS, orders.EXPERIMENTS):
        kept.clear()


def spread(address: str, *paths: str, force: bool = False) -> list[Outcome]:
    with opened(None, address) as cluster:
        return run_paths(list(map(Path, paths)), Job(out=Path("spread"), force=force), 1, lambda *_: None, cluster)


class Lost:
    """A client whose one future is lost with its worker, and done again."""

    def __init__(self, status: str) -> None:
        self.status, self.asked = status, 0

    def submit(self, *given: object, **named: object) -> Lost:
        return Lost("lost")

    def add_done_callback(self, function: object) -> None:
        self.asked += 1


def test_what_is_lost_with_a_worker_is_waited_for_however_long_it_takes():
    """It is no sign that the scheduler has gone: all would begin anew, and a part that kills would do so for ever."""
    one = Doing(order_of(build_recipe("one", kind="clean", measures=[{"name": "exact-match"}])))
    going = Round(Lost("running"), [one.order], lambda order, done: None)
    going.doing = [one]
    future = going.submit(one, "gather", len)
    (key,) = one.futures
    Timer(1.5, lambda: going.ended.put((one, key))).start()
    assert going._next() == (one, key)
    assert going._after(one, key) is None
    assert future.asked == 2


def test_a_batch_with_a_sweep_gives_the_results_of_one_process(home: Path):
    (home / "again").mkdir()
    (home / "again" / "parts.yaml").write_text(PARTS)
    paths = ["parts.yaml", "sweep.yaml", "wrong.yaml", "again/parts.yaml"]
    alone = run_many(paths, out="alone")
    with scheduler() as cluster:
        found = spread(cluster.scheduler_address, *paths)
        for one, other in zip(alone, found, strict=True):
            assert one.faults == other.faults
            assert (one.result is None) is (other.result is None) is (one.name == "wrong")
            if one.result is not None and other.result is not None:
                assert_same_rows(one.result.rows, other.result.rows)
                assert [row.levels for row in one.result.rows] == [row.levels for row in other.result.rows]
                assert one.result.provenance.hash == other.result.provenance.hash
        assert len({row.levels for row in found[1].result.rows}) == 4
        again = spread(cluster.scheduler_address, *paths[:2])
        assert [outcome.unchanged for outcome in again] == [True, True]
        assert not spread(cluster.scheduler_address, "sweep.yaml", force=True)[0].unchanged
    assert {path.name for path in Path("spread").iterdir()} == {path.name for path in Path("alone").iterdir()}
