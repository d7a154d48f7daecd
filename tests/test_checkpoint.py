"""Checkpoints: what is written is read back, and what is broken is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from conftest import TINY
from safetensors.torch import load_file, save_file

from steer.errors import CheckpointError
from steer.model.checkpoint import WEIGHTS, Record, load_checkpoint, save_checkpoint
from steer.model.transformer import Transformer, initialise
from steer.shipped import RECORD, checkpoint_names
from steer.task.vocabulary import TOKENS


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    model = Transformer(TINY)
    initialise(model, torch.Generator().manual_seed(3))
    save_checkpoint(tmp_path / "mine", model, Record(config=TINY, seed=3, protocol={}, history=[]))
    return tmp_path / "mine"


def edit(folder: Path, **changes: object) -> None:
    path = folder / RECORD
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_what_is_written_is_read_back(folder: Path):
    loaded = load_checkpoint(str(folder))
    expected = Transformer(TINY)
    initialise(expected, torch.Generator().manual_seed(3))
    for name, tensor in expected.state_dict().items():
        assert torch.equal(loaded.model.state_dict()[name], tensor)
    assert loaded.record.config == TINY
    assert loaded.name == "mine"
    assert not loaded.model.training
    assert load_checkpoint(str(folder), dtype=torch.float64).model.unembed.weight.dtype == torch.float64


def test_nothing_is_left_beside_the_two_files(folder: Path):
    assert sorted(path.name for path in folder.iterdir()) == [RECORD, WEIGHTS]


def change_tensors(folder: Path, change) -> None:
    tensors = load_file(folder / WEIGHTS)
    change(tensors)
    save_file(tensors, folder / WEIGHTS)


def test_all_wrong_tensors_are_named_at_once(folder: Path):
    def change(tensors: dict[str, torch.Tensor]) -> None:
        del tensors["ln_enc.bias"]
        tensors["surplus"] = torch.zeros(1)
        tensors["unembed.weight"] = torch.zeros(3, 3)

    change_tensors(folder, change)
    with pytest.raises(CheckpointError) as caught:
        load_checkpoint(str(folder))
    text = str(caught.value)
    assert "1 missing tensors: ln_enc.bias" in text
    assert "1 unexpected tensors: surplus" in text
    assert "unembed.weight is float32[3, 3], expected float32[20, 16]" in text
    assert len(caught.value.faults) == 3


def test_not_a_number_is_refused(folder: Path):
    change_tensors(folder, lambda tensors: tensors["ln_enc.bias"].fill_(torch.nan))
    with pytest.raises(CheckpointError, match=r"ln_enc\.bias holds NaN"):
        load_checkpoint(str(folder))


def test_weights_of_another_training_are_refused(folder: Path):
    change_tensors(folder, lambda tensors: tensors["ln_enc.bias"].fill_(1.0))
    with pytest.raises(CheckpointError, match="not the weights"):
        load_checkpoint(str(folder))


@pytest.mark.parametrize("size", [0, 4, 100, 5_000])
def test_a_truncated_file_is_refused(folder: Path, size: int):
    data = (folder / WEIGHTS).read_bytes()
    (folder / WEIGHTS).write_bytes(data[:size])
    with pytest.raises(CheckpointError, match="cannot be read as safetensors"):
        load_checkpoint(str(folder))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"config": {"heads": 0}}, r"config\.heads"),
        ({"config": {"heds": 2}}, r"config\.heds"),
        ({"config": {"heads": 4, "d_model": 16, "d_head": 8}}, "wrong tensors"),
        ({"vocabulary": [*TOKENS[:-1], "Z"]}, "another vocabulary"),
        ({"more": 1}, "more"),
        ({"seed": "x"}, "seed"),
    ],
)
def test_a_wrong_record_is_refused(folder: Path, changes: dict, says: str):
    edit(folder, **changes)
    with pytest.raises(CheckpointError, match=says):
        load_checkpoint(str(folder))


def test_a_broken_record_is_refused(folder: Path):
    (folder / RECORD).write_text("{")
    with pytest.raises(CheckpointError, match="JSON"):
        load_checkpoint(str(folder))


def test_an_unknown_name_is_answered_with_the_nearest(folder: Path):
    name = checkpoint_names()[0]
    with pytest.raises(CheckpointError, match=f"did you mean.*{name}"):
        load_checkpoint(name + "x")
    with pytest.raises(CheckpointError, match="not a checkpoint"):
        load_checkpoint(str(folder.parent))


@pytest.mark.parametrize("name", checkpoint_names())
def test_every_shipped_checkpoint_loads_and_was_evaluated(name: str):
    record = load_checkpoint(name).record
    assert record.accuracy is not None
    assert record.history
    assert record.description


def test_checkpoints_are_shipped():
    assert checkpoint_names()


@pytest.mark.parametrize("value", [torch.inf, -torch.inf, torch.nan])
def test_one_number_that_is_not_finite_is_refused(folder: Path, value: float):
    def change(tensors: dict[str, torch.Tensor]) -> None:
        tensors["unembed.weight"][3, 5] = value

    change_tensors(folder, change)
    with pytest.raises(CheckpointError, match=r"unembed\.weight"):
        load_checkpoint(str(folder))
