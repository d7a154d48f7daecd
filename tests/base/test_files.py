"""Files are written whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from steer.base.errors import SteerError, nearest, unknown
from steer.base.files import write_atomically


def test_an_interrupted_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "result.json"
    write_atomically(path, "old")

    def full_disk(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("steer.base.files.os.fsync", full_disk)
    with pytest.raises(SteerError, match="No space left"):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["result.json"]


def test_an_interrupt_passes_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def interrupt(handle: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("steer.base.files.os.fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(tmp_path / "a", b"x")
    assert not list(tmp_path.iterdir())


def test_nearest_names():
    assert nearest("Dec-cros-1.5", ["dec-cross-1.5", "enc-self-0.0"])[0] == "dec-cross-1.5"
    assert "there are: a, b" in unknown("thing", "zzzz", ["a", "b"])
