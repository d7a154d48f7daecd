"""State dicts of torch.nn.Transformer: they compute here what they computed there."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from foreign import IN, NORM, D, Net, made_net, refused, same_logits, without_their_modules  # noqa: F401 - fixtures
from safetensors.torch import save_file

from steer.models.checkpoint import read_record

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
