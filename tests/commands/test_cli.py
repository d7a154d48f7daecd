"""The command line: what it prints, what it writes, and how it answers bad input."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tokens import answers

from steer.base.shipped import checkpoint_names
from steer.base.version import __version__
from steer.models.checkpoint import load_checkpoint, save_checkpoint
from steer.tasks.compositional.selection import Episodes, select
from steer.tasks.compositional.splits import make_splits

ROOT = Path(__file__).parents[2]
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


COMMANDS = ["run", "reproduce", "draw", "plan", "validate", "schema", "attribute", "attend", "discover", "ask", "ls",
            "cp", "episodes", "train", "eval"]  # fmt: skip


def test_every_command_is_listed_and_answers(steer):
    """The names are written down here: a command that got lost on the way would be missing from the app as well."""
    text = steer("--help").stdout
    listed = [line.split()[0] for line in text.partition("Commands:")[2].splitlines() if line[:3].strip()]
    assert sorted(word for word in listed if word in COMMANDS) == sorted(COMMANDS)
    for name in COMMANDS:
        assert steer(name, "--help").exit_code == 0


@pytest.mark.parametrize(("split", "start", "seed"), [("test", 0, 0), ("test", 40, 0), ("validation", 7, 1)])
def test_episodes_are_those_of_the_number_that_is_printed(steer, split: str, start: int, seed: int):
    ask = ("episodes", "--n", 3, "--split", split, "--start", start, "--seed", seed)
    rows, text = json.loads(steer(*ask, "--json").stdout), steer(*ask).stdout
    drawn = make_splits(seed)[split]
    assert [row["episode"] for row in rows] == [start, start + 1, start + 2]
    for row in rows:
        episode = drawn[row["episode"]]
        assert (row["prompt"], tuple(row["answer"])) == (str(episode), episode.answer)
        assert f"{split} {row['episode']}: {episode}\n" in text
        symbols = row["prompt"].split()
        assert row["answer"] == [row["symbol_to_colour"][symbols[index - 1]] for index in row["relative_index_on_lhs"]]
        asked = symbols[: symbols.index("|")]
        assert row["index_in_question"] == {symbol: place for place, symbol in enumerate(asked, 1)}


@pytest.mark.usefixtures("png_only")
@pytest.mark.parametrize("number", [0, 5])
def test_commands_about_one_episode_show_the_one_of_that_number(steer, tmp_path: Path, number: int):
    episode = make_splits(0).test[number]
    ask = ("--episode", number, "--out", tmp_path, "--json")
    seen = json.loads(steer("attend", "--head", "dec-cross-0.1", "-c", "tiny", *ask).stdout)
    assert seen["keys"] == [*str(episode).split(), "EOS"]
    assert tuple(seen["expected"]) == episode.answer
    page = json.loads(steer("attribute", "--head", "dec-cross-0.1", "-c", "tiny", "--episodes", 5, *ask).stdout)
    assert page["pattern"]["keys"] == seen["keys"]
    assert page["examples"] == 5


RECIPE = "kind: clean\ncheckpoint: tiny\nepisodes: {count: 12}\nmeasures: [{name: token-accuracy}]\nfigure: none\n"


def test_what_run_prints_as_json_is_what_it_writes(steer, recipe_file, tmp_path: Path):
    told = json.loads(steer("run", recipe_file(RECIPE), "--out", tmp_path, "--json").stdout)
    written = json.loads((Path(told["folder"]) / "result.json").read_text())
    assert {key: told[key] for key in written} == written
    lines = (Path(told["folder"]) / "rows.csv").read_text().splitlines()
    assert lines[0].split(",") == list(written["rows"][0])
    assert len(lines) == 1 + len(written["rows"])
    assert [float(line.split(",")[lines[0].split(",").index("value")]) for line in lines[1:]] == [
        row["value"] for row in written["rows"]
    ]


def test_changes_on_the_command_line_reach_the_recipe(steer, recipe_file, tmp_path: Path):
    changes = ["episodes.count=7", "episodes.split=validation", "measures.0.name=exact-match", "seed=4"]
    told = json.loads(steer("run", recipe_file(RECIPE), *changes, "--out", tmp_path, "--json").stdout)
    recipe = told["recipe"]
    assert (recipe["episodes"]["count"], recipe["episodes"]["split"], recipe["seed"]) == (7, "validation", 4)
    assert (told["examples"], {row["measure"] for row in told["rows"]}) == (7, {"exact-match"})
    mine = select(Episodes(count=7, split="validation"), 0)
    right = [
        given == one.answer for given, one in zip(answers(load_checkpoint("tiny").transformer, mine), mine, strict=True)
    ]
    assert told["rows"][0]["value"] == pytest.approx(sum(right) / 7)


def test_a_tables_numbers_are_the_rows(steer, recipe_file, tmp_path: Path):
    path = recipe_file(RECIPE)
    told = json.loads(steer("run", path, "--out", tmp_path, "--json").stdout)
    text = steer("run", path, "--out", tmp_path).stdout
    (row,) = [row for row in told["rows"] if row["position"] is None]
    (line,) = [line for line in text.splitlines() if line.startswith("clean")]
    assert line.split()[1:] == [
        "token-accuracy", "answer", f"{row['value']:.1%}", f"{row['low']:.1%}", "to", f"{row['high']:.1%}",
    ]  # fmt: skip
    assert "already known" in text


@pytest.mark.parametrize(
    ("recipes", "code"), [(["good"], 0), (["bad"], 2), (["nowhere"], 2), (["good", "bad"], 1), (["good", "good2"], 0)]
)
def test_the_exit_code_says_how_it_went(steer, recipe_file, tmp_path: Path, recipes: list[str], code: int):
    recipe_file(RECIPE, "good.yaml")
    recipe_file(RECIPE.replace("12", "13"), "good2.yaml")
    recipe_file(RECIPE.replace("clean", "claen"), "bad.yaml")
    done = steer("run", *(tmp_path / f"{name}.yaml" for name in recipes), "--out", tmp_path / "out")
    assert done.exit_code == code
    assert bool(done.stderr) is bool(code)
    assert (tmp_path / "out").exists() is any("good" in name for name in recipes)


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
    assert all((tmp_path / f"accuracy.{kind}").stat().st_size > 1_000 for kind in ("png",))


def test_a_checkpoint_is_asked_about_the_episodes_that_were_held_out_from_it(steer, tmp_path: Path):
    """Its record says which seed the sets were drawn with; another seed's test episodes may be its training ones."""
    tiny = load_checkpoint("tiny")
    record = tiny.record.model_copy(update={"protocol": tiny.record.protocol | {"data_seed": 1}})
    save_checkpoint(tmp_path / "other", tiny.transformer, record)
    ask = ("-c", tmp_path / "other", "--split", "validation", "--out", tmp_path / "out", "--json")
    groups = json.loads(steer("eval", *ask).stdout)["groups"]
    told = {row["group"]: row["episodes"] for row in groups}
    lengths = [len(episode.answer) for episode in make_splits(1).validation]
    assert [told[f"{n} tokens"] for n in (2, 3, 4)] == [lengths.count(n) for n in (2, 3, 4)]
    seen = json.loads(
        steer("attend", "--head", "dec-cross-0.1", "-c", tmp_path / "other", "--out", tmp_path, "--json").stdout
    )
    assert seen["keys"][:-1] == str(make_splits(1).test[0]).split()
    assert select(Episodes(count=3), 1) != select(Episodes(count=3), 0)
    ask = ("--episodes", 40, "-c", tmp_path / "other", "--out", tmp_path, "--json")
    page = json.loads(steer("attribute", "--head", "dec-cross-0.1", *ask).stdout)
    said = [colour for episode in select(Episodes(count=40), 1) for colour in episode.answer]
    counted = {row["group"]: row["counted"] for row in page["rows"] if row["group"]}
    assert counted == {colour: said.count(colour) for colour in counted}


def test_train_writes_a_checkpoint_that_loads(steer, tmp_path: Path):
    out = tmp_path / "run"
    done = steer("train", "--preset", "tiny", "--seed", 4, "--out", out, *TINY_RUN)
    assert done.exit_code == 0, done.output
    record = load_checkpoint(str(out)).record
    assert (record.seed, record.config.d_model) == (4, 16)
    held_out = make_splits(0).test  # not the episodes that training was watched on
    told = record.accuracy
    assert told is not None
    assert told.episodes == len(held_out)
    lengths = {row.group: row.episodes for row in told.groups}
    assert lengths["3 tokens"] == sum(len(episode.answer) == 3 for episode in held_out)
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
