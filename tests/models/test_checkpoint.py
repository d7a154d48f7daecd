"""Checkpoints: what is written is read back, and what is broken is named."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch
from conftest import TINY
from safetensors.torch import load_file, save_file

from steer.base.errors import CheckpointError, SteerError
from steer.base.shipped import RECORD, checkpoint_names
from steer.models.checkpoint import WEIGHTS, Record, load_checkpoint, save_checkpoint
from steer.models.families import names_of
from steer.models.plain.transformer import Transformer, initialise
from steer.results.circuit import CIRCUIT
from steer.tasks.compositional.splits import make_splits
from steer.tasks.compositional.vocabulary import TOKENS


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
        assert torch.equal(loaded.transformer.state_dict()[name], tensor)
    assert loaded.record.config == TINY
    assert loaded.name == "mine"
    assert not loaded.transformer.training
    assert load_checkpoint(str(folder), dtype=torch.float64).transformer.unembed.weight.dtype == torch.float64


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
    def change(tensors: dict[str, torch.Tensor]) -> None:
        tensors["ln_enc.bias"][3] = torch.nan
        tensors["unembed.weight"][0, 0] = -torch.inf

    change_tensors(folder, change)
    with pytest.raises(CheckpointError, match=r"NaN or infinity in ln_enc\.bias, unembed\.weight$"):
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
        ({"vocabulary": [*TOKENS, "Z"]}, "vocabulary: 21 tokens"),
        ({"vocabulary": [*TOKENS, "A"]}, "another vocabulary"),
        ({"vocabulary": [TOKENS[1], TOKENS[0], *TOKENS[2:]]}, "another vocabulary"),  # they frame a sequence
        ({"task": "compositionel"}, "did you mean compositional"),
        ({"more": 1}, "more"),
        ({"seed": "x"}, "seed"),
        ({"seed": float("inf")}, "seed"),
        ({"config": {"encoder_layers": 10**9}}, r"config\.encoder_layers"),
        ({"config": {"max_length": 10**9}}, r"config\.max_length"),
        ({"config": {"heads": 64, "d_head": 4096, "d_model": 4096}}, "weights; at most 500,000,000"),
        ({"config": {"position_scale": 1e300}}, r"config\.position_scale"),
        ({"config": {"dropout": float("inf")}}, r"config\.dropout"),
        ({"config": [[[]]]}, "config"),
        ({"weights_sha256": "../../elsewhere"}, "weights_sha256"),
        ({"vocabulary": ["x" * 10_000]}, "another vocabulary"),
    ],
)
def test_a_wrong_record_is_refused(folder: Path, changes: dict, says: str):
    edit(folder, **changes)
    with pytest.raises(CheckpointError, match=says) as caught:
        load_checkpoint(str(folder))
    assert len(str(caught.value)) < 2_000
    if says != "wrong tensors":  # a recipe is checked by the record alone, as strictly
        with pytest.raises(CheckpointError, match=says):
            names_of(str(folder))


@pytest.mark.parametrize(
    "text", ["{", "[" * 100_000, '{"seed": ' + "9" * 5_000 + "}", "\0", "null", '{"config": ' * 5_000], ids=range(6)
)
def test_a_broken_record_is_refused(folder: Path, text: str):
    (folder / RECORD).write_text(text)
    for read in (load_checkpoint, names_of):
        with pytest.raises(CheckpointError, match=RECORD):
            read(str(folder))


SPECIAL = {"pipe": os.mkfifo, "folder": Path.mkdir, "zeros": lambda path: path.symlink_to("/dev/zero")}


@pytest.mark.parametrize("file", [WEIGHTS, RECORD, CIRCUIT])
@pytest.mark.parametrize("make", SPECIAL.values(), ids=SPECIAL)
def test_only_regular_files_are_read(folder: Path, file: str, make):
    (folder / file).unlink(missing_ok=True)
    make(folder / file)
    with pytest.raises(SteerError, match=r"regular file|holds no"):
        load_checkpoint(str(folder))


def with_header(folder: Path, change) -> None:
    """The weights with another header over the same values."""
    data = (folder / WEIGHTS).read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = change(data[8 : 8 + length])
    (folder / WEIGHTS).write_bytes(len(header).to_bytes(8, "little") + header + data[8 + length :])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda header: header.replace(b"F32", b"F4X"), r"is F4X\[.*expected float32"),
        (lambda header: header.replace(b"[20,16]", b"[20,16000000000]"), r"float32\[20, 16000000000\], expected"),
        (lambda header: header.replace(b"[20,16]", b"[1e999,16]"), "header"),
        (lambda header: header.replace(b"[20,16]", b'"x"'), "header"),
        (lambda header: b"[" * 100_000, "header"),
        (lambda header: b"null", "header"),
        (lambda header: header.replace(b'"data_offsets":[0,', b'"data_offsets":[9,', 1), "cannot be read as safetens"),
    ],
    ids=range(7),
)
def test_a_strange_header_is_refused(folder: Path, change, says: str):
    with_header(folder, change)
    with pytest.raises(CheckpointError, match=says):
        load_checkpoint(str(folder))


def test_lengths_that_do_not_fit_are_refused_before_anything_is_read(folder: Path):
    with (folder / WEIGHTS).open("r+b") as file:
        file.truncate(2**40)  # a sparse file: to read it would end the process
    with pytest.raises(CheckpointError, match="1,099,511,627,776 bytes, its header says"):
        load_checkpoint(str(folder))
    (folder / WEIGHTS).write_bytes(b"\xff" * 8)  # a header of 2^64 bytes
    with pytest.raises(CheckpointError, match="header"):
        load_checkpoint(str(folder))


def test_a_model_is_built_only_for_weights_that_fit(folder: Path, monkeypatch: pytest.MonkeyPatch):
    """Sizes within the bounds, of some gigabytes: the header is compared first."""
    edit(folder, config=vars(TINY) | {"d_model": 4096, "heads": 60, "d_head": 128})
    built = []

    class Counted(Transformer):
        def __init__(self, config) -> None:
            super().__init__(config)
            built.extend(tensor.device.type for tensor in self.state_dict().values())

    monkeypatch.setattr("steer.models.checkpoint.Transformer", Counted)
    with pytest.raises(CheckpointError, match="wrong tensors"):
        load_checkpoint(str(folder))
    assert set(built) == {"meta"}


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


def test_the_record_says_which_token_each_id_is(folder: Path):
    """Two symbols exchanged in the record are two rows of the embedding exchanged: the prompts are encoded by it."""
    prompt = make_splits(0).test[0].prompt
    one, two = prompt[:2]
    exchanged = [{one: two, two: one}.get(token, token) for token in TOKENS]
    before = load_checkpoint(str(folder)).vocabulary.encode(prompt)
    edit(folder, vocabulary=exchanged)
    after = load_checkpoint(str(folder)).vocabulary.encode(prompt)
    assert after != before
    assert [exchanged[number] for number in after] == list(prompt)
