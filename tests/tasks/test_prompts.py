"""Files of prompts: what is read from each kind of file, how spans become places, and one message for each fault."""

from __future__ import annotations

import csv
import importlib.util
import json
from pathlib import Path

import pytest

from steer.base.errors import SteerError
from steer.experiments.api import build_recipe, run
from steer.experiments.given import prompts_of
from steer.experiments.one import experiment_hash
from steer.models.families import load_subject
from steer.recipe.load import load_recipe
from steer.tasks.prompts.formats import named
from steer.tasks.prompts.read import LONGEST, read_lines
from steer.tasks.prompts.task import read_prompts
from steer.tasks.task import PROMPT
from steer.tasks.text import Piece, Words, covered

WORDS = Words(("PAD", "SOS", "EOS", "a", "b", "c", "Paris", "Rome", "in", "is"))
GOOD = {
    "prompt": "Paris is in", "answer": "a", "wrong": ["b", "c"], "split": "test",
    "counterparts": {"city": {"prompt": "Rome is in", "answer": "b"}, "silent": {"prompt": "a is in"}},
    "spans": {"subject": [0, 5], "rest": [6, 11]}, "labels": {"subject": "France"},
}  # fmt: skip
OTHER = {"prompt": "Rome  is", "answer": "b c", "spans": {"subject": [0, 4]}, "labels": {"subject": "Italy"}}


def jsonl(path: Path, *lines: object) -> Path:
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    return path


def table(path: Path, columns: list[str], *rows: list[object]) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file, delimiter="\t" if path.suffix == ".tsv" else ",").writerows([columns, *rows])
    return path


def faults(path: Path, form: str = "steer") -> list[str]:
    with pytest.raises(SteerError) as error:
        read_prompts(path, form, WORDS, path.name)
    return [fault.replace(str(path), path.name) for fault in error.value.faults]


def test_a_file_is_a_task(tmp_path: Path):
    task = read_prompts(jsonl(tmp_path / "a.jsonl", GOOD, "", OTHER), "steer", WORDS, "a.jsonl")
    first, second = task.split("all", 0)
    assert (first.prompt, first.answer, str(first)) == (("Paris", "is", "in"), ("a",), "Paris is in")
    assert first.spans == {"subject": (0,), "rest": (1, 2)}
    assert (second.prompt, second.answer) == (("Rome", "is"), ("b", "c"))
    assert (task.longest_answer, task.splits, task.variables) == (2, ("all", "test"), ("city", "silent"))
    assert [task.alternatives(one) for one in (first, second)] == [("b", "c"), ("a", "b")]
    assert task.counterpart(first, "city").prompt == ("Rome", "is", "in")
    assert task.counterpart(first, "city").answer == ("b",)
    assert task.counterpart(first, "silent") is None  # no answer is predicted
    assert task.counterpart(second, "city") is None
    assert [task.labelled(one, "subject", "subject") for one in (first, second)] == [
        [((PROMPT, 0), 1)], [((PROMPT, 0), 2)],
    ]  # fmt: skip
    assert [word for word in WORDS.vocabulary if task.counts(word)] == ["a", "b", "c"]
    assert task.split("test", 0) == [first]
    assert list(task.examples(task.selection(count=1, split="all"), 0, "city")) == [first]


def test_a_label_may_be_empty_and_a_line_may_have_none(tmp_path: Path):
    lines = [GOOD | {"labels": labels} for labels in ({"subject": ""}, {"subject": 0}, {}, {"subject": "x"})]
    task = read_prompts(jsonl(tmp_path / "a.jsonl", *lines), "steer", WORDS, "a.jsonl")
    found = [task.labelled(one, "subject", "subject") for one in task.split("all", 0)]
    assert found == [[((PROMPT, 0), 1)], [((PROMPT, 0), 2)], [], [((PROMPT, 0), 3)]]


def test_a_span_is_every_token_that_shares_a_character():
    pieces = [Piece("un", 0, 2), Piece("kind", 2, 6), Piece("ly", 6, 8)]
    assert [covered(pieces, *ends) for ends in ((0, 2), (1, 3), (2, 6), (5, 8), (8, 9))] == [
        (0,), (0, 1), (1,), (1, 2), (),
    ]  # fmt: skip


def test_tables_have_the_same_columns(tmp_path: Path):
    columns = ["prompt", "answer", "wrong", "counterparts.city.prompt", "counterparts.city.answer", "spans", "split"]
    row = ["Paris is in", "a", '["b", "c"]', "Rome is in", "b", '{"subject": [0, 5]}', "test"]
    for name in ("a.csv", "a.tsv"):
        lines, _ = read_lines(table(tmp_path / name, columns, row, ["[a", "b", "c", "", "", "", ""]))
        one, two = lines.values()
        assert one.model_dump(exclude_defaults=True) == {
            "prompt": "Paris is in", "answer": "a", "wrong": ("b", "c"), "split": "test", "spans": {"subject": (0, 5)},
            "counterparts": {"city": {"prompt": "Rome is in", "answer": "b"}},
        }  # fmt: skip
        assert (two.prompt, two.wrong) == ("[a", ("c",))  # a prompt is never taken for JSON
        assert [place.rpartition(":")[2] for place in lines] == ["2", "3"]


@pytest.mark.skipif(importlib.util.find_spec("pyarrow") is not None, reason="pyarrow is there")
def test_parquet_without_its_reader(tmp_path: Path):
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    assert faults(tmp_path / "a.parquet") == ["a.parquet: Parquet is read by pyarrow, which is not installed"]


def test_files_of_other_tools(tmp_path: Path):
    def read(path: Path, form: str) -> list[dict]:
        return [line.model_dump(exclude_defaults=True) for line in read_lines(path, form)[0].values()]

    clean = {"prompt": "Paris is in", "answer": "a"}
    labelled = table(tmp_path / "l.csv", ["clean", "corrupted", "label"], ["Paris is in", "Rome is in", "a"])
    assert read(labelled, "eap-ig") == [clean | {"counterparts": {"corrupted": {"prompt": "Rome is in"}}}]
    columns = ["clean", "corrupted", "corrupted_hard", "correct_idx", "incorrect_idx"]
    numbered = table(tmp_path / "n.csv", columns, ["Paris is in", "Rome is in", "a is in", 3, 4])
    hard = {"corrupted": {"prompt": "Rome is in"}, "corrupted_hard": {"prompt": "a is in"}}
    wanted = {"prompt": "Paris is in", "answer": 3, "wrong": (4,), "counterparts": hard}
    assert read(numbered, "eap-ig") == [wanted]
    (example,) = read_prompts(numbered, "eap-ig", WORDS, "n").split("all", 0)
    assert example.answer == ("a",)

    year = jsonl(tmp_path / "year.jsonl", {"clean": "Paris is in", "corrupted": "Rome is in", "label": 41})
    assert read(year, "eap-ig")[0]["answer"] == "41"  # a text, not the id of a token

    prompts = [{"clean": "Paris is in", "corrupt": "Rome is in", "answers": ["a"], "wrong_answers": ["b"]}]
    auto = jsonl(tmp_path / "auto.json", {"prompts": prompts, "word_idxs": {}})
    corrupt = {"corrupt": {"prompt": "Rome is in"}}
    assert read(auto, "auto-circuit") == [clean | {"wrong": ("b",), "counterparts": corrupt}]

    choices = {"label": ["a", "b", "c"]}
    theirs = {"prompt": "Rome is in", "choices": choices, "answerKey": 1}
    row = {"prompt": "Paris is in", "choices": choices, "answerKey": 0, "metadata": {}, "city_counterfactual": theirs}
    counterpart = {"prompt": "Rome is in", "answer": "b"}
    found = read(jsonl(tmp_path / "mib.jsonl", row, row | {"answerKey": "c"}), "mib")
    assert found[0] == clean | {"wrong": ("b", "c"), "counterparts": {"city": counterpart}}
    assert (found[1]["answer"], found[1]["wrong"]) == ("c", ("a", "b"))

    row = {"input": "Paris is in", "counterfactual_inputs": ["Rome is in"], "base_answer": "a", "cf_answer": "b"}
    row |= {"input_variables": {}, "split": "train", "example_id": 1}
    lab = jsonl(tmp_path / "lab.json", [row])
    assert read(lab, "causalab") == [clean | {"split": "train", "counterparts": {"counterfactual": counterpart}}]


FOREIGN = [
    ("eap-ig", {"clean": "Paris is in", "corrupted": "Rome is in", "label": "a"}),
    ("auto-circuit", {"clean": "Paris is in", "corrupt": "Rome is in", "answers": ["a"], "wrong_answers": ["b"]}),
    ("mib", {"prompt": "Paris is in", "choices": {"label": ["a", "b"]}, "answerKey": 0}),
    ("causalab", {"input": "Paris is in", "counterfactual_inputs": ["Rome is in"], "base_answer": "a"}),
]  # fmt: skip


@pytest.mark.parametrize(("form", "row"), FOREIGN)
def test_columns_of_another_tool_are_recognised_once_and_may_be_named_before_the_file(tmp_path: Path, form, row):
    """A file of many lines gets one message, and what that says works on the command line and in a recipe."""
    path = jsonl(tmp_path / "theirs.jsonl", *[row] * 3)
    (told,) = faults(path)
    assert told.startswith(f"theirs.jsonl: has the columns of {form}: name it {form}:FILE")
    assert named(f"{form}:{path}") == (path, form)
    jsonl(path, row | {"clean": "A", "prompt": "A", "input": "A", "corrupted": "B", "corrupt": "B"} | SAID[form])
    recipe = load_recipe(str(asked(tmp_path, task=f"{form}:theirs.jsonl"))).recipe
    (example,) = recipe.task.split("all", 0)
    assert (example.prompt, example.answer) == (("A",), ("red",))
    (same,) = prompts_of("tiny", f"{form}:{path}").split("all", 0)
    assert same == example
    assert run(build_recipe(kind="clean", checkpoint="tiny", measures=[{"name": "exact-match"}], task=f"{form}:{path}"))


def test_a_file_is_of_ours_unless_a_tool_is_named(tmp_path: Path):
    assert [named(file) for file in ("a.jsonl", "mib:", "mine:a.jsonl", "hf:a.jsonl")] == [
        (Path(file), "steer") for file in ("a.jsonl", "mib:", "mine:a.jsonl", "hf:a.jsonl")
    ]
    both = FOREIGN[2][1] | {"answer": "a"}  # a line of ours with strange columns is told of each
    assert len(faults(jsonl(tmp_path / "both.jsonl", both))) == 2


BAD = [
    ("", "bad.jsonl: holds no examples"),
    ("\n\n", "bad.jsonl: holds no examples"),
    ("{", "bad.jsonl:2: is not valid JSON (column 2: Expecting property name enclosed in double quotes)"),
    ("[1]", "bad.jsonl:2: must be an object with prompt and answer, not [1]"),
    ('{"prompt": "a", "prompt": "b", "answer": "c"}', "bad.jsonl:2: the key 'prompt' stands here twice"),
    ({"promt": "a", "answer": "b"}, "bad.jsonl:2: unknown key 'promt'; did you mean 'prompt'?"),
    (GOOD | {"spans": {"subject": [0, 12]}, "labels": {}}, "'subject' is [0, 12], the prompt has 11 characters"),
    (GOOD | {"spans": {"subject": [5, 6]}, "labels": {}}, "bad.jsonl:2: spans: 'subject' holds no token of the prompt"),
    (GOOD | {"labels": {"subjct": "x"}}, "'subjct' is not a span of this line"),
    (GOOD | {"answer": ""}, "bad.jsonl:2: answer: must be a text, or the id of one token (found '')"),
    (GOOD | {"answer": None}, "bad.jsonl:2: answer: must be a text, or the id of one token (found None)"),
    (GOOD | {"wrong": ["b", True]}, "bad.jsonl:2: wrong.1: must be a text, or the id of one token (found True)"),
    (GOOD | {"answer": " "}, "bad.jsonl:2: answer: holds no token"),
    (GOOD | {"answer": 99}, "bad.jsonl:2: no token has the id 99: there are 10"),
    (OTHER | {"prompt": "Romme is"}, "bad.jsonl:2: no token named 'Romme'; did you mean Rome"),
    ("x" * (LONGEST + 1), f"bad.jsonl:2: a line of {LONGEST + 1:,} characters; at most {LONGEST:,} are read"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "text"), BAD, ids=range(len(BAD)))
def test_one_message_with_file_and_line(tmp_path: Path, line: object, text: str):
    empty = isinstance(line, str) and not line.strip()
    found = faults(jsonl(tmp_path / "bad.jsonl", line) if empty else jsonl(tmp_path / "bad.jsonl", GOOD, line))
    assert any(text in fault for fault in found)
    assert all(fault.startswith("bad.jsonl") for fault in found)
    assert len(found) == 1 + ("promt" in text)  # that a prompt is missing is said as well


def test_all_faults_of_a_file_are_told_at_once_and_counted_when_there_are_many(tmp_path: Path):
    found = faults(jsonl(tmp_path / "a.jsonl", *["{"] * 3, GOOD, *["[]"] * 40))
    assert len(found) == 21
    assert [fault.split(":")[1] for fault in found[:4]] == ["1", "2", "3", "5"]
    assert found[-1] == "… and 23 more faults"


def test_other_files_at_fault(tmp_path: Path):
    assert "ends in .jsonl, .json" in faults(jsonl(tmp_path / "a.txt", GOOD))[0]
    assert "cannot be read" in faults(tmp_path / "none.jsonl")[0]
    (tmp_path / "bytes.jsonl").write_bytes(b"\xff\xfe")
    assert faults(tmp_path / "bytes.jsonl") == ["bytes.jsonl: cannot be read (byte 1 is not UTF-8)"]
    wide = table(tmp_path / "a.csv", ["prompt", "answer"], ["a", "b", "c"])
    assert faults(wide) == ["a.csv:2: has 3 cells, the first line names 2 columns"]
    assert faults(table(tmp_path / "b.csv", ["prompt", "answer", "wrong"], ["a", "b", "[c"]))[0].startswith(
        "b.csv:2: wrong: is not valid JSON"
    )
    twice = table(tmp_path / "t.csv", ["prompt", "answer", "prompt"], ["a", "b", "c"])
    assert faults(twice) == ["t.csv:1: the column 'prompt' stands here twice"]  # of two the last would be taken
    misnamed = table(tmp_path / "c.csv", ["clean", "corupted", "label"], ["a", "b", "c"])
    assert faults(misnamed, "eap-ig") == ["c.csv:2: has no column 'corrupted'; did you mean 'corupted'?"]
    assert faults(jsonl(tmp_path / "d.json", {"lines": []})) == [
        "d.json: must be an array of examples, or an object with `prompts`"
    ]


# In a recipe

SAID: dict[str, dict] = {
    "eap-ig": {"label": "red"}, "auto-circuit": {"answers": ["red"], "wrong_answers": ["blue"]},
    "mib": {"choices": {"label": ["red", "blue"]}}, "causalab": {"base_answer": "red", "counterfactual_inputs": ["B"]},
}  # fmt: skip
SHOWN = [
    {"prompt": "A S B | A = red | B = blue | B S A = red blue EOS", "answer": "blue red", "wrong": ["green"]},
    {"prompt": "B S A | A = red | B = blue | B S A = blue red EOS", "answer": "blue red"},
]


def asked(folder: Path, **keys: object) -> Path:
    jsonl(folder / "mine.jsonl", *SHOWN)
    path = folder / "mine.yaml"
    keys = {"kind": "clean", "checkpoint": "tiny", "measures": [{"name": "exact-match"}], "task": "mine.jsonl"} | keys
    path.write_text(json.dumps(keys))
    return path


def test_a_recipe_brings_its_prompts_to_a_plain_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The file is found beside the recipe, wherever one stands; its answers are scored as the model's own decoding."""
    path = asked(tmp_path)
    monkeypatch.chdir("/")
    result = run(load_recipe(str(path)))
    (row,) = result.rows
    subject = load_subject("tiny")
    examples = load_recipe(str(path)).recipe.task.split("all", 0)
    told = list(subject.about(load_recipe(str(path)).recipe.task).answers(examples))
    assert row.examples == 2
    assert row.value == sum(said == one.answer for said, one in zip(told, examples, strict=True)) / 2
    assert result.provenance.task == "prompts"
    assert result.provenance.recipe["task"] == "mine.jsonl"


def test_other_lines_are_another_question(tmp_path: Path):
    path, subject = asked(tmp_path), load_subject("tiny")
    first = experiment_hash(load_recipe(str(path)).recipe, subject)
    assert experiment_hash(load_recipe(str(path)).recipe, subject) == first
    jsonl(tmp_path / "mine.jsonl", *SHOWN[::-1])
    assert experiment_hash(load_recipe(str(path)).recipe, subject) != first


def test_faults_of_a_recipe_with_prompts(tmp_path: Path, steer):
    def told(**keys: object) -> str:
        done = steer("validate", asked(tmp_path, **keys))
        assert done.exit_code == 2
        return done.output.replace("\n", " ")

    assert "none.jsonl: cannot be read" in told(task="none.jsonl")
    assert "did you mean 'format'?" in told(task={"file": "mine.jsonl", "formt": "mib"})
    assert "task.format" in told(task={"file": "mine.jsonl", "format": "mibb"})
    assert "no checkpoint named 'tinny'; did you mean tiny?" in told(checkpoint="tinny")
    assert "episodes.split" in told(episodes={"split": "test"})
    assert "variable" in told(kind="steer", variable="city", sets=[{"name": "a", "sites": "enc-self-0.0.z"}])


def test_prompts_without_a_file(tmp_path: Path):
    with pytest.raises(SteerError, match="the recipe is about the task 'prompts', tiny of 'compositional'"):
        run(build_recipe(kind="clean", checkpoint="tiny", task="prompts", measures=[{"name": "exact-match"}]))
