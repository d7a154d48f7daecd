"""A search on the workers of a cluster gives the circuit of one process, whole or step by step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from handmade import chain, copier, episodes
from parted import scheduler

from steer.base.errors import SteerError
from steer.base.memory import MEMORY
from steer.discover import sharing
from steer.discover.api import discover
from steer.discover.lab import Helpers, Lab
from steer.discover.search import Searched, search
from steer.discover.sharing import Shared, search_of
from steer.experiments.cluster import opened
from steer.models.checkpoint import load_checkpoint, save_checkpoint
from steer.results.circuit import Circuit
from steer.results.evidence import SearchSettings

pytestmark = [pytest.mark.filterwarnings("ignore::ResourceWarning"), pytest.mark.usefixtures("png_only")]
SETTINGS = SearchSettings(episodes=20, threshold=0.1)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Two checkpoints. No circuit is kept beside them: every search is the first."""
    for name, made in (("chain", chain()), ("copier", copier())):
        save_checkpoint(tmp_path / name, made.transformer, made.record)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sharing.PREPARED.clear()


def searched(name: str, **how: object) -> Circuit:
    return discover(name, episodes=20, force=True, **how)


def chained(helpers: Helpers | None = None) -> Searched:
    """On questions that this model can answer."""
    made = load_checkpoint("chain", circuit=False)
    lab = Lab(made, episodes(12, (2, 4)), helpers=helpers)
    return search(lab, lab, 0.1, lambda done, text: None)


def shared() -> Searched:
    """The same on a cluster."""
    with scheduler() as local, opened(None, local.scheduler_address) as cluster:
        assert cluster is not None
        return chained(Shared(cluster, search_of("chain", SETTINGS, None, "cpu", "float32", MEMORY)))


def test_the_runs_of_one_search_are_shared(home: Path, monkeypatch: pytest.MonkeyPatch):
    alone, steps = chained(), []
    prepare = sharing.prepared
    monkeypatch.setattr(
        sharing, "prepared", lambda search, parcel: steps.append(search.name) or prepare(search, parcel)
    )
    spread = shared()
    assert len(alone.edges) > 2
    assert spread.edges == alone.edges
    assert spread.pruned == alone.pruned
    assert [one.groups for one in spread.traces] == [one.groups for one in alone.traces]
    assert len(steps) > 4
    assert set(steps) == {"chain"}
    ((_, _, labs),) = sharing.PREPARED.values()  # the model is loaded once, and each list of examples prepared once
    assert len(labs) == 1


def test_several_checkpoints_are_searched_whole_and_known_ones_are_read(steer, home: Path):
    alone = {name: searched(name).model_dump() for name in ("chain", "copier")}
    with scheduler() as cluster:
        ask = ("discover", "-c", "chain", "-c", "copier", "--episodes", 20, "--on", cluster.scheduler_address)
        done = steer(*ask, "--force", "--out", "spread", "--quiet")
        assert done.exit_code == 0, done.output
        for name, circuit in alone.items():
            assert f"\n{name}: spread/discover-{name}-" in done.output
            (file,) = Path("spread").glob(f"discover-{name}-*/circuit.yaml")
            assert file.read_bytes() == next(Path("results").glob(f"discover-{name}-*/circuit.yaml")).read_bytes()
            assert circuit["checkpoint"]["name"] == name
        assert steer(*ask, "--out", "spread", "--quiet").output.count("already known") == 2


def test_a_search_that_fails_stops_no_other(steer, home: Path, monkeypatch: pytest.MonkeyPatch):
    whole = Lab.clean

    def broken(self: Lab, *given: object) -> object:
        if self.checkpoint.name == "copier":
            raise ZeroDivisionError("a step went wrong")
        return whole(self, *given)

    monkeypatch.setattr(Lab, "clean", broken)
    with scheduler() as cluster:
        ask = (
            "discover",
            "-c",
            "copier",
            "-c",
            "chain",
            "--episodes",
            20,
            "--on",
            cluster.scheduler_address,
            "--force",
        )
        done = steer(*ask, "--quiet")
    assert done.exit_code == 2
    assert done.stderr.startswith("error: copier: ZeroDivisionError: a step went wrong")
    assert len(list(Path("results").glob("discover-chain-*/circuit.yaml"))) == 1


def test_a_part_that_fails_ends_the_search_with_its_fault(home: Path, monkeypatch: pytest.MonkeyPatch):
    def broken(self: Lab, *given: object) -> object:
        raise ZeroDivisionError("a step went wrong")

    monkeypatch.setattr(Lab, "is_likely", broken)
    with pytest.raises(SteerError, match="a step went wrong"):
        shared()


def test_other_weights_on_a_worker_are_refused(steer, home: Path, monkeypatch: pytest.MonkeyPatch):
    prepare = sharing.prepared

    def others(search: sharing.Search, parcel: object) -> object:
        return prepare(replace(search, name="copier"), parcel)

    monkeypatch.setattr(sharing, "prepared", others)
    with pytest.raises(SteerError, match="a worker has other weights"):
        shared()
    with scheduler() as cluster:
        ask = (
            "discover",
            "-c",
            "chain",
            "-c",
            "copier",
            "--episodes",
            20,
            "--on",
            cluster.scheduler_address,
            "--force",
        )
        done = steer(*ask, "--quiet")
    assert done.stderr == "error: chain: the worker that searched its circuit has other weights\n"
