"""The numbers of the authors' notebooks: every one finds its row, and is compared as its rule says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from made import made_result, made_row
from small import random_weights

from steer.measures.right import RightSteps
from steer.models.checkpoint import Record, load_checkpoint, save_checkpoint
from steer.models.plain.config import ModelConfig
from steer.models.plain.transformer import Transformer
from steer.paper.anchors import ANCHORS, near
from steer.paper.reproduce import AGAINST, notebook_recipes, reproduce
from steer.paper.verdicts import DIFFERS, NOT_SHOWN, OPEN, Claim

CONFIG = ModelConfig(heads=8, d_model=16, d_head=2, d_ff=8, max_length=200, vocabulary=19, answers=9)


@pytest.fixture
def imitation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A network of the authors' layers, heads and vocabularies, with random weights; means are of a few prompts."""
    monkeypatch.setattr("steer.experiments.examples.REFERENCE", 40)
    record = Record(config=CONFIG, task="authors", seed=0, protocol={}, history=[])
    save_checkpoint(tmp_path / "model", random_weights(Transformer(CONFIG)), record)
    return tmp_path / "model"


def judged(value: float, spread: float, **options: float) -> str:
    row = made_row(value, value - spread, value + spread, measure="m", of="dec-cross-1.5")
    claim = Claim("nb 0", "r", "x", "0.5", near(0.5, measure="m", of="dec-cross-1.5", **options))
    return claim.judge(made_result([row]), {}).verdict


def test_a_number_is_theirs_within_what_25_episodes_may_be_off_by():
    assert judged(0.549, 0.001) == "as in the paper's notebooks"
    assert judged(0.451, 0.001) == "as in the paper's notebooks"
    assert judged(0.56, 0.02) == f"{OPEN}: +0.060"
    assert judged(0.44, 0.02) == f"{OPEN}: -0.060"
    assert judged(0.56, 0.001) == f"{DIFFERS}: +0.060"
    assert judged(0.56, 0.001, margin=0.1) == "as in the paper's notebooks"


def test_where_nothing_is_answered_nothing_is_shown():
    claim = Claim("nb 0", "r", "x", "0.5", near(0.5, measure="other", of="dec-cross-1.5"))
    verdict = claim.judge(made_result([made_row(1, 1, 1, measure="m")]), {})
    assert verdict.verdict.startswith(f"{NOT_SHOWN}: no question is answered right")
    assert all(line.kind == NOT_SHOWN for line in AGAINST["authors"].judge({}, {}, {}, "full"))


def test_every_number_has_a_recipe_and_every_recipe_a_number():
    assert {anchor.recipe for anchor in ANCHORS} == {path.stem for path in notebook_recipes()}
    assert len({(anchor.recipe, anchor.claim) for anchor in ANCHORS}) == len(ANCHORS)


def test_all_numbers_are_compared_on_a_network_of_the_authors_shape(
    imitation: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, png_only: None
):
    """As if every question were answered right: a random network's numbers are then there, and are others."""
    monkeypatch.setattr(RightSteps, "of", lambda self, batch, values: batch.target == batch.target)
    made = reproduce(
        load_checkpoint(str(imitation)), tmp_path / "out", lambda done, name: None, 12, against=AGAINST["authors"]
    )
    assert [outcome.name for outcome in made.outcomes if outcome.result is None or outcome.undrawn] == []
    shown = {line.claim: line for line in made.claims}
    assert [line.claim for line in made.claims if line.kind == NOT_SHOWN] == []
    assert sum(line.kind == DIFFERS for line in made.claims) > len(made.claims) / 3
    assert shown["after, step 1: attention on the other colour"].value != pytest.approx(0.5814, abs=0.05)
    page = (tmp_path / "out" / "index.html").read_text()
    assert "in the notebooks" in page
    assert "chengtang827/MLC-transformer-interpretability" in page


def test_a_network_that_answers_nothing_right_goes_through_too(
    imitation: Path, steer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, png_only: None
):
    few = notebook_recipes()[:2]
    monkeypatch.setitem(AGAINST, "authors", replace(AGAINST["authors"], recipes=lambda: few))
    options = ("--against", "authors", "--episodes", 10, "--out", tmp_path / "out", "--quiet")
    done = steer("reproduce", "-c", imitation, *options)
    assert done.exit_code == 0, done.output
    assert "no question is answered right" in done.stdout
    assert "differs: -0.1" in done.stdout


def test_what_it_may_be_compared_with(steer):
    done = steer("reproduce", "--against", "author")
    assert done.exit_code == 2
    assert "did you mean authors?" in done.stderr
