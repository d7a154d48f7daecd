"""The command line: what it prints, what it writes, and how it answers bad input."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from steer.commands import app
from steer.model.checkpoint import load_checkpoint
from steer.shipped import checkpoint_names
from steer.version import __version__

ROOT = Path(__file__).parents[1]
TINY_RUN = ["model.d_model=16", "model.heads=2", "stages.0.epochs=1", "stages.0.episodes=40", "stages.0.until=null"]


@pytest.mark.parametrize("door", [["-m", "steer"], [str(ROOT / "cli.py")]])
def test_both_doors_open(door: list[str]):
    done = subprocess.run([sys.executable, *door, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"steer {__version__}\n"


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["train", "--help"], ["ls"], ["episodes", "--n", "1"]]
)
def test_light_commands_import_no_torch(arguments: list[str]):
    code = (
        "import sys\nfrom steer.commands import app\n"
        f"try: app({arguments!r})\nexcept SystemExit as e: assert not e.code, e.code\n"
        "heavy = {'torch', 'nnsight', 'matplotlib', 'sklearn'} & set(sys.modules)\nassert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)


def test_help_lists_every_command(steer):
    text = steer("--help").stdout
    commands = [command.name or command.callback.__name__ for command in app.registered_commands]
    assert len(commands) >= 15
    assert all(f" {name} " in text for name in commands)


def test_episodes_for_people_and_for_scripts(steer):
    rows = json.loads(steer("episodes", "--n", 3, "--split", "validation", "--json").stdout)
    text = steer("episodes", "--n", 3, "--split", "validation").stdout
    assert len(rows) == 3
    for row in rows:
        assert row["prompt"] in text
        assert row["answer"] == [
            row["symbol_to_colour"][row["prompt"].split()[index - 1]] for index in row["relative_index_on_lhs"]
        ]


def test_ls_names_what_is_shipped(steer):
    found = json.loads(steer("ls", "--json").stdout)
    assert {row["name"] for row in found["checkpoints"]} == set(checkpoint_names())
    text = steer("ls").stdout
    assert all(row["name"] in text for kind in found.values() for row in kind)


def test_eval_writes_result_and_picture(steer, tmp_path: Path):
    done = steer("eval", "--checkpoint", "tiny", "--split", "validation", "--out", tmp_path, "--json")
    report = json.loads(done.stdout)
    assert report == json.loads((tmp_path / "result.json").read_text())
    assert (report["checkpoint"], report["episodes"]) == ("tiny", 500)
    low, high = report["interval"]
    assert low <= report["exact_match"] <= high
    assert sum(row["episodes"] for row in report["groups"] if row["group"].startswith(("one", "two"))) == 500
    assert all((tmp_path / f"accuracy.{kind}").stat().st_size > 1_000 for kind in ("png", "pdf", "svg"))


def test_train_writes_a_checkpoint_that_loads(steer, tmp_path: Path):
    out = tmp_path / "run"
    done = steer("train", "--preset", "tiny", "--seed", 4, "--out", out, *TINY_RUN)
    assert done.exit_code == 0, done.output
    record = load_checkpoint(str(out)).record
    assert (record.seed, record.config.d_model) == (4, 16)
    before = (out / "model.safetensors").read_bytes()
    refused = steer("train", "--preset", "tiny", "--seed", 4, "--out", out, *TINY_RUN)
    assert refused.exit_code == 2
    assert "--resume" in refused.stderr
    again = steer("train", "--preset", "tiny", "--seed", 4, "--out", out, "--resume", *TINY_RUN)
    assert again.exit_code == 0, again.output
    assert (out / "model.safetensors").read_bytes() == before


BAD = [
    (["trian"], "train"),
    (["train", "--sede", "3", "--out", "OUT"], "--seed"),
    (["train", "--out", "OUT"], "which protocol?"),
    (["train", "--preset", "tinny", "--out", "OUT"], "did you mean tiny"),
    (["train", "--preset", "tiny", "--out", "OUT", "stages.0.epoch=3"], "did you mean 'epochs'"),
    (["train", "--preset", "tiny", "--out", "OUT", "--device", "cuda:99"], "no device named"),
    (["train", "--preset", "tiny", "--config", "x.yaml", "--out", "OUT"], "not both"),
    (["train", "--preset", "tiny", "--resume", "--overwrite", "--out", "OUT"], "not both"),
    (["train", "--preset", "tiny", "--resume", "--out", "OUT"], "cannot be resumed"),
    (["train", "--config", "missing.yaml", "--out", "OUT"], "cannot be read"),
    (["eval", "--checkpoint", "tinny", "--out", "OUT"], "did you mean tiny"),
    (["eval", "--split", "tests", "--out", "OUT"], "test"),
    (["train", "--preset", "tiny", "--out", "OUT", "model.max_length=20"], "must be 60 at least"),
    (["train", "--preset", "tiny", "--out", "OUT", "stages.0.warmup=.inf"], "finite"),
    (["train", "--preset", "tiny", "--out", "OUT", "--seed", "99999999999999999999"], "--seed"),
    (["train", "--preset", "tiny", "--out", "OUT", "stages.0.questions={compositions: 0, copies: 1}"], "copies"),
    (["train", "--preset", "tiny", "--out", "OUT", "--device", "meta"], "no device named"),
    (["episodes", "--n", "0"], "--n"),
    (["episodes", "--start", "1999", "--n", "2"], "2,000 episodes"),
]


@pytest.mark.parametrize(("arguments", "says"), BAD)
def test_bad_input_is_answered_and_nothing_is_written(steer, tmp_path: Path, arguments: list[str], says: str):
    out = tmp_path / "out"
    done = steer(*(out if a == "OUT" else a for a in arguments))
    assert done.exit_code == 2
    assert says in done.stderr
    assert "Traceback" not in done.output
    assert not out.exists()


def test_an_unwritable_folder_is_named(steer, tmp_path: Path):
    (tmp_path / "file").write_text("")
    for command in (["train", "--preset", "tiny"], ["eval", "--checkpoint", "tiny", "--split", "validation"]):
        done = steer(*command, "--out", tmp_path / "file" / "inside")
        assert done.exit_code == 2
        assert str(tmp_path / "file") in done.stderr
