"""Hugging Face folders through the command line: what a user types, what a user gets wrong."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
import torch
import yaml
from hugging import random_model
from hugging_files import WORDS, save_model
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner, Result

from steer.commands import app
from steer.models.huggingface.place import read_config, resolve

LINES = [
    {"prompt": "w5 w9 w12 w7", "answer": "w8", "counterparts": {"other": {"prompt": "w6 w9 w12 w7", "answer": "w9"}}},
    {"prompt": "w14 w6 w40", "answer": "w33 w4"},
]


def steer(*arguments: object) -> Result:
    return CliRunner().invoke(app, list(map(str, arguments)))


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("models")
    for family in ("gpt2", "t5", "qwen3", "llama", "gemma2"):
        save_model(home / family, family, random_model(family, dtype=torch.float32))
    (home / "lines.jsonl").write_text("\n".join(map(json.dumps, LINES)))
    return home


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def recipe(folder: Path, home: Path, family: str, **keys) -> Path:
    path = folder / "asked.yaml"
    given = {"checkpoint": f"hf:{home / family}", "task": str(home / "lines.jsonl"), "figure": "none"} | keys
    path.write_text(yaml.safe_dump(given))
    return path


def result_of(done: Result) -> dict:
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


KEEP = {
    "kind": "keep-only-one", "target": "2.1.k", "sources": ["dec.tok", "L1H2", "0.*"],
    "measures": [{"name": "exact-match", "decoding": "greedy"}, {"name": "attention-mass", "heads": "2.1"}],
}  # fmt: skip


def test_a_recipe_with_papers_names_runs_and_says_which_weights(folders: Path, tmp_path: Path):
    path = recipe(tmp_path, folders, "gpt2", **KEEP)
    assert steer("validate", path).exit_code == 0
    found = result_of(steer("run", path, "--json", "-q"))
    assert {row["condition"] for row in found["rows"]} >= {"dec.tok", "dec-self-1.2", "dec-self-0.3"}
    weights = found["checkpoint"]
    from hashlib import sha256

    assert weights["sha256"] == sha256((folders / "gpt2" / "model.safetensors").read_bytes()).hexdigest()
    assert result_of(steer("run", path, "--json", "-q"))["unchanged"] is True


def test_hooks_by_their_names_elsewhere(folders: Path, tmp_path: Path):
    keys = {"kind": "clean", "measures": [{"name": "token-accuracy"}], "tensors": ["blocks.1.attn.hook_z"]}
    found = result_of(steer("run", recipe(tmp_path, folders, "gpt2", **keys), "--json", "-q"))
    tensors = load_file(Path(found["folder"]) / "tensors.safetensors")
    assert set(tensors) == {f"clean/dec-self-1.{head}.z" for head in range(4)}
    rotated = recipe(tmp_path, folders, "qwen3", **keys | {"tensors": ["blocks.1.attn.hook_k", "dec-self-1.2.k"]})
    found = result_of(steer("run", rotated, "--json", "-q"))
    tensors = load_file(Path(found["folder"]) / "tensors.safetensors")
    assert set(tensors) == {*(f"clean/dec-self-1.{head}.k-pre" for head in range(4)), "clean/dec-self-1.2.k"}
    turned, before = tensors["clean/dec-self-1.2.k"], tensors["clean/dec-self-1.2.k-pre"]
    torch.testing.assert_close(turned[:, 0], before[:, 0])  # the first token is not turned
    assert not torch.allclose(turned[:, 1], before[:, 1])


def test_plans_are_printed_without_torch_or_transformers(folders: Path, tmp_path: Path):
    import subprocess

    program = (
        "import sys\n"
        "from typer.testing import CliRunner\n"
        "from steer.commands import app\n"
        "done = CliRunner().invoke(app, sys.argv[1:])\n"
        "assert done.exit_code == 0, done.output\n"
        "assert not {'torch', 'transformers', 'nnsight'} & set(sys.modules)\n"
    )
    path = recipe(tmp_path, folders, "gpt2", **KEEP)
    done = subprocess.run(
        [sys.executable, "-c", program, "plan", str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_folder_is_known_by_its_config(folders: Path, tmp_path: Path):
    keys = {"kind": "clean", "measures": [{"name": "token-accuracy"}], "checkpoint": str(folders / "t5")}
    found = result_of(steer("run", recipe(tmp_path, folders, "t5", **keys), "--json", "-q", "--memory", "1M"))
    assert found["rows"]


@pytest.mark.parametrize("family", ["gpt2", "t5"])
def test_attend_attribute_and_ask(folders: Path, family: str):
    head = "dec-self-1.2" if family == "gpt2" else "dec-cross-1.2"
    given = ["-c", f"hf:{folders / family}", "--json"]
    typed = result_of(steer("attend", *given, "--head", head, "--prompt", "w5 w9 w12"))
    assert typed["keys"][:3] == ["w5", "w9", "w12"]
    told = result_of(steer("attend", *given, "--head", head, "--task", folders / "lines.jsonl", "--episode", 1))
    assert told["expected"] == ["w33", "w4"]
    rows = result_of(steer("attribute", *given, "--task", folders / "lines.jsonl", "--quiet"))["rows"]
    assert {row["of"] for row in rows} >= {head, "dec-mlp-1", "constant"}
    page = result_of(steer("attribute", *given, "--task", folders / "lines.jsonl", "--head", head, "--quiet"))
    assert page["component"] == head
    site = "dec.tok" if family == "gpt2" else "enc.tok"  # of the prompt
    asked = result_of(steer("ask", *given, "--task", folders / "lines.jsonl", "--episode", 0, "--at", site))
    assert asked["predicted"] == ["w9"]
    assert asked["sites"] == [site]
    fault = steer("ask", *given, "--task", folders / "lines.jsonl")
    assert fault.exit_code == 2
    assert "--at" in fault.output


def test_the_doctors_page(folders: Path):
    """The folder says nothing of how `transformers` reads its tokenizer, which the page notes."""
    done = steer("doctor", "-c", f"hf:{folders / 'qwen3'}", "--task", folders / "lines.jsonl")
    assert done.exit_code == 0, done.output
    assert "every check holds" in done.output
    assert "how texts are cut was not compared" in done.output
    report = result_of(steer("doctor", "-c", f"hf:{folders / 'gpt2'}", "--dtype", "float64", "--json"))
    assert report["ok"]
    assert {"forward", "causal", "shares", "arrives"} <= {check["check"] for check in report["checks"]}
    fault = steer("doctor", "-c", "tiny")
    assert fault.exit_code == 2
    assert "no Hugging Face model" in fault.output


def broken(home: Path, folder: Path, fault: str) -> Path:
    """A copy of a good folder with one thing wrong."""
    made = folder / "broken"
    shutil.copytree(home / "gpt2", made)
    weights, config = made / "model.safetensors", json.loads((made / "config.json").read_text())
    tensors = load_file(weights)
    if fault == "pickled":
        weights.rename(made / "pytorch_model.bin")
    elif fault == "shape":
        tensors["transformer.h.1.mlp.c_fc.bias"] = torch.zeros(7)
    elif fault == "missing":
        del tensors["transformer.h.1.mlp.c_fc.bias"]
    elif fault == "nan":
        tensors["transformer.h.1.mlp.c_fc.bias"][3] = torch.nan
    elif fault == "tokenizer":
        (made / "tokenizer.json").unlink()
    elif fault == "broken tokenizer":
        (made / "tokenizer.json").write_text("{}")
    elif fault == "architecture":
        config["model_type"] = "mamba"
    elif fault == "no JSON":
        (made / "config.json").write_text("{")
        return made
    elif fault == "quantized":
        config["quantization_config"] = {"bits": 4}
    elif fault == "no config":
        (made / "config.json").unlink()
        return made
    (made / "config.json").write_text(json.dumps(config))
    if weights.exists():
        save_file(tensors, weights, {"format": "pt"})
    return made


FAULTS = {
    "pickled": "pickled weights (pytorch_model.bin) are never opened",
    "shape": "transformer.h.1.mlp.c_fc.bias",
    "missing": "1 missing tensors: transformer.h.1.mlp.c_fc.bias",
    "nan": "NaN or infinity in transformer.h.1.mlp.c_fc.bias",
    "tokenizer": "holds no tokenizer that can be read",
    "broken tokenizer": "tokenizer.json: cannot be read as a tokenizer",
    "architecture": "no family named 'mamba'",
    "no JSON": "config.json: is not JSON",
    "quantized": "quantized weights are not supported",
    "no config": "is not a Hugging Face model: it holds no config.json",
}


@pytest.mark.parametrize("family", ["t5", "gpt2", "llama", "gemma2"])
def test_a_tokenizer_that_transformers_makes_up_is_none(folders: Path, tmp_path: Path, family: str):
    """Where its files are missing, `transformers` gives some families one that knows special tokens alone."""
    shutil.copytree(folders / family, tmp_path / "bare")
    (tmp_path / "bare" / "tokenizer.json").unlink()
    done = steer("check", folders / "lines.jsonl", "-c", f"hf:{tmp_path / 'bare'}")
    assert done.exit_code == 2
    (said,) = [line for line in done.output.splitlines() if line.startswith("error:")]
    assert "holds no tokenizer that can be read" in said


@pytest.mark.parametrize("fault", FAULTS)
def test_a_bad_folder_is_one_message(folders: Path, tmp_path: Path, fault: str):
    made = broken(folders, tmp_path, fault)
    keys = {"kind": "clean", "measures": [{"name": "token-accuracy"}], "checkpoint": f"hf:{made}"}
    done = steer("run", recipe(tmp_path, folders, "gpt2", **keys), "-q")
    assert done.exit_code == 2
    said = [line for line in done.output.splitlines() if line.startswith("error:")]
    assert len(said) == 1, done.output
    assert FAULTS[fault] in said[0]
    assert not list((tmp_path / "results").rglob("*.json"))


def test_a_name_that_is_no_folder_is_asked_of_the_hub_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    done = steer("doctor", "-c", "hf:nobody/nothing")
    assert done.exit_code == 2
    assert "nobody/nothing" in done.output
    for name in ("./nowhere", "a/b/c"):
        assert "no folder named" in steer("doctor", "-c", f"hf:{name}").output


def test_a_model_of_the_hub_is_recorded_by_its_commit(folders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Out of the Hub's own store, nothing asked of anybody."""
    commit, home = "0123456789" * 4, tmp_path / "hub" / "models--owner--tiny"
    (home / "refs").mkdir(parents=True)
    (home / "refs" / "main").write_text(commit)
    shutil.copytree(folders / "gpt2", home / "snapshots" / commit)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    keys = {"kind": "clean", "measures": [{"name": "token-accuracy"}], "checkpoint": "hf:owner/tiny"}
    found = result_of(steer("run", recipe(tmp_path, folders, "gpt2", **keys), "--json", "-q"))
    assert found["checkpoint"] == {"name": "owner/tiny", "sha256": "", "numbering": "", "commit": commit, "config": ""}


def test_all_files_of_a_model_are_of_the_revision_that_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """An optional file that came with a later commit is not one of the earlier commit."""
    home, commits = tmp_path / "hub" / "models--owner--tiny", {"v1": "a" * 40, "main": "b" * 40}
    (home / "refs").mkdir(parents=True)
    for name, commit in commits.items():
        (home / "refs" / name).write_text(commit)
        (home / "snapshots" / commit).mkdir(parents=True)
        (home / "snapshots" / commit / "config.json").write_text(json.dumps({"model_type": name}))
    (home / "snapshots" / commits["main"] / "tokenizer_config.json").write_text("{}")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    for name, told in {"owner/tiny@v1": "v1", f"owner/tiny@{'a' * 40}": "v1", "owner/tiny": "main"}.items():
        place = resolve(name)
        assert (read_config(place)["model_type"], place.commit) == (told, commits[told])
        assert (place.path("tokenizer_config.json") is not None) is (told == "main")


@pytest.mark.parametrize("library", ["tokenizers", "transformers"])
def test_a_missing_library_is_named_with_the_way_to_get_it(
    folders: Path, library: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, library, None)
    done = steer("doctor", "-c", f"hf:{folders / 'gpt2'}")
    assert done.exit_code == 2
    assert "pip install 'steer-interp[hf]'" in done.output


def test_what_does_not_fit_is_at_fault_with_its_line_before_weights_are_read(folders: Path, tmp_path: Path):
    long = {"prompt": " ".join(["w5"] * 70), "answer": "w8"}
    full = {"prompt": " ".join(["w5"] * 64), "answer": "w8"}
    strange = {"prompt": "w5 wxyz", "answer": "w8"}
    padded = {"prompt": "w5", "answer": WORDS[2]}
    (tmp_path / "bad.jsonl").write_text("\n".join(map(json.dumps, [LINES[1], long, full, strange, padded])))
    path = recipe(tmp_path, folders, "gpt2", kind="clean", measures=[{"name": "token-accuracy"}], task="bad.jsonl")
    done = steer("validate", path)
    assert done.exit_code == 2
    for line, text in (
        (2, "70 tokens"),
        (3, "prompt and answer: 65 tokens"),
        (4, "no token for 'wxyz'"),
        (5, "'</s>'"),
    ):
        assert f"bad.jsonl:{line}: " in done.output
        assert text in done.output


def test_examples_that_no_memory_holds_are_said_and_not_tried(folders: Path, tmp_path: Path):
    """T5 has no longest text."""
    long = tmp_path / "long.jsonl"
    long.write_text(json.dumps({"prompt": " ".join(["w5"] * 10_000), "answer": "w8"}))
    said = "an example of 10,003 tokens takes about 9.02G; --memory is 4G"  # its 24 patterns alone are 8.95G
    keys = {"kind": "clean", "task": str(long), "measures": [{"name": "token-accuracy"}]}
    done = steer("run", recipe(tmp_path, folders, "t5", **keys), "-q")
    assert done.exit_code == 2
    assert said in done.output
    assert done.output.count("error:") == 1
    assert said in steer("check", long, "-c", f"hf:{folders / 't5'}").output.replace("\n", " ")


def test_exchanged_positions_are_measured_against_wrong_answers(folders: Path, tmp_path: Path):
    """Nobody foresees the answer to exchanged positions; how the right one stands against wrong ones is known."""
    lines = [line | {"wrong": ["w11"], "spans": {"one": [0, 2], "two": [6, 9]}} for line in LINES[:1]]
    (tmp_path / "wrong.jsonl").write_text("\n".join(map(json.dumps, lines)))
    keys = {"kind": "position-swap", "ports": "enc-self-0.*.k", "tokens": ["one", "two"], "task": "wrong.jsonl"}
    measures = [{"name": "logit-difference"}, {"name": "logit-attribution", "against": "wrong"}]
    asked = recipe(tmp_path, folders, "t5", **keys, measures=measures)
    rows = result_of(steer("run", asked, "--json"))["rows"]
    before, after = (
        next(row["value"] for row in rows if (row["condition"], row["measure"]) == (condition, "logit-difference"))
        for condition in ("before", "after")
    )
    assert abs(after - before) > 1e-4
    foreseen = [{"name": "logit-difference", "against": "counterfactual"}]
    done = steer("validate", recipe(tmp_path, folders, "t5", **keys, measures=foreseen))
    assert done.exit_code == 2
    assert "does not say which answer exchanged positions give" in done.output


def test_what_a_model_lacks_is_said(folders: Path, tmp_path: Path):
    swap = {"kind": "position-swap", "tokens": [1, 2], "measures": [{"name": "token-accuracy"}]}
    for family, port, text in (
        ("qwen3", "1.2.v", "the keys and queries are rotated instead"),
        ("t5", "enc-self-1.2.v", "each head adds a bias to its scores instead"),
        ("t5", "dec-cross-1.2.q", "does not read the prompt's positions"),
    ):
        done = steer("validate", recipe(tmp_path, folders, family, **swap | {"ports": port}))
        assert done.exit_code == 2
        assert text in done.output, done.output
    sources = {"kind": "keep-only-one", "target": "1.2.k", "sources": "dec.pos", "measures": swap["measures"]}
    assert "no position embeddings" in steer("validate", recipe(tmp_path, folders, "qwen3", **sources)).output
    far = recipe(tmp_path, folders, "gpt2", **swap | {"tokens": [1, 4], "ports": "1.2.k"})
    assert "1 without place 4" in steer("run", far).output


def test_spans_that_cannot_be_exchanged_are_said(folders: Path, tmp_path: Path):
    """Lines whose spans do not fit are left out and counted; where none is left, and for a name, there is a fault."""
    spans = ({"a": [0, 2], "b": [3, 5]}, {"a": [0, 5], "b": [6, 8]}, {"a": [0, 5], "b": [3, 8]}, {"a": [0, 2]})
    lines = [{"prompt": "w5 w9 w12 w7", "answer": "w8", "spans": one} for one in spans]
    (tmp_path / "lines.jsonl").write_text("\n".join(map(json.dumps, lines)))
    swap = {"kind": "position-swap", "ports": "0.2.q", "measures": [{"name": "token-accuracy"}]}
    swap["task"] = str(tmp_path / "lines.jsonl")
    done = steer("run", recipe(tmp_path, folders, "gpt2", **swap, tokens=["a", "b"]), "--json")
    assert {row["counted"] for row in result_of(done)["rows"]} == {1}
    for text in (
        "1 in which 'a' and 'b' are of different lengths",
        "1 in which 'a' and 'b' overlap",
        "1 without place 'b'",
    ):
        assert text in done.stdout
    for tokens, text in (
        (["a", "bb"], "no place named 'bb'; did you mean b?"),
        (["a", "a"], "'a' stands here twice"),
        ([2, "last"], "nothing is exchanged at 1"),
    ):
        done = steer("run", recipe(tmp_path, folders, "gpt2", **swap, tokens=tokens, places=[1]))
        assert done.exit_code == 2
        assert text in done.output, done.output


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_other_kinds_of_numbers(folders: Path, tmp_path: Path, dtype: str):
    path = recipe(
        tmp_path, folders, "t5", kind="clean", measures=[{"name": "exact-match"}, {"name": "logit-attribution"}]
    )
    assert result_of(steer("run", path, "--dtype", dtype, "--json", "-q"))["dtype"] == dtype


@pytest.mark.parametrize(("option", "given"), [("--memory", "much"), ("--memory", "3"), ("--dtype", "float16")])
def test_odd_options_are_answered(folders: Path, tmp_path: Path, option: str, given: str):
    done = steer("run", recipe(tmp_path, folders, "gpt2", **KEEP), option, given, "-q")
    assert done.exit_code == 2
    assert option in done.output
