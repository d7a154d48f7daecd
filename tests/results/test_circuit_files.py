"""A circuit's file is read once as long as it stays what it was."""

from __future__ import annotations

from pathlib import Path

from steer.base.shipped import CHECKPOINTS
from steer.results.circuit import CIRCUIT, load_circuit


def test_a_file_that_was_written_again_is_read_again(tmp_path: Path):
    path = tmp_path / CIRCUIT
    text = (CHECKPOINTS / "seed1" / CIRCUIT).read_text()
    path.write_text(text)
    first = load_circuit(path)
    assert load_circuit(path) is first
    path.write_text(text.replace("name: seed1", "name: seed7"))  # as long as before
    assert (first.checkpoint.name, load_circuit(path).checkpoint.name) == ("seed1", "seed7")
