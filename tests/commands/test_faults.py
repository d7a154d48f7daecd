"""Faults that were found by trying, each with the answer it gets now."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import TINY, write_roles
from handmade import copier
from made import made_result, made_row

from steer.base.errors import SteerError
from steer.base.shipped import CHECKPOINTS
from steer.experiments.folders import results_folder
from steer.models.checkpoint import load_checkpoint, save_checkpoint
from steer.models.plain.transformer import Transformer
from steer.models.record import read_record
from steer.results.circuit import CIRCUIT
from steer.results.files import read_result, write_result


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder of its own, for commands that choose where they write."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


ROOT = Path(__file__).parents[2]
STEER = [sys.executable, str(ROOT / "cli.py")]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("command", [["ls"], ["--help"], ["episodes", "--n", "1"]])
def test_a_full_disk_is_told(command: list[str]):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([*STEER, *command], stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (2, "error: No space left on device\n")


def test_a_reader_that_has_seen_enough_is_no_fault():
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([*STEER, "ls"], stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, "")


def test_closed_output_is_no_fault(tmp_path: Path):
    """As under `>&-`, where Python has no stream to ask whether it is a terminal."""
    write_result(made_result([made_row(0.5, 0.4, 0.6)]), tmp_path / "one")
    closed = ["sh", "-c", 'exec "$@" >&-', "sh"]
    done = subprocess.run([*closed, *STEER, "compare", tmp_path / "one", tmp_path / "one"], stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_copy_that_does_not_fit_is_told(steer, elsewhere: Path, monkeypatch: pytest.MonkeyPatch):
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    done = steer("cp", "tiny", "mine")
    assert (done.exit_code, done.stderr) == (2, "error: cannot write mine/checkpoint.json: No space left on device\n")


def test_a_place_is_named_once(steer, elsewhere: Path):
    (elsewhere / "self.yaml").write_text("a: &a [*a]")
    done = steer("run", "self.yaml", "--quiet")
    assert done.exit_code == 2
    assert "error: self.yaml:1:4: nested too deeply" in done.stderr


def test_arguments_that_are_no_text_are_refused():
    done = subprocess.run([*map(os.fsencode, STEER), b"validate", b"\xff\xfe"], capture_output=True)
    assert done.returncode == 2
    assert b"is not text" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["draw", "nosuch"], "error: there is no file or folder nosuch\n"),
        (["draw", "."], "error: .: holds no result.json\n"),
        (["run", "keep_one_k", "--out", "file"], "error: cannot make the folder file: file is a file\n"),
        (["eval", "--out", "file/x", "-c", "tiny"], "error: cannot make the folder file/x: file is a file\n"),
        (["cp", "keep_one_k", "x" * 300], f"error: {'x' * 300}: File name too long\n"),
    ],
)
def test_places_that_cannot_be_are_named(steer, elsewhere: Path, arguments: list[str], says: str):
    (elsewhere / "file").write_text("")
    done = steer(*arguments)
    assert (done.exit_code, done.stderr) == (2, says)


@pytest.mark.parametrize("kept", [False, True])
def test_an_interrupted_training_says_whether_it_can_go_on(steer, elsewhere: Path, monkeypatch, kept: bool):
    from steer.models.training.loop import STATE, Trainer

    def interrupted(trainer: Trainer, out: Path, tell: object) -> None:
        (out / STATE).touch() if kept else None
        raise KeyboardInterrupt

    monkeypatch.setattr(Trainer, "run", interrupted)
    done = steer("train", "--preset", "tiny", "--out", "run", "--quiet")
    assert done.exit_code == 130
    assert done.stderr == ("interrupted; --resume goes on from the last whole epoch\n" if kept else "interrupted\n")


def test_peak_memory_is_not_that_of_who_asks():
    """The benchmark's table: a small program, started by one that holds 300 MB."""
    small = f"import sys; sys.path.insert(0, {str(ROOT / 'benchmarks')!r}); import peak; print(peak.peak_kilobytes())"
    large = f"import subprocess, sys; held = bytes(3 * 10**8); subprocess.run([sys.executable, '-c', {small!r}])"
    done = subprocess.run([sys.executable, "-c", large], capture_output=True, text=True, check=True)
    assert 1_000 < int(done.stdout) < 150_000


def test_importing_the_engine_leaves_every_object_alone():
    import steer.engine.backends.mounting

    assert steer.engine.backends.mounting.NNsight
    assert not any(hasattr(thing, "save") for thing in (3, "x", object(), object, [], steer))


def test_a_result_saves_itself_even_where_every_object_can(tmp_path: Path):
    """As it is when somebody imported nnsight before steer."""
    import nnsight
    from nnsight._c import mount, unmount

    import steer.engine.backends.mounting  # noqa: F401  (after it, `save` is off)

    result = made_result([made_row(0.5, 0.4, 0.6)])
    mount(nnsight.save, "save")
    try:
        assert hasattr(3, "save")
        assert result.save(tmp_path / "one") == tmp_path / "one"
    finally:
        unmount("save")
    result.save(str(tmp_path / "two"))
    write_result(result, tmp_path / "three")
    files = [{p.name: p.read_bytes() for p in (tmp_path / name).iterdir()} for name in ("one", "two", "three")]
    assert files[0] == files[1] == files[2]
    assert read_result(tmp_path / "one").rows == result.rows


def test_checkpoints_of_one_name_write_to_folders_of_their_own(elsewhere: Path):
    for number, parent in enumerate(("a", "b")):
        model = Transformer(TINY)
        model.unembed.bias.data.fill_(number)
        save_checkpoint(elsewhere / parent / "mine", model, copier().record.model_copy(update={"config": TINY}))
    folders = {results_folder("eval", str(elsewhere / parent / "mine")) for parent in ("a", "b")}
    assert len(folders) == 2
    assert {folder.name[:10] for folder in folders} == {"eval-mine-"}
    assert results_folder("eval", "tiny") == Path("results/eval-tiny")
    shutil.copytree(CHECKPOINTS / "tiny", elsewhere / "tiny")
    hash8 = read_record(elsewhere / "tiny").weights_sha256[:8]
    assert results_folder("eval", str(elsewhere / "tiny"), "x") == Path(f"results/eval-tiny-{hash8}-x")


WORK = (
    "steer.experiments.ask.ask",
    "steer.experiments.component.component_page",
    "steer.experiments.attend.attention_pattern",
)  # not looked at here

STUB = SimpleNamespace(sites=(), prompt="a prompt", variable="a variable", component="dec-mlp-0", head="dec-self-0.1")


@pytest.mark.parametrize(
    "arguments",
    [["eval"], ["reproduce"], ["attend", "--head=dec-self-0.1"], ["attribute", "--head=dec-mlp-0"], ["ask"]],
)
def test_every_command_goes_by_that_folder(steer, elsewhere: Path, monkeypatch: pytest.MonkeyPatch, arguments):
    shutil.copytree(CHECKPOINTS / "tiny", elsewhere / "mine")
    made = []

    def stop(folder: Path) -> None:
        made.append(str(folder))
        raise SteerError("stopped")

    monkeypatch.setattr("steer.base.files.make_folder", stop)
    for name in WORK:
        monkeypatch.setattr(name, lambda *given, **more: STUB)
    assert "stopped" in steer(*arguments, "--checkpoint", elsewhere / "mine").stderr
    assert made[0].startswith(f"results/{arguments[0]}-mine-{read_record(elsewhere / 'mine').weights_sha256[:8]}")


@pytest.fixture
def untouched(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search for a circuit is a failure."""

    def search(*arguments: object) -> None:
        raise AssertionError("searched")

    monkeypatch.setattr("steer.discover.sought.discover", search)


@pytest.mark.parametrize(
    ("home", "broken"),
    [(True, "roles: ["), (True, "nobody"), (True, "a: b"), (False, "roles: ["), (False, "a: b")],
)
@pytest.mark.usefixtures("untouched")
def test_a_broken_circuit_is_told_and_not_searched(steer, elsewhere: Path, home: bool, broken: str):
    """Beside the weights, or in the results."""
    folder = elsewhere / "mine"
    shutil.copytree(CHECKPOINTS / "tiny", folder)
    if broken == "nobody":
        write_roles(folder, {"output": ["nobody"]})
    else:
        place = folder if home else results_folder("discover", str(folder))
        place.mkdir(parents=True, exist_ok=True)
        (place / CIRCUIT).write_text(broken)
    done = steer("discover", "-c", folder)
    assert done.exit_code == 2, done.output
    assert CIRCUIT in done.stderr
    assert str(steer("discover", "-c", folder, "--force").exception) == "searched"


def test_a_checkpoint_of_this_folder_has_a_name(elsewhere: Path, monkeypatch: pytest.MonkeyPatch):
    shutil.copytree(CHECKPOINTS / "tiny", elsewhere / "mine")
    monkeypatch.chdir(elsewhere / "mine")
    assert load_checkpoint(".").name == "mine"
