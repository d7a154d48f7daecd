"""Circuits on disk: beside the weights, side by side, and of every checkpoint that is shipped."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from handmade import copier
from tokens import ROLES

from steer.base.shipped import CHECKPOINTS
from steer.discover.keep import capable
from steer.discover.table import compare
from steer.models.checkpoint import load_checkpoint, save_checkpoint

pytestmark = pytest.mark.usefixtures("png_only")


def test_a_known_circuit_is_put_beside_the_weights(steer, tmp_path: Path):
    made = copier()
    save_checkpoint(tmp_path / "copier", made.transformer, made.record)
    ask = ("discover", "-c", tmp_path / "copier", "--episodes", 20, "--out", tmp_path / "out")
    assert steer(*ask).exit_code == 0
    (tmp_path / "copier" / "circuit.yaml").unlink()
    assert "already known" in steer(*ask).output
    assert load_checkpoint(str(tmp_path / "copier")).circuit is not None
    other = tmp_path / "b" / "copier"
    save_checkpoint(other, made.transformer, made.record)
    both = steer("discover", "-c", tmp_path / "copier", "-c", other, "--out", tmp_path / "out")
    assert both.exit_code == 2
    assert "same name" in both.output


RECORDS = {path.parent.name: json.loads(path.read_text()) for path in sorted(CHECKPOINTS.glob("*/checkpoint.json"))}
ABLE = [name for name, told in RECORDS.items() if told["accuracy"]["exact_match"] >= 0.9]


def test_the_capable_checkpoints_are_those_that_do_the_task():
    assert {"seed1", "seed2", "shortcut", "deep"} <= set(ABLE)
    assert capable() == ABLE
    assert set(RECORDS) - set(ABLE)  # and not simply all that there are


@pytest.mark.parametrize("name", ABLE)
def test_every_shipped_checkpoint_that_does_the_task_has_its_circuit(steer, name: str, tmp_path: Path):
    done = steer("discover", "-c", name, "--out", tmp_path)
    assert done.exit_code == 0, done.output
    assert "already known" in done.output
    assert "smallest faithful set" in done.output
    assert (tmp_path / f"discover-{name}" / "circuit.png").stat().st_size > 10_000
    assert load_checkpoint(name).record.accuracy.exact_match >= 0.98


def test_circuits_stand_side_by_side_with_every_head_of_a_role():
    circuits = [load_checkpoint(name).circuit for name in ("seed1", "seed2")]
    lines = compare([circuit for circuit in circuits if circuit]).splitlines()
    assert lines[0].split() == ["seed1", "seed2"]
    for line, role in zip(lines[1:], ROLES, strict=False):
        assert line.split()[0] == role
        for circuit in circuits:
            heads = circuit.roles.get(role, ())
            assert ", ".join(head.rsplit("-", 1)[1] for head in heads) in line
            assert all(head.startswith(line.split("(")[1].split(")")[0]) for head in heads)
    assert len({len(line) for line in lines}) == 1  # columns are aligned to the right
