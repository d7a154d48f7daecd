"""`steer check`: what a file's tokens tell, how often the model is right, and the same facts as guards of a run."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from steer.base.errors import SteerError
from steer.experiments.api import build_recipe, run
from steer.results.rows import find
from steer.tasks.prompts.check import facts_of
from steer.tasks.prompts.read import read_lines
from steer.tasks.prompts.task import read_prompts
from steer.tasks.text import Piece, cuts


class Pieces:
    """Cuts words into pieces of four letters; a blank belongs to the piece behind it."""

    def prompt(self, text: str) -> list[Piece]:
        return [Piece(found.group(), *found.span()) for found in re.finditer(r" ?\w{1,4}|\S", text)]

    def answer(self, prompt: str, text: str) -> list[Piece]:
        return self.prompt(text)

    def token(self, number: int) -> str:
        return str(number)


LINES = [
    {"prompt": "The city of Paris is in", "answer": " France", "wrong": [" Francia", " Spain"],
     "counterparts": {"city": {"prompt": "The city of Rome is in", "answer": " Italy"},
                      "near": {"prompt": "The city of Parma is in", "answer": " Frankia"}},
     "spans": {"city": [12, 17], "half": [12, 14]}},
    {"prompt": "The city of Turin is in", "answer": "Italy", "wrong": [" Spain"], "spans": {"city": [12, 17]},
     "counterparts": {"city": {"prompt": "The city of Milan is in"}}},
    {"prompt": "The city of Oslo is in", "answer": " Norway"},
]  # fmt: skip


def jsonl(path: Path, *lines: object) -> Path:
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


def test_facts_of_a_file(tmp_path: Path):
    path = jsonl(tmp_path / "a.jsonl", *LINES)
    facts = facts_of(read_prompts(path, "steer", Pieces(), "a"), read_lines(path)[0], Pieces(), 1)
    assert (facts.lines, facts.prompt_tokens, facts.answer_tokens) == (3, (6, 7), {2: 3})
    assert facts.counterparts == {
        "city": {"lines": 2, "of another length": 1, "without an answer": 1},
        "near": {"lines": 1, "of another length": 0, "without an answer": 0},
    }
    assert facts.spans == {
        "city": {"lines": 2, "cutting a token": 0}, "half": {"lines": 1, "cutting a token": 1},
    }  # fmt: skip
    told = [(one.about, one.text.split(":")[0], one.count, [place[-1] for place in one.lines]) for one in facts.remarks]
    assert told == [
        ("wrong answers", "start with the answer's first token", 1, ["1"]),
        ("counterpart 'city'", "has another number of tokens", 1, ["1"]),
        ("counterpart 'city'", "has no answer", 1, ["2"]),
        ("counterpart 'near'", "its answer starts with the same token", 1, ["1"]),
        ("span 'half'", "begins or ends within a token", 1, ["1"]),
        ("answers", "begins without a blank", 1, ["2"]),
    ]
    (shown,) = facts.shown
    assert shown.prompt == ("The", " city", " of", " Pari", "s", " is", " in")
    assert (shown.answer, shown.wrong[0]) == ((" Fran", "ce"), (" Fran", "cia"))
    assert shown.spans == {"city": (" Pari", "s"), "half": (" Pari",)}


def test_a_blank_in_front_of_a_word_is_not_cut():
    text = "of Paris is"
    pieces = Pieces().prompt(text)
    assert [cuts(text, pieces, *ends) for ends in ((3, 8), (2, 8), (3, 7), (4, 8), (0, 2), (3, 5))] == [
        False, False, False, True, False, True,
    ]  # fmt: skip


def test_a_wrong_answer_that_is_the_answer(tmp_path: Path):
    path = jsonl(tmp_path / "a.jsonl", LINES[2], LINES[2] | {"wrong": [" Spain", " Norway"]})
    with pytest.raises(SteerError, match=r"a.jsonl:2: wrong: ' Norw ay' is the answer itself"):
        read_prompts(path, "steer", Pieces(), "a")


SUPPORT = "| A = red | B = blue | B S A = red blue EOS"
PLAIN = [
    {"prompt": f"A S B {SUPPORT}", "answer": "blue red", "wrong": ["green"], "spans": {"question": [0, 5]},
     "counterparts": {"order": {"prompt": f"B S A {SUPPORT}", "answer": "red blue"}}},
    {"prompt": f"B S A {SUPPORT}", "answer": "red blue", "wrong": ["green"], "spans": {"question": [2, 5]},
     "counterparts": {"order": {"prompt": f"A S B {SUPPORT}", "answer": "blue red"}}},
]  # fmt: skip


def test_the_page_and_its_numbers(tmp_path: Path, steer):
    """How often the model is right is what a clean run counts; the page says it with its interval."""
    path = jsonl(tmp_path / "mine.jsonl", *PLAIN)
    told = json.loads(steer("check", path, "-c", "seed1", "--json").stdout)
    asked = build_recipe(
        kind="clean", task=str(path), measures=[{"name": "exact-match"}, {"name": "token-accuracy"}]
    )  # fmt: skip
    rows = run(asked).rows
    assert told["exact_match"]["value"] == find(rows, measure="exact-match").value
    assert told["first_token"]["low"] == find(rows, position=1, measure="token-accuracy").low
    assert told["counterparts"]["order"] == {"lines": 2, "of another length": 0, "without an answer": 0}
    assert told["remarks"] == []
    assert told["shown"][0]["prompt"] == PLAIN[0]["prompt"].split()
    page = steer("check", path, "-c", "seed1", "--show", "1").stdout
    value = find(rows, measure="exact-match")
    assert f"{value.value:.1%} ({value.low:.1%} to {value.high:.1%}) of 2" in page
    assert "A · S · B · |" in page
    assert "B · S · A · |" in page  # the counterpart; the second line is not shown
    assert page.count("mine.jsonl:") == 1


def test_prompts_that_do_not_fit(tmp_path: Path, steer):
    path = jsonl(tmp_path / "long.jsonl", PLAIN[0], {"prompt": "A " * 10_000, "answer": "red"})
    page = steer("check", path, "-c", "tiny", "--show", "0").stdout
    text = "long.jsonl:2: a prompt of 10,000 tokens; tiny takes 64"
    assert "not asked" in page
    assert text in page
    recipe = tmp_path / "long.yaml"
    recipe.write_text(json.dumps({
        "kind": "clean", "checkpoint": "tiny", "task": "long.jsonl", "measures": [{"name": "exact-match"}]
    }))  # fmt: skip
    done = steer("run", recipe, "-o", tmp_path / "out", "-q")
    assert done.exit_code == 2
    assert text in done.output
    assert not list((tmp_path / "out").glob("*/*"))


def test_faults_of_the_command(tmp_path: Path, steer):
    def told(*words: object) -> str:
        done = steer("check", *words)
        assert done.exit_code == 2
        return done.output

    assert "holds no examples" in told(jsonl(tmp_path / "empty.jsonl"))
    assert "no.jsonl: cannot be read" in told(tmp_path / "no.jsonl")
    assert "no format named 'mibb'; did you mean mib?" in told(jsonl(tmp_path / "a.jsonl", *PLAIN), "--format", "mibb")
    assert "no checkpoint named 'sed1'" in told(tmp_path / "a.jsonl", "-c", "sed1")
    assert "a.jsonl:1: no token named 'Aa'" in told(jsonl(tmp_path / "a.jsonl", {"prompt": "Aa", "answer": "red"}))


def test_a_span_that_cuts_tokens_is_said_on_every_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """No word of a plain vocabulary is cut, so the task is made to say so."""
    from steer.tasks.prompts.task import Prompts

    path = jsonl(tmp_path / "mine.jsonl", *PLAIN)
    monkeypatch.setattr(Prompts, "cut_spans", lambda self, example: {"question"} if example.line == 1 else set())
    patch = {"kind": "activation-patch", "variable": "order", "sites": "enc-resid-0.pre", "places": "question"}
    rows = run(build_recipe(**patch, task=str(path), checkpoint="tiny", measures=[{"name": "exact-match"}])).rows
    assert rows
    assert all("spans that cut a token: 'question' in 1 of 2 examples" in row.warning for row in rows)
    patch |= {"places": "all", "measures": [{"name": "attention-mass", "heads": "dec-cross-0.0", "span": "question"}]}
    rows = run(build_recipe(**patch, task=str(path), checkpoint="tiny")).rows
    assert all("spans that cut a token" in row.warning for row in rows)
