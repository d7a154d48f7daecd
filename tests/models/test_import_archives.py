"""Zips and pickles that are brought: read as torch.save writes them, and nothing of them is run."""

from __future__ import annotations

import argparse
import io
import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from foreign import Net, document, made_net, refused, without_their_modules, write  # noqa: F401 - fixtures

from steer.base.errors import SteerError
from steer.models.importing.archive import Archive
from steer.models.importing.pickled import Made, Named, Stored, read_pickle

STORED = Stored(("storage", Named("torch.FloatStorage"), "0", "cuda:0", 6))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((STORED, 1, (2, 3), (3, 1)), "outside its storage"),
        ((STORED, 0, (2, 3), (4, 1)), "outside its storage"),
        ((STORED, 0, (10**9, 10**9), (0, 0)), "outside its storage"),
        ((STORED, -1, (2,), (1,)), "not whole numbers"),
        ((STORED, 0, (2,), (-1,)), "not whole numbers"),
        ((STORED, 0, (True,), (1,)), "not whole numbers"),
        ((STORED, 0, (2, 3), (1,)), "not whole numbers"),
        ((STORED, 0, [2], (1,)), "is not a tensor"),
        (("storage", 0, (2,), (1,)), "no float32 storage"),
        ((Stored(("storage", Named("torch.FloatStorage"), "../0", "cpu", 6)), 0, (2,), (1,)), "no float32 storage"),
        ((Stored(("module", Named("torch.FloatStorage"), "0", "cpu", 6)), 0, (2,), (1,)), "no float32 storage"),
    ],
)
def test_tensors_stay_inside_their_storage(arguments: tuple[Any, ...], says: str):
    archive = Archive("x.pt", "x", {"x/data/0": bytes(24)})
    with pytest.raises(SteerError, match=says):
        archive.tensor(Made("torch._utils._rebuild_tensor_v2", (*arguments, False, {})), "w")
    whole = Made("torch._utils._rebuild_tensor_v2", (STORED, 0, (2, 3), (3, 1), False, {}))
    assert archive.tensor(whole, "w").shape == (2, 3)


def rezip(data: bytes, change: Callable[[dict[str, bytes]], object], kind: int = zipfile.ZIP_STORED) -> bytes:
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        members = {name: file.read(name) for name in file.namelist()}
    change(members)
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", kind) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return made.getvalue()


def test_zips_are_read_as_torch_writes_them_alone(net: Net, steer, tmp_path: Path):
    good = write(document(net), tmp_path / "good.pt").read_bytes()
    file = tmp_path / "x.pt"
    for change, says, kind in (
        (lambda m: None, "is compressed", zipfile.ZIP_DEFLATED),
        (lambda m: m.update({"good/data/big": bytes(65_000_000)}), "larger than 64", zipfile.ZIP_STORED),
        (lambda m: m.pop("good/data/0"), "its storage 0 is not there", zipfile.ZIP_STORED),
        (lambda m: m.update({"good/data/0": b"1234"}), "its storage 0 has 4 bytes", zipfile.ZIP_STORED),
        (lambda m: m.update({"other/data.pkl": b"."}), "2 members named", zipfile.ZIP_STORED),
        (lambda m: m.pop("good/data.pkl"), "0 members named", zipfile.ZIP_STORED),
        (lambda m: m.update({"good/byteorder": b"big"}), "big-endian", zipfile.ZIP_STORED),
        (lambda m: m.update({"good/data.pkl": m["good/data.pkl"][:-9]}), "pickle is broken", zipfile.ZIP_STORED),
    ):
        file.write_bytes(rezip(good, change, kind))
        if len(file.read_bytes()) > 64_000_000:
            says = "larger than 64,000 kB"
        refused(steer, file, says)
    file.write_bytes(rezip(good, lambda m: None))
    assert steer("import", file, "--out", tmp_path / "again").exit_code == 0


class Calls:
    def __init__(self, function: Callable[..., object], *arguments: object) -> None:
        self.function, self.arguments = function, arguments

    def __reduce__(self) -> Any:
        return self.function, self.arguments


HARM = "__import__('pathlib').Path({!r}).touch()"


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("where", ["whole", "key", "inside"])
def test_nothing_is_run(net: Net, steer, tmp_path: Path, protocol: int, where: str):
    """The same pickle harms whoever opens it."""
    import os

    sign = tmp_path / "harm"
    for function, argument, name in (
        (eval, HARM.format(str(sign)), "builtins.eval" if protocol > 2 else "__builtin__.eval"),
        (os.system, f"touch {sign}", f"{os.system.__module__}.system"),
    ):
        call = Calls(function, argument)
        content = {"whole": call, "key": {"step": call}, "inside": {"args": [(1, {"x": [call]})]}}[where]
        data = pickle.dumps(content, protocol)
        pickle.loads(data)
        assert sign.exists()
        sign.unlink()
        with zipfile.ZipFile(tmp_path / "x.pt", "w") as file:
            file.writestr("x/data.pkl", data)
        if protocol > 0:  # at 0 plain data have opcodes that weights never have
            refused(steer, tmp_path / "x.pt", f"asks for '{name}'")
        else:
            refused(steer, tmp_path / "x.pt", "x.pt: ")
        assert not sign.exists()


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"cos\nsystem\n(S'true'\ntR.", "asks for 'os.system'"),
        (b"(S'true'\nios\nsystem\n.", "opcode that weights do not need"),
        (b"(ios\nsystem\n.", "asks for 'os.system'"),
        (b"(icollections\nOrderedDict\n.", "opcode that weights do not need"),
        (b"ctorch.storage\n_load_from_bytes\n.", "asks for 'torch.storage._load_from_bytes'"),
        (b"ctorch.storage\nFloatStorage\n.", "asks for 'torch.storage.FloatStorage'"),
        (b"ctorch.jit\nload\n.", "asks for 'torch.jit.load'"),
        (b"\x80\x02U\x02osU\x06system\x93.", "opcode that weights do not need"),
        (b"\x80\x04\x8c\x02os\x8c\x06system\x93.", "asks for 'os.system'"),
        (b"\x80\x02\x82\x01.", "opcode that weights do not need (EXT1)"),
        (b"\x80\x02}]K\x01s.", "a key that is neither text nor a number"),
        (b"\x80\x02})K\x01s.", "a key that is neither text nor a number"),
        (b"\x80\x02K\x01)R.", "calls something that is not a name"),
        (b"\x80\x02K\x01K\x02a.", "a list was expected"),
        (b"\x80\x02K\x01}b.", "a dict was expected"),
        (b"\x80\x02h\x07.", "broken"),
        (b"\x80\x02t.", "broken"),
        (b"\x80\x02.", "broken"),
        (b"\x80\x02]", "broken"),
        (b"\xff", "broken"),
    ],
)
def test_pickles_that_are_refused(data: bytes, says: str):
    with pytest.raises(SteerError) as error:
        read_pickle(data, "x.pt", {"collections.OrderedDict", "torch.FloatStorage"})
    assert says in str(error.value)


def test_a_call_is_kept_as_what_was_asked_for():
    data = pickle.dumps([argparse.Namespace(a=1), OrderedDict(b=(2, 3.5, None, True))], 2)
    read = read_pickle(data, "x.pt", {"argparse.Namespace", "collections.OrderedDict"})
    assert read == [Made("argparse.Namespace", (), {"a": 1}), {"b": (2, 3.5, None, True)}]
