"""Batches in processes of their own, with real processes that really are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from steer.experiments.many import Job, Outcome, run_paths
from steer.experiments.processes import in_processes


def square(number: int) -> tuple[int, int]:
    return number**2, os.getpid()


def killed(number: int, folder: Path, times: int) -> int:
    """Work during which the process is killed, the first few times that it is asked for 3."""
    if number == 3 and len(list(folder.iterdir())) < times:
        (folder / str(os.getpid())).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def test_every_thing_is_worked_on_once_by_as_many_processes():
    found = dict(in_processes(square, range(6), 2))
    assert {number: made[0] for number, made in found.items()} == {n: n**2 for n in range(6)}
    workers = {made[1] for made in found.values()}
    assert 1 <= len(workers) <= 2
    assert os.getpid() not in workers


@pytest.mark.parametrize(("times", "third"), [(1, 3), (2, None)])
def test_a_killed_process_loses_its_own_work_at_most(tmp_path: Path, times: int, third: int | None):
    found = dict(in_processes(partial(killed, folder=tmp_path, times=times), range(6), 2))
    assert found == {0: 0, 1: 1, 2: 2, 3: third, 4: 4, 5: 5}
    assert len(list(tmp_path.iterdir())) == times  # in a process of its own each time


def lost_over_b(path: Path, job: Job) -> Outcome:
    if path.stem == "b":
        os.kill(os.getpid(), signal.SIGKILL)
    return Outcome(path.stem)


def test_a_lost_recipe_is_reported_in_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("steer.experiments.many.run_and_send", lost_over_b)
    paths = [Path(f"{name}.yaml") for name in "abc"]
    found = run_paths(paths, Job(out=tmp_path), 2, lambda done, text: None)
    assert [outcome.name for outcome in found] == ["a", "b", "c"]
    assert [len(outcome.faults) for outcome in found] == [0, 1, 0]
    assert "b.yaml: the process that ran it was ended from outside, 2 times" in found[1].faults[0]


def sleep(number: int, folder: Path) -> None:
    (folder / str(os.getpid())).touch()
    time.sleep(600)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat")
    return not (state.is_file() and state.read_text().rpartition(")")[2].split()[0] == "Z")  # one that nobody reaps


def until(condition, seconds: float = 60) -> bool:
    ends = time.monotonic() + seconds
    while time.monotonic() < ends and not condition():
        time.sleep(0.05)
    return bool(condition())


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_when_the_parent_goes_its_workers_go(tmp_path: Path, how: signal.Signals):
    code = (
        "from functools import partial; from pathlib import Path; from test_workers import sleep\n"
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # shells may ignore it
        "from steer.experiments.processes import in_processes\n"
        f"if __name__ == '__main__': list(in_processes(partial(sleep, folder=Path({str(tmp_path)!r})), [1, 2], 2))"
    )
    where = os.pathsep.join([str(Path(__file__).parent), str(Path(__file__).parents[2])])
    parent = subprocess.Popen(
        [sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": where}, stderr=subprocess.DEVNULL
    )
    try:
        assert until(lambda: len(list(tmp_path.iterdir())) == 2)
        workers = [int(path.name) for path in tmp_path.iterdir()]
        assert all(map(is_alive, workers))
        parent.send_signal(how)
        assert until(lambda: not any(map(is_alive, workers)))
        parent.wait(60)
    finally:
        parent.kill()
        parent.wait()


@pytest.mark.parametrize("finished", [0, 2])
def test_an_interrupt_says_what_is_kept_if_anything_is(steer, tmp_path: Path, monkeypatch, finished: int):
    for name in "abc":
        (tmp_path / f"{name}.yaml").write_text("kind: clean\nmeasures: [{name: exact-match}]\n")

    def run(path: Path, *rest: object) -> Outcome:
        if path.stem == "abc"[finished]:
            raise KeyboardInterrupt
        return Outcome(path.stem)

    monkeypatch.setattr("steer.experiments.many.run_one", run)
    done = steer("run", tmp_path, "--out", tmp_path / "out")
    assert done.exit_code == 130
    assert done.stderr.strip() == (
        "interrupted; 2 of 3 results were finished and are kept" if finished else "interrupted"
    )
