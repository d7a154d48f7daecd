"""Weights trained elsewhere: they compute here what they computed there, and nothing of their file is run."""

from __future__ import annotations

import argparse
import io
import json
import pickle
import sys
import types
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import ROLES, write_roles
from safetensors.torch import save_file
from torch import Tensor, nn

from steer.base.dice import Dice
from steer.base.errors import SteerError
from steer.models.checkpoint import load_checkpoint, read_record
from steer.models.importing import made
from steer.models.importing.archive import Archive
from steer.models.importing.pickled import Made, Named, Stored, read_pickle
from steer.tasks.authors.generator import draw_long

COLOURS = ["RED", "YELLOW", "GREEN", "BLUE", "PURPLE", "PINK"]
WORDS = ["dax", "lug", "wif", "zup", "fep", "blicket", "kiki", "tufa", "gazzer"]
MARKS = ["SOS", "EOS", "PAD"]
PROMPT = [*sorted([*COLOURS, *WORDS, "IO"]), *MARKS]  # as AUTHORS' classes number them
ANSWER = [*COLOURS, *MARKS]
D = 32


def lang(tokens: list[str], module: str = "MLC_datasets") -> Any:
    """An object of a class `MLC_datasets.Lang`, which is nowhere to be imported from when the file is read."""
    stub = sys.modules.setdefault(module, types.ModuleType(module))
    kind = stub.__dict__.setdefault("Lang", type("Lang", (), {"__module__": module}))
    made = kind()
    made.symbols, made.n_symbols = tokens[:-3], len(tokens)
    made.index2symbol, made.symbol2index = dict(enumerate(tokens)), {t: n for n, t in enumerate(tokens)}
    made.PAD_idx, made.PAD_token = len(tokens) - 1, "PAD"
    return made


class Net(nn.Module):
    """The authors' network from PyTorch's own layers: pre-norm, a table of sines, no tied weights."""

    def __init__(self, layers: int = 2, tokens: tuple[int, int] = (19, 9), heads: int = 8) -> None:
        super().__init__()
        self.input_embedding, self.output_embedding = nn.Embedding(tokens[0], D), nn.Embedding(tokens[1], D)
        self.transformer = nn.Transformer(
            D, heads, layers, layers, 4 * D, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.out = nn.Linear(D, tokens[1])
        self.pos_embedding = nn.Module()
        place, feature = np.meshgrid(np.arange(5000), np.arange(D), indexing="ij")
        angle = place / 10000 ** ((feature - feature % 2) / D)
        table = np.where(feature % 2 == 0, np.sin(angle), np.cos(angle)).astype("float32")
        self.pos_embedding.register_buffer("pos_embedding", torch.from_numpy(table)[:, None])
        generator = torch.Generator().manual_seed(0)
        for name, parameter in self.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            scale = 1.4 / D**0.5 if parameter.ndim == 2 and "embedding" not in name else 0.5
            parameter.data = scale * noise + (1.0 if "norm" in name and name.endswith("weight") else 0.0)

    def forward(self, prompt: Tensor, output: Tensor, pad: int) -> Tensor:
        table = self.pos_embedding.pos_embedding[:, 0]
        source = self.input_embedding(prompt) + table[: prompt.shape[1]]
        target = self.output_embedding(output) + table[: output.shape[1]]
        future = torch.ones(output.shape[1], output.shape[1], dtype=torch.bool).triu(1)
        hidden = self.transformer(
            source, target, tgt_mask=future, src_key_padding_mask=prompt == pad, memory_key_padding_mask=prompt == pad
        )
        return self.out(hidden)


@pytest.fixture(autouse=True)
def without_their_modules():
    """What the tests pretend to have imported is gone again."""
    yield
    for name in ("MLC_datasets", "datasets", "train_lib"):
        sys.modules.pop(name, None)


@pytest.fixture
def net() -> Net:
    with pytest.warns(UserWarning, match="enable_nested_tensor"):
        return Net()


def document(net: Net, prompt: list[str] = PROMPT, answer: list[str] = ANSWER) -> dict[str, Any]:
    optimizer = torch.optim.AdamW(net.parameters())
    net(torch.tensor([[0, 1, 2]]), torch.tensor([[0, 1]]), 18).sum().backward()
    optimizer.step()  # moves the weights a little, and has moments and counts to save
    layers = len(net.transformer.encoder.layers)
    tracked = {"epoch": 1, "step": 25, "lr": 1e-3, "avg_train_loss": 2.0, "val_acc": np.float64(3.5)}
    return {
        "nets_state_dict": net.state_dict(), "optimizer_state_dict": optimizer.state_dict(),
        "scheduler_epoch_state_dict": {"last_epoch": 3, "_last_lr": [1e-3]}, "step": 200_000, "epoch": 50,
        "train_tracker": [tracked], "best_val_loss": float("inf"),
        "langs": {"input": lang(prompt), "output": lang(answer)}, "args": argparse.Namespace(lr=0.001, flag=True),
        "episode_type": "algebraic_noise", "emb_size": D, "input_size": 19, "output_size": 9, "dropout": 0.1,
        "nlayers_encoder": layers, "nlayers_decoder": layers, "nepochs": 50, "batch_size": 25, "activation": "gelu",
        "ff_mult": 4,
    }  # fmt: skip


def write(content: object, path: Path) -> Path:
    torch.save(content, path)
    sys.modules.pop("MLC_datasets", None)
    return path


@torch.no_grad()
def same_logits(folder: Path, net: Net, prompt: list[str], answer: list[str], tolerance: float = 1e-10) -> None:
    """On padded batches of random tokens, each side with its own ids; in float64, from the same float32 weights."""
    ours = load_checkpoint(str(folder), dtype=torch.float64)
    theirs = net.double().train()  # dropout is 0; eval would take the fused path
    table = ours.transformer.enc_embed.positions
    theirs.pos_embedding.pos_embedding = table[:, None].to(torch.float64)  # their own is rounded to float32
    generator = torch.Generator().manual_seed(1)
    prompts = torch.randint(0, len(prompt), (6, 40), generator=generator)
    outputs = torch.randint(0, len(answer), (6, 7), generator=generator)
    prompts[prompts == prompt.index("PAD")] = prompt.index("SOS")
    for row in range(6):
        prompts[row, 40 - 3 * row :] = prompt.index("PAD")
    ids = ours.vocabulary.ids
    said = ours.transformer(
        torch.tensor([[ids[prompt[n]] for n in row] for row in prompts.tolist()]),
        torch.tensor([[ids[answer[n]] for n in row] for row in outputs.tolist()]),
    )
    wanted = theirs(prompts, outputs, prompt.index("PAD"))
    rows = [answer.index(token) for token in ours.vocabulary.tokens[: len(answer)]]
    assert wanted.std() > 0.5
    torch.testing.assert_close(said, wanted[..., rows], rtol=0, atol=tolerance)


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
    assert record.imported.told["step"] == 200_000
    assert "MLC_datasets" not in sys.modules


def test_the_files_own_numbers_of_tokens_are_trusted(net: Net, steer, tmp_path: Path):
    """Another order of both vocabularies, and the state dict wrapped once more."""
    prompt, answer = [*PROMPT[3:], *PROMPT[:3]], [*ANSWER[::-1]]
    content = document(net, prompt, answer)
    content["nets_state_dict"] = {"net": content["nets_state_dict"]}
    done = steer("import", write(content, tmp_path / "x.pt"), "--out", tmp_path / "authors")
    assert done.exit_code == 0, done.output
    same_logits(tmp_path / "authors", net, prompt, answer)


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


# What is refused. Each gets one message, and nothing is written.

Change = Callable[[dict[str, Any]], object]


def without(*keys: str) -> Change:
    return lambda content: [content["nets_state_dict"].pop(key) for key in keys]


def setting(key: str, value: Any) -> Change:
    return lambda content: content["nets_state_dict"].__setitem__(key, value)


NORM = ("transformer.encoder.norm.weight", "transformer.encoder.norm.bias")
POSITIONS = "pos_embedding.pos_embedding"
IN = "transformer.encoder.layers.1.self_attn.in_proj_weight"
FAULTS: dict[str, tuple[Change, str]] = {
    "no final norm": (without(*NORM), "no final LayerNorm on its encoder"),
    "missing": (without("out.bias"), "1 missing tensors: out.bias"),
    "surplus": (setting("more", torch.zeros(3)), "1 unexpected tensors: more"),
    "shape": (setting("out.weight", torch.zeros(8, D)), "out.weight is float32[8, 32], expected float32[9, 32]"),
    "not finite": (setting("out.weight", torch.full((9, D), torch.nan)), "NaN or infinity in unembed.weight"),
    "no tensor": (setting(IN, [1.0]), f"{IN}: is not a tensor"),
    "float64": (setting(IN, torch.zeros(3 * D, D).double()), "asks for 'torch.DoubleStorage'"),
    "positions": (setting(POSITIONS, torch.zeros(5000, 1, D)), "not the sinusoids"),
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


def refused(steer, file: Path, says: str, *options: object) -> None:
    out = file.parent / "out"
    done = steer("import", file, "--out", out, *options)
    assert done.exit_code == 2, done.output
    assert says in done.stderr
    assert done.stderr.count("error:") == 1
    assert not out.exists()


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


# Zips and pickles that mean harm.


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


# State dicts of torch.nn.Transformer.

TOKENS = [*"ABCDEFRST=|", "red", "blue", "green", "pink", "purple", "yellow", "EOS", "PAD", "SOS"]


def options(file: Path, **changes: object) -> list[object]:
    (file.parent / "tokens.txt").write_text("\n".join(TOKENS) + "\n")
    given = {
        "heads": 4, "activation": "gelu", "prompt-embedding": "input_embedding.weight",
        "answer-embedding": "output_embedding.weight", "unembedding": "out.weight",
        "vocabulary": file.parent / "tokens.txt",
    } | {key.replace("_", "-"): value for key, value in changes.items()}  # fmt: skip
    pairs = [part for key, value in given.items() if value is not None for part in (f"--{key}", value)]
    return [*pairs, "--norm-first"]


@pytest.fixture
def mine(tmp_path: Path) -> tuple[Net, Path]:
    with pytest.warns(UserWarning, match="enable_nested_tensor"):
        net = Net(layers=3, tokens=(20, 20), heads=4)
    save_file(net.state_dict(), tmp_path / "mine.safetensors")
    return net, tmp_path / "mine.safetensors"


def test_a_state_dict_gives_the_logits_of_its_network(mine: tuple[Net, Path], steer, tmp_path: Path):
    net, file = mine
    done = steer("import", file, "--out", tmp_path / "out", *options(file))
    assert done.exit_code == 0, done.output
    same_logits(tmp_path / "out", net, TOKENS, TOKENS)
    assert read_record(tmp_path / "out").vocabulary[:4] == ("PAD", "SOS", "EOS", "A")


def test_names_may_begin_in_any_way_and_answers_have_tokens_of_their_own(steer, tmp_path: Path):
    with pytest.warns(UserWarning, match="enable_nested_tensor"):
        net = Net(tokens=(20, 9), heads=4)
    answer = ["SOS", "red", "blue", "EOS", "green", "pink", "PAD", "purple", "yellow"]
    (tmp_path / "answers.txt").write_text("\n".join(answer))
    file = tmp_path / "mine.safetensors"
    net.out.bias.data.zero_()  # and none in the file
    names = {"transformer.encoder.": "", "transformer.decoder.": "theirs.dec."}
    state = net.state_dict()
    del state["out.bias"]
    for old, new in names.items():
        state = {key.replace(old, new): value for key, value in state.items()}
    save_file(state, file)
    done = steer("import", file, "--out", tmp_path / "out", *options(file, answer_vocabulary=tmp_path / "answers.txt"))
    assert done.exit_code == 0, done.output
    same_logits(tmp_path / "out", net, TOKENS, answer)


def test_what_is_wrong_with_a_state_dict_is_said(mine: tuple[Net, Path], steer, tmp_path: Path):
    net, file = mine
    refused(steer, file, "give --heads, --norm-first or --no-norm-first, --activation, --prompt-embedding")
    refused(steer, file, "normalises before: it cannot be imported", *options(file), "--no-norm-first")
    for changes, says in (
        ({"heads": 5}, "--heads: 32 features cannot be divided among 5 heads"),
        ({"activation": "selu"}, "no activation named 'selu'; did you mean"),
        ({"task": "author"}, "did you mean authors?"),
        ({"task": "authors"}, "--vocabulary: without RED YELLOW"),
        ({"unembedding": "output.weight"}, "--unembedding: no tensor named 'output.weight'; did you mean"),
        ({"unembedding": "out.bias"}, "--unembedding: out.bias is not a matrix"),
        ({"vocabulary": tmp_path / "short.txt"}, "--vocabulary: 2 tokens; input_embedding.weight has 20 rows"),
        ({"vocabulary": tmp_path / "twice.txt"}, "'A' is listed twice"),
        ({"vocabulary": tmp_path / "spaces.txt"}, "spaces.txt:2: one token on each line"),
    ):
        for name, text in (("short", "A\nB"), ("twice", "A\nA"), ("spaces", "A\nB C")):
            (tmp_path / f"{name}.txt").write_text(text)
        refused(steer, file, says, *options(file, **changes))
    state = net.state_dict()
    for changed, says in (
        ({"positions": torch.randn(64, D)}, "1 unexpected tensors: positions"),
        ({"out.weight": torch.zeros(20, D + 1)}, "wrong tensors: out.weight is float32[20, 33]"),
        ({"out.bias": torch.zeros(20).double()}, "out.bias is float64[20], expected float32[20]"),
        ({NORM[0]: None}, "no final LayerNorm on its encoder"),
        ({IN: None}, f"1 missing tensors: {IN}"),
        ({IN.replace("encoder.layers.1", "decoder.layers.0"): None}, "1 encoders and 0 decoders"),
    ):
        save_file({key: value for key, value in (state | changed).items() if value is not None}, file)
        refused(steer, file, says, *options(file))
    file.write_bytes(b"PK\x03\x04 no safetensors")
    refused(steer, file, "cannot be read as safetensors", *options(file))
