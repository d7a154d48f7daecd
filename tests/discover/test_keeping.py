"""What is kept of a search: the circuit's file, when it counts as known, what a broken one says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from handmade import copier, found_in

from steer.base.errors import SteerError
from steer.base.yaml import check, read
from steer.models.checkpoint import load_checkpoint, read_record, save_checkpoint
from steer.models.families import names_of
from steer.results.circuit import Circuit, Described, write_circuit

pytestmark = pytest.mark.usefixtures("png_only")


def test_discover_says_when_there_is_no_circuit(steer, tmp_path: Path):
    made = copier()
    folder = tmp_path / "copier"
    save_checkpoint(folder, made.transformer, made.record)
    done = steer("discover", "-c", folder, "--episodes", 20, "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert "no circuit was found" in done.output
    assert (folder / "circuit.yaml").is_file()  # beside the user's own weights, for recipes with roles
    known = steer("discover", "-c", folder, "--episodes", 20, "--out", tmp_path / "out", "--json")
    assert json.loads(known.output)["roles"] == {}
    (folder / "circuit.yaml").write_text("roles: [")
    ask = ("discover", "-c", folder, "--episodes", 20, "--out", tmp_path / "out")
    assert steer(*ask).exit_code == 2
    assert steer(*ask, "--force").exit_code == 0  # what is broken is searched again
    assert load_checkpoint(str(folder)).circuit is not None


def test_a_bad_checkpoint_or_option_is_answered(steer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)  # where results would be written
    assert "did you mean seed1" in steer("discover", "-c", "sed1").output
    for bad in (("--episodes", 3), ("--threshold", 0), ("-c", "seed1", "-c", "seed1x")):
        assert steer("discover", *bad).exit_code == 2
    assert not list(tmp_path.iterdir())


def test_another_question_is_searched_anew(steer, tmp_path: Path):
    made = copier()
    save_checkpoint(tmp_path / "copier", made.transformer, made.record)

    def ask(*more: object) -> tuple[bool, dict]:
        done = steer("discover", "-c", tmp_path / "copier", "--out", tmp_path / "out", *more)
        assert done.exit_code == 0, done.output
        (file,) = (tmp_path / "out").rglob("circuit.yaml")
        written = check(read(file), Circuit)
        return "already known" in done.output, written.evidence.settings.model_dump()

    assert ask("--episodes", 20) == (False, {"episodes": 20, "threshold": 0.1})
    assert ask("--episodes", 20) == (True, {"episodes": 20, "threshold": 0.1})
    assert ask("--episodes", 21) == (False, {"episodes": 21, "threshold": 0.1})
    assert ask("--episodes", 20, "--threshold", 0.3) == (False, {"episodes": 20, "threshold": 0.3})


def test_a_circuit_of_other_weights_is_no_circuit(tmp_path: Path):
    folder = tmp_path / "copier"
    made = copier()
    save_checkpoint(folder, made.transformer, made.record)
    write_circuit(found_in(made, (1, 1)), folder)  # of the record in memory, which has no hash
    assert load_checkpoint(str(folder)).circuit is None


def test_a_circuit_with_a_head_that_is_not_there_is_named(tmp_path: Path):
    folder = tmp_path / "copier"
    made = copier()
    save_checkpoint(folder, made.transformer, made.record)
    sha256 = read_record(folder).weights_sha256
    described = Described(name="copier", sha256=sha256)
    write_circuit(Circuit(checkpoint=described, roles={"output": ("dec-cross-0.7",)}), folder)
    with pytest.raises(SteerError, match=r"circuit.yaml: roles.output: no head named 'dec-cross-0.7'"):
        names_of(str(folder))


def test_a_circuit_is_drawn_again_and_a_broken_one_is_answered(steer, tmp_path: Path):
    write_circuit(found_in(copier(), (1, 1)), tmp_path)
    assert "circuit.png" in steer("draw", tmp_path).output
    assert (tmp_path / "curve.png").is_file()
    text = (tmp_path / "circuit.yaml").read_text()
    (tmp_path / "circuit.yaml").write_text(text.replace("source: enc.tok", "source: foo"))
    broken = steer("draw", tmp_path)
    assert broken.exit_code == 2
    assert "not among the circuit's members: foo" in broken.output
    assert steer("draw", tmp_path, "--figure", "bars").exit_code == 2
