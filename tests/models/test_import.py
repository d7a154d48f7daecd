"""Weights trained elsewhere: they compute here what they computed there, and nothing of their file is run."""

from __future__ import annotations

import json
import sys
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import ROLES, write_roles
from foreign import (  # noqa: F401 - fixtures
    ANSWER,
    IN,
    NORM,
    POSITIONS,
    PROMPT,
    D,
    Net,
    document,
    lang,
    made_net,
    refused,
    same_logits,
    without_their_modules,
    write,
)

from steer.base.dice import Dice
from steer.models.checkpoint import read_record
from steer.models.importing import made
from steer.models.record import Imported
from steer.tasks.authors.generator import draw_long


def test_the_authors_file_gives_the_logits_of_pytorchs_layers(net: Net, steer, tmp_path: Path):
    file, out = write(document(net), tmp_path / "net-HookedBIMLSmall.pt"), tmp_path / "authors"
    done = steer("import", file, "--out", out)
    assert done.exit_code == 0, done.output
    assert "2+2 layers, 8 heads of 4, 19 tokens, 9 of them in answers; task authors" in done.stdout
    assert "not one of the authors' two files" in done.stdout
    same_logits(out, net, PROMPT, ANSWER)
    record = read_record(out)
    assert record.imported is not None
    assert (record.config.max_length, record.config.dropout, record.task) == (256, 0.1, "authors")
    assert record.imported.stated["step"] == 200_000
    assert "MLC_datasets" not in sys.modules


def test_records_of_an_earlier_version_call_it_told():
    about = {"file": "net.pt", "size": 3, "blob": "0" * 40}
    older, newer = (Imported.model_validate(about | {key: {"step": 7}}) for key in ("told", "stated"))
    assert older == newer
    assert older.model_dump()["stated"] == {"step": 7}
    assert Imported.model_validate(about).stated == {}


def test_the_files_own_numbers_of_tokens_are_trusted(net: Net, steer, tmp_path: Path):
    """Another order of both vocabularies, written down in yet another, and the state dict wrapped once more."""
    prompt, answer = [*PROMPT[3:], *PROMPT[:3]], [*ANSWER[::-1]]
    content = document(net, prompt, answer)
    for side in content["langs"].values():
        side.symbol2index = dict(sorted(side.symbol2index.items()))
    content["nets_state_dict"] = {"net": content["nets_state_dict"]}
    done = steer("import", write(content, tmp_path / "x.pt"), "--out", tmp_path / "authors")
    assert done.exit_code == 0, done.output
    same_logits(tmp_path / "authors", net, prompt, answer)


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
def test_the_files_own_activation_is_taken(steer, tmp_path: Path):
    net = Net(activation="relu")
    done = steer("import", write(document(net), tmp_path / "x.pt"), "--out", tmp_path / "authors")
    assert done.exit_code == 0, done.output
    same_logits(tmp_path / "authors", net, PROMPT, ANSWER)


def test_an_imported_model_is_studied_like_any_other(net: Net, steer, tmp_path: Path, png_only: None):
    out = tmp_path / "authors"
    assert steer("import", write(document(net), tmp_path / "x.pt"), "--out", out).exit_code == 0
    (tmp_path / "long").mkdir()
    (tmp_path / "long" / "1.txt").write_text(str(draw_long(Dice(0))))
    for arguments in (
        ("eval", "-c", out, "--episodes", tmp_path / "long", "--out", tmp_path / "eval"),
        ("discover", "-c", out, "--episodes", 20, "--out", tmp_path / "found", "--quiet"),
        ("reproduce", "-c", out, "--episodes", 10, "--out", tmp_path / "claims", "--quiet"),
    ):
        done = steer(*arguments)
        assert done.exit_code == 0, done.output
    assert "0 as in the paper" in done.stdout
    write_roles(out, ROLES)
    prompt = "kiki lug zup | zup = GREEN | zup lug kiki = PINK GREEN PINK | kiki = PINK"
    done = steer("ask", "-c", out, "--prompt", prompt, "--swap", "kiki", "zup", "--out", tmp_path / "asked")
    assert done.exit_code == 0, done.output
    assert "PINK GREEN PINK" in done.stdout  # what the exchange predicts


def test_a_genuine_file_is_recognised_by_its_blob(net: Net, steer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    assert made.blob_id(b"what is up, doc?") == "bd9dbf5aae1a3862dd1526723246b20206e5fc37"  # the Git book's example
    file = write(document(net), tmp_path / "x.pt")
    monkeypatch.setitem(made.AUTHORS_FILES, made.blob_id(file.read_bytes()), "net-HookedBIMLSmall.pt")
    done = steer("import", file, "--out", tmp_path / "out", "--json")
    assert json.loads(done.stdout)["known_as"] == "net-HookedBIMLSmall.pt"


def test_tensors_may_lie_in_any_way_inside_their_storage(net: Net, steer, tmp_path: Path):
    content, key = document(net), "out.weight"
    weight = content["nets_state_dict"][key]
    wide = torch.zeros(D, 12)
    wide[:, 3:] = weight.t()
    content["nets_state_dict"][key] = wide[:, 3:].t()
    done = steer("import", write(content, tmp_path / "x.pt"), "--out", tmp_path / "authors")
    assert done.exit_code == 0, done.output
    same_logits(tmp_path / "authors", net, PROMPT, ANSWER)


# What is refused. Each gets one message, and nothing is written.

Change = Callable[[dict[str, Any]], object]


def without(*keys: str) -> Change:
    return lambda content: [content["nets_state_dict"].pop(key) for key in keys]


def setting(key: str, value: Any) -> Change:
    return lambda content: content["nets_state_dict"].__setitem__(key, value)


FAULTS: dict[str, tuple[Change, str]] = {
    "no final norm": (without(*NORM), "no final LayerNorm on its encoder"),
    "missing": (without("out.bias"), "1 missing tensors: out.bias"),
    "surplus": (setting("more", torch.zeros(3)), "1 unexpected tensors: more"),
    "shape": (setting("out.weight", torch.zeros(8, D)), "out.weight is float32[8, 32], expected float32[9, 32]"),
    "not finite": (setting("out.weight", torch.full((9, D), torch.nan)), "NaN or infinity in unembed.weight"),
    "no tensor": (setting(IN, [1.0]), f"{IN}: is not a tensor"),
    "float64": (setting(IN, torch.zeros(3 * D, D).double()), "asks for 'torch.DoubleStorage'"),
    "positions": (setting(POSITIONS, torch.zeros(5000, 1, D)), "not the sinusoids"),
    "other positions": (lambda c: c["nets_state_dict"][POSITIONS].sub_(0.01), "not the sinusoids"),
    "no positions": (without(POSITIONS), f"1 missing tensors: {POSITIONS}"),
    "mlc": (setting("positional_encoding.pos_embedding", torch.zeros(2)), "base MLC, a post-norm network"),
    "mlc class": (lambda c: c["langs"].update(input=lang(PROMPT, "datasets")), "asks for 'datasets.Lang': this is a"),
    "no sizes": (lambda c: c.pop("ff_mult"), "is not a file of the authors: it lacks ff_mult"),
    "size": (lambda c: c.update(emb_size="32"), "emb_size: is not of type int"),
    "width": (lambda c: c.update(emb_size=20), "emb_size: 20 is not a multiple of 8"),
    "layers": (lambda c: c.update(nlayers_encoder=99), "encoder_layers: Input should be less than"),
    "word": (lambda c: c["langs"].update(input=lang(["blick", *PROMPT[1:]])), "missing or strange: BLUE blick"),
    "numbers": (lambda c: c["langs"]["input"].symbol2index.update(BLUE=1), "not 0 to 18, each once"),
    "numbers disagree": (lambda c: c["langs"]["output"].index2symbol.update({0: "PAD"}), "disagree"),
    "no lang": (lambda c: c["langs"].pop("output"), "langs.output: has no symbol2index"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_wrong_with_a_file_is_said(net: Net, steer, tmp_path: Path, fault: str):
    change, says = FAULTS[fault]
    content = document(net)
    content["nets_state_dict"] = OrderedDict(content["nets_state_dict"])
    change(content)
    refused(steer, write(content, tmp_path / "x.pt"), says)


def test_broken_files_are_said_to_be(net: Net, steer, tmp_path: Path):
    good = write(document(net), tmp_path / "good.pt").read_bytes()
    file = tmp_path / "x.pt"
    for size in (0, 3, 100, len(good) // 2, len(good) - 1):
        file.write_bytes(good[:size])
        refused(steer, file, "not a file of torch.save" if size < 4 else "the zip is broken or cut short")
    file.write_bytes(b"\x80\x02" + good[2:])
    refused(steer, file, "not a file of torch.save")
    refused(steer, tmp_path / "none.pt", "cannot be read")
    refused(steer, tmp_path / "good.pt", "--heads, --task: only for a state dict", "--heads", 8, "--task", "authors")


def test_an_import_goes_into_a_folder_of_its_own(net: Net, steer, tmp_path: Path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("x")
    done = steer("import", write(document(net), tmp_path / "x.pt"), "--out", tmp_path / "full")
    assert done.exit_code == 2
    assert "is not empty" in done.stderr
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["mine"]
