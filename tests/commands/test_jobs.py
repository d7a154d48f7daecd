"""How many processes a batch gets, and that they give what one process gives: recipes, points of a sweep, claims."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from steer.base.errors import SteerError
from steer.base.memory import MEMORY
from steer.experiments import many, processes
from steer.experiments.api import run_many
from steer.experiments.many import Job
from steer.experiments.processes import fitting, in_processes
from steer.paper.api import reproduce
from steer.results.files import read_result

GOOD = """
kind: ablate-set
checkpoint: seed1
nodes: [enc-self-1.1]
episodes: {count: 20}
measures: [{name: exact-match}]
"""
SWEEP = f"{GOOD}sweep: {{seed: [0, 1], episodes.count: [10, 20]}}\n"


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four cores, and memory for three processes."""
    monkeypatch.delenv(processes.THREADS, raising=False)
    monkeypatch.setattr(processes, "MOST", 8)
    monkeypatch.setattr(processes, "FEWEST", 2)
    monkeypatch.setattr(processes, "cores", lambda: 4)
    monkeypatch.setattr(processes, "physical_memory", lambda: 3 * MEMORY + 5)


@pytest.mark.usefixtures("machine")
def test_as_many_as_things_cores_and_memory_allow(monkeypatch: pytest.MonkeyPatch):
    assert [fitting(things, "cpu", MEMORY) for things in (1, 2, 9)] == [1, 2, 3]
    assert [fitting(9, "cpu", memory) for memory in (MEMORY // 2, 4 * MEMORY)] == [4, 1]
    assert fitting(9, "cuda:1", MEMORY) == 1
    monkeypatch.setattr(processes, "MOST", 2)
    assert fitting(9, "cpu", MEMORY) == 2
    monkeypatch.setenv(processes.THREADS, "4")
    assert fitting(9, "cpu", MEMORY) == 1


@pytest.mark.usefixtures("machine")
def test_few_things_are_not_worth_another_process(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(processes, "FEWEST", 6)
    assert [fitting(things, "cpu", MEMORY) for things in (5, 6)] == [1, 3]


@pytest.mark.usefixtures("machine")
def test_what_can_be_done_apart_decides(recipe_file, tmp_path: Path):
    good, sweep = recipe_file(GOOD, "good.yaml"), recipe_file(SWEEP, "sweep.yaml")
    bad, large = recipe_file("kind: nothing\n", "bad.yaml"), recipe_file(GOOD.replace("seed1", "hf:a/b"), "large.yaml")

    def taken(*paths: Path, asked: int | None = None, **job: object) -> int:
        return many._processes(list(map(Path, paths)), Job(**job), asked)

    assert [taken(good), taken(sweep), taken(bad), taken(good, sweep), taken(good, bad, sweep, good)] == [1, 3, 1, 2, 3]
    assert taken(good, large) == 1
    assert taken(good, large, asked=5) == 2
    assert taken(good, asked=5) == 1
    assert taken(sweep, asked=9) == 4
    assert taken(good, sweep, remote=True) == 1


def threads(number: int) -> str:
    return os.environ[processes.THREADS]


@pytest.mark.usefixtures("machine")
def test_processes_share_the_cores(monkeypatch: pytest.MonkeyPatch):
    assert dict(in_processes(threads, range(2), 9)) == {0: "2", 1: "2"}
    assert processes.THREADS not in os.environ
    monkeypatch.setenv(processes.THREADS, "3")
    assert dict(in_processes(threads, range(1), 1)) == {0: "3"}


def test_points_of_one_sweep_are_spread(steer, recipe_file, tmp_path: Path):
    path = recipe_file(SWEEP, "sweep.yaml")
    recipe_file(SWEEP.replace("20]", "20, 7_000_000]"), "wrong.yaml")
    (tmp_path / "out").mkdir()
    assert steer("run", path, "--out", tmp_path / "one", "--jobs", 1).exit_code == 0
    assert steer("run", path, "--out", tmp_path / "two", "--jobs", 2).exit_code == 0
    ((one,), (two,)) = ([read_result(folder) for folder in (tmp_path / name).iterdir()] for name in ("one", "two"))
    assert one.rows == two.rows
    assert len({row.levels for row in one.rows}) == 4
    assert one.provenance.hash == two.provenance.hash
    again = steer("run", path, "--out", tmp_path / "two", "--jobs", 2)
    assert "already" in again.output or "known" in again.output
    alone = [steer("run", tmp_path / "wrong.yaml", "--jobs", jobs, "--out", tmp_path / "out") for jobs in (1, 2)]
    assert alone[0].exit_code == alone[1].exit_code == 2
    assert alone[0].stderr == alone[1].stderr


def test_claims_are_the_same_from_processes(steer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """And a second time everything is known: no process is started for it."""
    found = []
    for jobs in (1, 2):
        done = steer("reproduce", "-c", "seed1", "--episodes", 10, "--jobs", jobs, "--out", tmp_path / str(jobs))
        assert done.exit_code == 0, done.output
        found.append((tmp_path / str(jobs) / "claims.csv").read_text())
    assert found[0] == found[1]
    monkeypatch.setattr(processes, "Worker", None)
    assert steer("reproduce", "-c", "seed1", "--episodes", 10, "--jobs", 2, "--out", tmp_path / "2").exit_code == 0


@pytest.mark.parametrize("command", [("run", "accuracy"), ("reproduce", "-c", "seed1")])
def test_options_that_exclude_each_other_are_refused(steer, tmp_path: Path, command: tuple[str, ...]):
    for more in (("--workers", 2), ("--on", "tcp://127.0.0.1:9")):
        done = steer(*command, "--jobs", 2, *more, "--out", tmp_path / "out")
        assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
        assert "--jobs starts processes of its own" in done.stderr


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"jobs": 0}, "--jobs: 1 at least, not 0"), ({"jobs": -3}, "--jobs: 1 at least, not -3"),
        ({"workers": 0}, "--workers: from 1 to 256 processes of this machine, not 0"),
        ({"workers": 10_000}, "not 10,000"), ({"on": ""}, "--on: the address of a scheduler, such as tcp"),
        ({"on": "nowhere"}, "--on nowhere: no scheduler answers there"), ({"workers": 1, "on": ""}, "give one of them"),
        ({"remote": True, "on": ""}, "leave --jobs, --workers and --on out"),
    ],
)  # fmt: skip
def test_wrong_numbers_and_addresses_are_answered(given: dict[str, object], text: str, tmp_path: Path):
    with pytest.raises(SteerError, match=re.escape(text)) as caught:
        run_many(["accuracy", "swap_index"], out=tmp_path, **given)
    assert len(caught.value.faults) == 1
    if "remote" not in given:
        with pytest.raises(SteerError, match=re.escape(text)):
            reproduce("seed1", out=tmp_path, **given)
