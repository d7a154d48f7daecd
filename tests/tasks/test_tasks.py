"""The seam between tasks and the rest: examples drawn as far as they are asked for, what a task says of them, and one
from outside the package."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path

import pytest
from tokens import TASK

import steer
from steer.base.dice import Dice
from steer.base.errors import SteerError
from steer.recipe.tasked import recipe_schema
from steer.tasks.compositional import splits
from steer.tasks.compositional.episode import Episode
from steer.tasks.compositional.grammar import PAPER, draw
from steer.tasks.task import PlainExample, Selection, TaskOf

PACKAGE = Path(steer.__file__).parent


def test_nobody_else_knows_the_task():
    """Its modules are imported by its own room, the authors' task and the paper alone; others ask the registry."""
    rooms = [PACKAGE / "tasks" / "compositional", PACKAGE / "tasks" / "authors", PACKAGE / "paper"]
    for path in PACKAGE.rglob("*.py"):
        if any(path.is_relative_to(room) for room in rooms):
            continue
        nodes = list(ast.walk(ast.parse(path.read_text())))
        named = [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
        named += [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
        assert not [name for name in named if name.startswith("steer.tasks.compositional")], path


def test_episodes_are_drawn_as_far_as_they_are_asked_for(monkeypatch: pytest.MonkeyPatch):
    drawn = []
    monkeypatch.setattr(splits, "draw", lambda grammar, dice: drawn.append(1) or draw(grammar, dice))
    found = splits.make_splits(11)
    assert len(found.test) == 2_000
    assert not drawn
    by_hand = Dice(11, "test")
    assert found.test[2] == [draw(PAPER, by_hand) for _ in range(3)][2]
    assert len(drawn) == 3
    assert found.test[1:3] == (found.test[1], found.test[2])
    assert len(drawn) == 3
    assert found.test[-1] == found.test[1_999]
    assert len(drawn) == 2_000
    with pytest.raises(IndexError):
        found.test[2_000]


def test_spans_are_places_of_the_prompt():
    two, one = (Episode.parse(text) for text in ("B S A | A = red | B = blue | A S B = red", "A S | A = red"))
    assert {name: [two.prompt[place] for place in places] for name, places in two.spans.items()} == {
        "first": ["B"], "function": ["S"], "second": ["A"],
    }  # fmt: skip
    assert one.spans == {"first": (0,), "function": (1,)}


def test_the_exchange_is_of_two_spans():
    exchange, episode = TASK.exchange, next(e for e in TASK.split("test", 0) if TASK.chooses(e))
    assert exchange is not None
    assert [episode.spans[name] for name in exchange.spans] == [(place - 1,) for place in exchange.places]
    other = TASK.counterpart(episode, exchange.variable)
    if other is not None:
        assert TASK.exchanged(episode, exchange.places).answer == other.answer


def test_places_that_look_are_of_the_sequences_of_their_role():
    episode = TASK.split("test", 0)[0]
    lengths = {"prompt": len(episode.prompt), "answer": 1 + len(episode.answer)}
    for role, look in TASK.roles.items():
        gazes = TASK.gaze(episode, role)
        assert gazes, role
        for gaze in gazes:
            assert gaze.looks[0] == look.source
            assert {sequence for sequence, _ in gaze.right} == {look.target}
            assert all(0 <= place < lengths[sequence] for sequence, place in (gaze.looks, *gaze.right))


class Echo(TaskOf[PlainExample, Selection]):
    """The smallest task: say the last token again."""

    name = "echo"
    tokens = ("PAD", "SOS", "EOS", "a", "b")
    longest_answer = 1
    selection = Selection
    splits = ("train", "validation", "test")

    def split(self, name: str, seed: int) -> Sequence[PlainExample]:
        return [PlainExample((token, "EOS"), (token,)) for token in "ab"]

    def examples(self, wanted: Selection, seed: int, variable: str | None = None) -> Sequence[PlainExample]:
        return self.split("test", seed)[: wanted.count]

    def counts(self, token: str) -> bool:
        return token in "ab"


ECHO = Echo()


def test_another_task_has_a_schema_of_its_own():
    schema = recipe_schema(ECHO).adapter
    plain = {"kind": "clean", "measures": [{"name": "exact-match"}]}
    recipe = schema.validate_python(plain | {"episodes": {"count": 1}})
    assert recipe.task is ECHO
    assert recipe_schema(TASK).adapter.validate_python(plain).task is TASK
    for keys in ({"episodes": {"arity": 2}}, {"kind": "steer", "variable": "argument", "sets": []}):
        with pytest.raises(ValueError, match="validation error"):
            schema.validate_python(plain | keys)
    assert "colour" not in str(recipe_schema(ECHO).json()["$defs"]["AttributionMeasure"])


def test_what_a_task_cannot_do_is_said():
    example = ECHO.split("test", 0)[0]
    assert ECHO.alternatives(example) == ("a", "b")
    assert ECHO.describe(example) == {"prompt": "a EOS", "answer": ["a"]}
    assert example.answering(("b",)).answer == ("b",)
    for call in (lambda: ECHO.parse("a"), lambda: ECHO.solve(example), lambda: ECHO.epoch(None, 0, 0, 0)):
        with pytest.raises(SteerError, match="echo"):
            call()
