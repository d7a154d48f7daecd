"""Which lines of a file are asked, and what their answers are held against."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from steer.tasks.prompts.read import read_lines
from steer.tasks.prompts.task import Prompts, read_prompts
from steer.tasks.text import Words

WORDS = Words(("PAD", "a", "b", "c", "d", "x"))


def written(path: Path, *lines: dict[str, Any]) -> Path:
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


def task(folder: Path, *lines: dict[str, Any]) -> Prompts:
    return read_prompts(written(folder / "a.jsonl", *lines), "steer", WORDS, "a.jsonl")


def test_fewer_lines_than_there_are_are_a_sample_by_the_recipes_seed(tmp_path: Path):
    made = task(tmp_path, *({"prompt": "x", "answer": "a"} for _ in range(20)))

    def chosen(seed: int, other: int = 0) -> list[int]:
        return [one.line for one in made.examples(made.selection(count=5, seed=seed), other)]

    drawn = [chosen(seed) for seed in range(60)]
    assert all(len(set(lines)) == 5 and lines == sorted(lines) for lines in drawn)
    assert len({tuple(lines) for lines in drawn}) > 30
    assert {line for lines in drawn for line in lines} == set(range(20))  # none is always left out
    assert chosen(3) == chosen(3, other=9)


def pair(answer: str, other: str | None) -> dict[str, Any]:
    twin = {"prompt": "x x"} | ({} if other is None else {"answer": other})
    return {"prompt": "x", "answer": answer, "counterparts": {"twin": twin}}


def test_a_variable_keeps_the_length_of_answers_if_it_keeps_that_of_all(tmp_path: Path):
    assert task(tmp_path, pair("a", "b"), pair("a b", "c d")).keeps_length("twin")
    assert not task(tmp_path, pair("a", "b"), pair("a", "c d")).keeps_length("twin")


def test_a_logit_is_held_against_wrong_answers_then_the_counterparts_then_all(tmp_path: Path):
    made = task(tmp_path, pair("a", "c b") | {"wrong": ["d"]}, pair("a", "c b"), pair("b", None))
    assert [made.alternatives(one) for one in made.split("all", 0)] == [("d",), ("c",), ("a", "b")]


def test_the_same_bytes_in_another_format_are_another_task(tmp_path: Path):
    line = {"clean": "x", "corrupted": "x x", "corrupt": "x x", "label": "a", "answers": ["b"]}
    file = written(tmp_path / "both.jsonl", line)
    one, two = (read_prompts(file, form, WORDS, "both.jsonl") for form in ("eap-ig", "auto-circuit"))
    assert [made.split("all", 0)[0].answer for made in (one, two)] == [("a",), ("b",)]
    assert one.fingerprint != two.fingerprint
    assert read_prompts(file, "eap-ig", WORDS, "elsewhere").fingerprint == one.fingerprint


def test_each_counterfactual_prompt_has_its_own_answer_or_none(tmp_path: Path):
    def answers(theirs: object) -> list[object]:
        row = {"input": "x", "base_answer": "a", "counterfactual_inputs": ["x x", "x x x"], "cf_answer": theirs}
        (line,) = read_lines(written(tmp_path / "lab.jsonl", row), "causalab")[0].values()
        assert [one.prompt for one in line.counterparts.values()] == ["x x", "x x x"]
        return [one.answer for one in line.counterparts.values()]

    assert answers(["b", "c"]) == ["b", "c"]
    assert answers("b") == ["b", None]
    assert answers(None) == [None, None]
