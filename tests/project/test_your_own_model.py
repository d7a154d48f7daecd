"""docs/your-own-model.md: every command runs as it stands, and the numbers of its tables are those of its recipes."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

import steer
from steer.base.shipped import RECIPES
from steer.commands import app
from steer.results.result import Result

PAGE = (Path(__file__).parents[2] / "docs" / "your-own-model.md").read_text()
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", PAGE, re.DOTALL)


def test_every_command_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "recipes").symlink_to(RECIPES)
    written = {"json": "mine.jsonl", "yaml": "mine.yaml"}
    for language, text in BLOCKS:
        if language in written:
            (tmp_path / written[language]).write_text(text)
    commands = [shlex.split(line) for language, text in BLOCKS if not language for line in text.splitlines()]
    assert len(commands) > 20
    for _, *words in commands:
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, (words, done.output)
        assert done.stdout.strip()


def number(result: Result, condition: str, measure: str = "") -> float:
    return next(
        row.value
        for row in result.rows
        if row.condition == condition and row.position is None and measure in ("", row.measure)
    )


SHARES = [  # recipe, condition, the words that say its number
    ("induction/keep_one_k", "dec-self-0.0", r"`0.0`: ([\d.]+) % of its attention"),
    ("induction/keep_one_k", "dec-self-0.1", r"right word, `0.1`: ([\d.]+) %"),
    ("induction/keep_one_k", "nothing ablated", r"nothing ablated ([\d.]+) %"),
    ("induction/ablate_one_k", "dec-self-0.0", r"without `0.0` ([\d.]+) %"),
    ("induction/ablate_one_k", "dec-self-0.1", r"without `0.1` ([\d.]+) %"),
    ("induction/chain_k", "dec.tok", r"the token embeddings give ([\d.]+) %"),
    ("induction/chain_k", "dec.pos", r"the position embeddings ([\d.]+) %"),
    ("induction/needed", "both", r"both cannot: ([\d.]+) %"),
    ("swapping/values", "enc-self-0.1", r"any other source alone ([\d.]+) %"),
    ("swapping/queries", "dec.pos", r"position embeddings alone ([\d.]+) %"),
    ("swapping/needed", "encoder head 1", r"without encoder head 1 ([\d.]+) %"),
    ("swapping/needed", "encoder head 2", r"without 2 ([\d.]+) %"),
    ("swapping/needed", "encoder head 3", r"without 3 ([\d.]+) %"),
    ("swapping/needed", "all encoder heads", r"without all ([\d.]+) %;"),
]
LOGITS = [
    ("induction/patch", "dec-self-0.1.z", r"difference 11.1 → ([−\d.]+)\)"),
    ("induction/patch", "dec-self-0.0.z", r"`0.0` nearly \(([−\d.]+)\)"),
    ("swapping/keys", "nothing ablated", r"logit difference from ([−\d.]+) to"),
    ("swapping/keys", "enc-self-0.1", r"logit difference from [\d.]+ to ([−\d.]+);"),
    ("swapping/keys", "everything ablated", r"all sources together to ([−\d.]+)"),
]


@pytest.fixture(scope="module")
def results() -> dict[str, Result]:
    names = dict.fromkeys(name for name, _, _ in (*SHARES, *LOGITS))
    return {name: steer.run(RECIPES / f"{name}.yaml") for name in names}


@pytest.mark.parametrize(("name", "condition", "words"), [*SHARES, *LOGITS])
def test_its_numbers_are_what_the_recipes_give(results, name: str, condition: str, words: str):
    (said,) = re.findall(words, " ".join(PAGE.split()))
    scale = 100 if (name, condition, words) in SHARES else 1
    decimals = len(said.partition(".")[2])
    assert f"{scale * number(results[name], condition):.{decimals}f}" == said.replace("−", "-")
