"""The authors' task: their prompts and files, episodes like theirs, and Algorithm 1 on them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
import torch
from small import random_weights

from steer.base.dice import Dice
from steer.base.errors import PromptError, SteerError
from steer.models.checkpoint import Record, load_checkpoint, save_checkpoint
from steer.models.plain.config import ModelConfig
from steer.models.plain.transformer import Transformer
from steer.tasks import TASKS
from steer.tasks.authors.evaluation import DETERMINED, OPEN, is_answered
from steer.tasks.authors.files import EpisodeFile, parse_file, read_folder
from steer.tasks.authors.generator import Rule, draw_long, draw_mlc, interpret
from steer.tasks.task import PlainExample

TASK = TASKS["authors"]
TEXT = """\
*SUPPORT*
IN: zup OUT: GREEN
IN: zup lug kiki OUT: PINK GREEN PINK \n\

IN: kiki OUT: PINK


*QUERY*
IN: kiki lug zup OUT: GREEN PINK GREEN
IN: kiki lug zup lug kiki OUT: PINK GREEN PINK

*GRAMMAR*
zup -> GREEN \n\
 kiki -> PINK \n\
 x1 lug x2 -> [x2] [x1] [x2] \n\
 """


def test_a_file_becomes_prompts_as_the_authors_write_them():
    """A separator behind every item, the last one too; it is the token that starts an answer."""
    call, nested = parse_file(TEXT, "f").examples()
    support = "zup IO GREEN SOS zup lug kiki IO PINK GREEN PINK SOS kiki IO PINK SOS EOS"
    assert " ".join(call.prompt) == f"kiki lug zup SOS {support}"
    assert " ".join(nested.prompt) == f"kiki lug zup lug kiki SOS {support}"
    assert (call.answer, nested.answer) == (("GREEN", "PINK", "GREEN"), ("PINK", "GREEN", "PINK"))
    assert isinstance(nested, PlainExample)
    assert str(call) == "kiki lug zup | zup = GREEN | zup lug kiki = PINK GREEN PINK | kiki = PINK |"
    assert set(call.prompt) | set(call.answer) <= set(TASK.tokens)


def test_what_is_written_is_read_back():
    for draw in (draw_long, draw_mlc):
        made = draw(Dice(1))
        assert parse_file(str(made), "f") == made


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", r"f: has no items under \*SUPPORT\*"),
        ("IN: zup OUT: GREEN", r"f:1: an episode file begins with"),
        (TEXT.replace("*QUERY*", ""), r"has no items under \*QUERY\*"),
        (TEXT.replace("IN: zup OUT", "zup OUT"), r"f:2: 'zup OUT: GREEN' is not of the form"),
        (TEXT.replace("zup OUT: GREEN", "zupp OUT: GREEN"), "f:2: no word named 'zupp'; did you mean zup"),
        (TEXT.replace("OUT: GREEN", "OUT: green"), "f:2: no colour named 'green'; did you mean GREEN"),
        (TEXT.replace("zup -> GREEN", "zup GREEN"), "f:13: 'zup GREEN' is not of the form"),
    ],
)
def test_a_broken_file_is_named_with_its_line(text: str, says: str):
    with pytest.raises(SteerError, match=says):
        parse_file(text, "f")


def test_folders(tmp_path: Path):
    (tmp_path / "val").mkdir()
    for number in (2, 1):
        (tmp_path / "val" / f"00000{number}.txt").write_text(str(draw_long(Dice(number))))
    expected = [*draw_long(Dice(1)).examples(), *draw_long(Dice(2)).examples()]
    assert read_folder(tmp_path) == read_folder(tmp_path / "val") == expected
    for folder, says in ((tmp_path / "none", "there is no folder"), (Path(__file__).parent, "no episode files")):
        with pytest.raises(SteerError, match=says):
            read_folder(folder)


def test_rules_mean_what_they_say():
    rules = [
        Rule(("dax",), ("RED",)), Rule(("zup",), ("BLUE",)), Rule(("u1", "lug"), ("[u1]", "[u1]")),
        Rule(("x1", "kiki", "x2"), ("[x2]", "[x1]")), Rule(("u1", "x1"), ("[u1]", "[x1]")),
    ]  # fmt: skip
    for text, meaning in {
        "dax": "RED", "dax lug": "RED RED", "dax kiki zup": "BLUE RED", "dax zup": "RED BLUE",
        "dax kiki zup lug": "BLUE BLUE RED", "dax zup lug": "RED BLUE BLUE", "dax kiki zup kiki dax": "RED BLUE RED",
    }.items():  # fmt: skip
        assert interpret(tuple(text.split()), rules) == tuple(meaning.split())
    outer = [*rules[:2], Rule(("x1", "kiki", "x2"), ("[x1]", "[x2]", "[x1]"))]  # which one is the outer shows here
    said = interpret(("dax", "kiki", "zup", "kiki", "dax"), outer)
    assert said == ("RED", "BLUE", "RED", "RED", "RED", "BLUE", "RED")
    for text in ("lug", "dax fep", "fep"):
        assert interpret(tuple(text.split()), rules) is None
    assert interpret(("dax",), [Rule(("x1",), ("[x1]",))]) is None  # for ever


def test_episodes_like_those_that_the_authors_analyse():
    """200 files: the authors' have 1,838 determined questions of 2,000, and 333 that stand in the support."""
    files = [draw_long(Dice(7, number)) for number in range(200)]
    examples = [example for file in files for example in file.examples()]
    assert {(len(file.support), len(file.questions), len(file.rules)) for file in files} == {(14, 10, 8)}
    assert {len(example.prompt) for example in examples} == {121}
    assert {len(example.answer) for example in examples} == {5}
    groups = TASK.groups(examples, ())
    assert 1_800 < sum(groups[DETERMINED]) < 1_880
    assert sum(groups[DETERMINED]) + sum(groups[OPEN]) == 2_000
    assert 280 < sum(groups["question stands in the support"]) < 380
    assert 440 < sum(groups["one argument twice"]) < 560  # 2.53 of 10
    for example in filter(is_answered, examples):
        assert TASK.solve(example).answer == example.answer


def functions(file: EpisodeFile) -> list[int]:
    return [sum(word in file.functions for word in words) for words, _ in file.questions]


def test_episodes_like_those_that_the_authors_train_on():
    """MLC's validation files: 25 % of questions without a function, 52 % with one, 17 % with two; 122.5 tokens."""
    files = [draw_mlc(Dice(7, number)) for number in range(150)]
    counted = Counter(number for file in files for number in functions(file))
    shares = [counted[number] / 1_500 for number in range(3)]
    assert shares == pytest.approx([0.25, 0.52, 0.17], abs=0.05)
    lengths = [len(example.prompt) for file in files for example in file.examples()]
    assert sum(lengths) / len(lengths) == pytest.approx(122, abs=4)
    assert max(lengths) < 200
    listed = [sum(len(words) == 1 for words, _ in file.support) for file in files]
    assert sum(listed) / 150 == pytest.approx(2.1, abs=0.3)
    assert all(1 <= len(out) <= 8 for file in files for _, out in (*file.support, *file.questions))
    right = Counter(len(right) for file in files for left, right in file.rules[4:7])
    assert right[2] / 450 == pytest.approx(0.6, abs=0.07)


def test_splits_hold_determined_questions_and_differ():
    test, validation = TASK.split("test", 0), TASK.split("validation", 0)
    assert (len(test), len(validation)) == (2_000, 500)
    assert all(map(is_answered, test[:100]))
    assert test[0] != validation[0]
    assert TASK.split("test", 1)[0] != test[0]
    assert isinstance(TASK.split("train", 0)[0], PlainExample)


EPISODE = TASK.parse("kiki lug zup | zup = GREEN | zup lug kiki = PINK GREEN PINK | kiki = PINK")


def places(role: str) -> dict[int, set[int]]:
    return {gaze.looks[1]: {place for _, place in gaze.right} for gaze in TASK.gaze(EPISODE, role)}


def test_roles_and_labels_are_places_of_the_authors_prompt():
    prompt = EPISODE.prompt
    assert EPISODE.answer == ("GREEN", "PINK", "GREEN")
    assert places("primitive-pairing") == {6: {4}, 18: {16}}
    assert places("output")[0] == {place for place, token in enumerate(prompt) if token == "GREEN"}
    assert places("question-broadcast") == {4: {2}, 8: {2}, 9: {1}, 10: {0}, 16: {0}}
    assert places("rhs-scanner") == {0: {12}, 1: {13}, 2: {14}}
    assert places("primitive-retrieval") == {12: {10}, 13: {8}, 14: {10}}
    assert places("function-retrieval") == {12: {9}, 13: {9}, 14: {9}}
    assert [(prompt[place], value) for (_, place), value in TASK.labelled(EPISODE, "index-in-question", "colours")] == [
        ("GREEN", 3), ("PINK", 1),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("variable", "answer"), [("index-in-question", "PINK GREEN PINK"), ("relative-index", "PINK GREEN PINK")]
)
def test_counterparts_keep_the_authors_prompt(variable: str, answer: str):
    other = TASK.counterpart(EPISODE, variable)
    assert other is not None
    assert " ".join(other.answer) == answer
    assert (other.prompt[-2:], len(other.prompt)) == (("SOS", "EOS"), len(EPISODE.prompt))


def test_typed_prompts_and_what_is_wrong_with_them():
    assert (
        TASK.parse("kiki lug zup SOS zup IO green sos zup lug kiki io PINK green pink SOS kiki IO pink SOS EOS")
        == EPISODE
    )
    for text, says in (("kiki lugg zup | kiki = PINK", "did you mean lug"), ("A S B | A = red", "no token named 'A'")):
        with pytest.raises(PromptError, match=says):
            TASK.parse(text)


def test_one_argument_twice_chooses_nothing():
    twice = TASK.parse("kiki lug kiki | kiki = PINK | kiki lug kiki = PINK PINK")
    assert not TASK.chooses(twice)
    assert TASK.chooses(EPISODE)
    assert TASK.counterpart(twice, "index-in-question") is None


def test_it_is_not_trained_on():
    with pytest.raises(SteerError, match="has no training examples"):
        TASK.epoch(None, 0, 0, 0)


CONFIG = ModelConfig(heads=2, d_model=16, d_head=8, d_ff=12, max_length=130, vocabulary=19, answers=9)


@pytest.fixture
def random_model(tmp_path: Path) -> Path:
    """A model of the authors' two vocabularies, with random weights."""
    record = Record(config=CONFIG, task="authors", seed=0, protocol={}, history=[])
    save_checkpoint(tmp_path / "model", random_weights(Transformer(CONFIG)), record)
    return tmp_path / "model"


def test_eval_reads_episode_files(random_model: Path, steer, tmp_path: Path):
    (tmp_path / "long").mkdir()
    for number in range(3):
        (tmp_path / "long" / f"{number}.txt").write_text(str(draw_long(Dice(number))))
    done = steer("eval", "-c", random_model, "--episodes", tmp_path / "long", "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert f"the episodes of {tmp_path / 'long'}" in done.stdout
    report = json.loads((tmp_path / "out" / "result.json").read_text())
    examples = read_folder(tmp_path / "long")
    said = load_checkpoint(str(random_model)).answers(examples)
    right = [answer == example.answer for answer, example in zip(said, examples, strict=True)]
    assert (report["split"], report["episodes"], report["exact_match"]) == ("long", 30, sum(right) / 30)
    sizes = {group["group"]: group["episodes"] for group in report["groups"]}
    assert sizes[DETERMINED] == sum(map(is_answered, examples))
    (tmp_path / "long" / "9.txt").write_text(TEXT.replace("IN: kiki OUT: PINK", "IN: kiki OUT: PINK\n" * 60))
    done = steer("eval", "-c", random_model, "--episodes", tmp_path / "long", "--out", tmp_path / "out")
    assert done.exit_code == 2
    assert "model takes 130" in done.stderr


def test_other_tasks_read_no_files(steer, tmp_path: Path):
    done = steer("eval", "-c", "tiny", "--episodes", tmp_path, "--out", tmp_path / "out")
    assert done.exit_code == 2
    assert "the task 'compositional' reads no episode files" in done.stderr


def test_recipes_run_on_a_model_of_two_vocabularies(random_model: Path, steer, tmp_path: Path, recipe_file):
    model = load_checkpoint(str(random_model)).transformer
    assert model(torch.ones(1, 5, dtype=torch.long), torch.ones(1, 2, dtype=torch.long)).shape == (1, 2, 9)
    text = f"""\
kind: ablate-set
checkpoint: {random_model}
nodes: enc-self-1.*
episodes: {{count: 20, repeated: false}}
measures:
  - {{name: attention-accuracy, heads: dec-cross-1.1}}
  - {{name: logit-attribution}}
  - {{name: ov-alignment, heads: dec-cross-1.1}}
  - {{name: exact-match, decoding: greedy}}
"""
    done = steer("run", recipe_file(text), "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    done = steer("discover", "-c", random_model, "--episodes", 20, "--out", tmp_path / "found", "--quiet")
    assert done.exit_code == 0, done.output


def test_colours_must_be_among_the_tokens_of_answers(random_model: Path, steer):
    record = random_model / "checkpoint.json"
    content = json.loads(record.read_text())
    for answers, says in ((7, "config.answers: 7 tokens, without PURPLE PINK"), (20, "answers: 20 tokens of 19")):
        content["config"]["answers"] = answers
        record.write_text(json.dumps(content))
        done = steer("eval", "-c", random_model)
        assert done.exit_code == 2
        assert says in done.stderr
