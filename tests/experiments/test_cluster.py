"""Batches on the workers of a cluster: real processes, some of which are killed, and schedulers that go."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import sabotage
from parted import assert_same_rows, scheduler
from small import checkpoint

from steer.base.errors import SteerError
from steer.experiments import cluster as clusters
from steer.experiments.api import run_many
from steer.experiments.cluster import Cluster, opened
from steer.experiments.many import Job, Outcome, run_paths
from steer.models.checkpoint import save_checkpoint

pytestmark = [pytest.mark.filterwarnings("ignore::ResourceWarning"), pytest.mark.long]  # clusters die and come back
SWEEP = """
kind: keep-only-one
checkpoint: model
target: dec-cross-1.0.k
sources: 'enc-self-*.*'
episodes: {split: test, count: 620}
measures: [{name: attention-accuracy, heads: dec-cross-1.0}]
"""
RESAMPLED = SWEEP.replace("measures:", "ablation: {value: resample}\nmeasures:")
WRITTEN = """
kind: ablate-set
checkpoint: model
nodes: [enc-self-1.1]
episodes: {split: test, count: 260}
measures: [{name: exact-match, decoding: greedy}, {name: logit-attribution}]
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model and a recipe, where the command is given."""
    made = checkpoint()
    save_checkpoint(tmp_path / "model", made.transformer.float(), made.record)
    (tmp_path / "killed").mkdir()
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def two() -> Iterator[Cluster]:
    with opened(2, None) as cluster:
        assert cluster is not None
        yield cluster


def spread(cluster: Cluster, *names: str, out: str = "spread", **job: object) -> dict[str, Outcome]:
    paths = [Path(f"{name}.yaml") for name in names]
    return {
        outcome.name: outcome for outcome in run_paths(paths, Job(out=Path(out), **job), 1, lambda *_: None, cluster)
    }


def alone(name: str) -> Outcome:
    (outcome,) = run_many([f"{name}.yaml"], out="alone")
    assert not outcome.faults
    return outcome


def assert_as_alone(outcome: Outcome) -> None:
    assert outcome.result is not None, outcome.faults
    one = alone(outcome.name).result
    assert one is not None
    assert_same_rows(one.rows, outcome.result.rows)
    assert one.provenance.hash == outcome.result.provenance.hash


def test_workers_give_the_rows_of_one_process_and_load_a_model_once(home: Path, two: Cluster):
    (home / "resampled.yaml").write_text(RESAMPLED)
    (home / "written.yaml").write_text(WRITTEN)
    found = spread(two, "sweep", "resampled", "written")
    assert len(found) == 3
    for outcome in found.values():
        assert_as_alone(outcome)
    before = two.client.run(sabotage.kept)
    again = spread(two, "sweep")["sweep"]
    assert again.unchanged
    assert again.result is not None
    spread(two, "sweep", force=True)
    assert two.client.run(sabotage.kept) == before
    models = [model for its in before.values() for model in its]
    assert 1 <= len(models) <= 2  # one for each process at most
    assert {threads for _, threads in models} == {
        int(os.environ.get("OMP_NUM_THREADS", max(1, (os.cpu_count() or 1) // 2)))
    }


def test_a_killed_worker_loses_nothing_and_a_part_that_kills_is_given_up(
    home: Path, two: Cluster, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("steer.experiments.orders.gather", sabotage.killing)
    for name in ("sabotaged_1", "sabotaged_9"):
        (home / f"{name}.yaml").write_text(SWEEP)
    found = spread(two, "sabotaged_1")["sabotaged_1"]
    assert len(list((home / "killed").iterdir())) == 1
    assert_as_alone(found)  # done again, and counted once
    both = spread(two, "sabotaged_9", "sweep")
    assert both["sabotaged_9"].result is None
    assert (
        "sabotaged_9.yaml: the worker that ran it was ended from outside, 2 times over" in both["sabotaged_9"].faults[0]
    )
    assert_as_alone(both["sweep"])


def test_a_shard_that_raises_is_reported_and_the_others_go_on(
    home: Path, two: Cluster, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("steer.experiments.orders.gather", sabotage.raising)
    (home / "sabotaged.yaml").write_text(SWEEP)
    (home / "wrong.yaml").write_text(SWEEP.replace("620", "620, arity: 9"))
    (home / "unmade.yaml").write_text("kind: nothing\n")
    found = spread(two, "sabotaged", "wrong", "unmade", "sweep")
    assert [str(fault) for fault in found["sabotaged"].faults] == [
        f"sabotaged.yaml: ZeroDivisionError: a shard went wrong ({clusters.work.BUG})"
    ]
    assert "raise ZeroDivisionError" in found["sabotaged"].traceback
    assert found["wrong"].faults == run_many(["wrong.yaml"], out="alone")[0].faults
    assert found["unmade"].faults == run_many(["unmade.yaml"], out="alone")[0].faults
    assert_as_alone(found["sweep"])
    assert sorted(path.name[:5] for path in (home / "spread").iterdir()) == ["sweep"]


def test_a_model_whose_folder_a_worker_does_not_see_is_sent(home: Path, two: Cluster, monkeypatch: pytest.MonkeyPatch):
    here = alone("sweep")
    monkeypatch.setattr("steer.experiments.cluster.work.begin", sabotage.unseeing)
    outcome = spread(two, "sweep")["sweep"]
    assert outcome.result is not None, outcome.faults
    assert here.result is not None
    assert_same_rows(here.result.rows, outcome.result.rows)
    assert outcome.result.provenance.checkpoint.name == "model"


def test_a_worker_without_memory_is_ended_and_its_recipe_reported(home: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("steer.experiments.orders.gather", sabotage.greedy)
    (home / "sabotaged.yaml").write_text(SWEEP)
    monkeypatch.setattr(clusters, "LIMIT", "1200MB")
    with opened(1, None) as cluster:
        assert cluster is not None
        found = spread(cluster, "sabotaged", "sweep")
    assert "is memory short?" in found["sabotaged"].faults[0]
    assert_as_alone(found["sweep"])


def test_a_scheduler_that_comes_back_gets_the_rest(home: Path, monkeypatch: pytest.MonkeyPatch):
    """It goes while a part is at work, and a new one takes its address."""
    monkeypatch.setattr("steer.experiments.orders.gather", sabotage.slow)
    first = scheduler()
    port, found = first.scheduler.port, {}
    with opened(None, first.scheduler_address) as cluster:
        assert cluster is not None
        going = threading.Thread(target=lambda: found.update(spread(cluster, "sweep")))
        going.start()
        assert until(lambda: (home / "killed" / "begun").exists())
        first.close(timeout=2)
        second = scheduler(port)
        going.join(120)
    second.close()
    assert_as_alone(found["sweep"])


def test_a_scheduler_that_stays_away_is_an_error_that_says_what_is_kept(home: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(clusters, "PATIENCE", 1.0)
    with (
        pytest.raises(SteerError, match=r"--on tcp://127\.0\.0\.1:9: no scheduler answers there"),
        opened(None, "tcp://127.0.0.1:9"),
    ):
        pass
    first = scheduler()
    with opened(None, first.scheduler_address) as cluster:
        assert cluster is not None
        assert_as_alone(spread(cluster, "sweep")["sweep"])
        first.close(timeout=2)
        with pytest.raises(SteerError, match="0 of 1 results were finished and are kept"):
            spread(cluster, "sweep", force=True)


def test_options_that_exclude_each_other_are_refused(steer, home: Path):
    done = steer("run", "sweep.yaml", "--workers", 2, "--on", "tcp://127.0.0.1:9")
    assert done.exit_code == 2
    assert "give one of them" in done.stderr


def until(condition, seconds: float = 120) -> bool:
    ends = time.monotonic() + seconds
    while time.monotonic() < ends and not condition():
        time.sleep(0.05)
    return bool(condition())


def is_alive(pid: int) -> bool:
    state = Path(f"/proc/{pid}/stat")
    try:
        return state.read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_worker_outlives_the_command(tmp_path: Path, how: signal.Signals):
    code = (
        "import os, sys, time, signal; from pathlib import Path; from steer.experiments.cluster import opened\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # shells may ignore it
        "if __name__ == '__main__':\n"
        "    with opened(2, None) as cluster:\n"
        "        pids = cluster.client.run(os.getpid)\n"
        f"        Path({str(tmp_path / 'pids')!r}).write_text(' '.join(map(str, pids.values())))\n"
        "        time.sleep(600)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)
    try:
        assert until(lambda: (tmp_path / "pids").exists() and (tmp_path / "pids").read_text())
        workers = list(map(int, (tmp_path / "pids").read_text().split()))
        assert len(workers) == 2
        assert all(map(is_alive, workers))
        parent.send_signal(how)
        assert until(lambda: not any(map(is_alive, workers)))
        parent.wait(60)
    finally:
        parent.kill()
        parent.wait()
