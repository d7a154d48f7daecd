"""The task against its description: answers, counterparts, what is held out, and which episodes a recipe means."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from by_hand_task import answer, colours, examples, exchanged, indices, items, labelled, meaning, mirrored

from steer.tasks.compositional import slices, splits
from steer.tasks.compositional.counterparts import VARIABLES, counterpart
from steer.tasks.compositional.grammar import Grammar
from steer.tasks.compositional.labels import labelled_tokens
from steer.tasks.compositional.program import solve
from steer.tasks.compositional.selection import Episodes, select

TEST = splits.make_splits(0).test
CHOOSING = [episode for episode in TEST if len(episode.question.arguments) == 2][:300]


def test_answers_are_what_the_support_says():
    for episode in TEST[:400]:
        assert episode.answer == answer(episode.prompt) == solve(episode).answer
        assert list(solve(episode).relative_index) == indices(episode.prompt)


def test_labels_are_places_in_the_question():
    kinds = [("index-in-question", "symbols"), ("index-in-question", "colours"), ("relative-index", "steps")]
    for episode in TEST[:200]:
        for kind in kinds:
            assert labelled_tokens(episode, *kind) == labelled(episode.prompt, *kind)


@pytest.mark.parametrize("variable", VARIABLES)
def test_a_counterpart_differs_in_the_tokens_that_carry_its_variable(variable: str):
    changed = 0
    for episode in CHOOSING:
        other = counterpart(episode, variable)
        possible = counterparts_by_hand(episode.prompt)[variable]
        possible = [prompt for prompt in possible if answer(prompt) != episode.answer]
        assert (other is None) == (not possible)
        if other is not None:
            assert other.prompt in possible
            assert other.answer == answer(other.prompt)
            changed += 1
    assert changed > 100


def counterparts_by_hand(prompt) -> dict[str, list[tuple[str, ...]]]:
    """Every prompt that would do."""
    first, function, second, *rest = prompt
    others = [symbol for symbol in colours(prompt) if symbol not in (first, second)]
    functions = [left[1] for left, _ in examples(prompt) if len(left) == 3 and left[1] != function]
    return {
        "index-in-question": [exchanged(prompt)],
        "relative-index": [mirrored(prompt)],
        "argument": [(first, function, symbol, *rest) for symbol in others[:1]],
        "function": [(first, name, second, *rest) for name in functions[:1]],
    }


def test_some_distractors_have_two_arguments():
    """Else nothing above would show that a counterpart leaves them alone."""
    strange = [e for e in CHOOSING if any(len(x) == 3 and x[1] != e.prompt[1] for x, _ in examples(e.prompt))]
    assert len(strange) > 50


def test_nothing_that_is_held_out_is_trained_on(monkeypatch: pytest.MonkeyPatch):
    """In a world so small that a draw often hits what was drawn before."""
    monkeypatch.setattr(splits, "SIZES", {"train": 400, "validation": 60, "test": 60})
    grammar = Grammar(primitives=(2, 2), functions=(1, 1), demonstrations=(1, 1), arities=(1,), length=(1, 1))
    found = splits.make_splits(3, grammar)
    said = {name: [meaning(e.prompt) for e in found[name]] for name in ("train", "validation", "test")}
    assert {name: len(some) for name, some in said.items()} == splits.SIZES
    assert max(Counter(said["train"]).values()) > 1
    assert not set(said["train"]) & {*said["validation"], *said["test"]}
    assert not set(said["validation"]) & set(said["test"])
    assert {told(*conjunction) for conjunction in found.held_out} == {*said["validation"], *said["test"]}


def told(primitives, functions):
    """A conjunction in the words of `meaning`."""
    templates = {(f.symbol, f.arity, tuple(("first", "second")[slot] for slot in f.template)) for f in functions}
    return frozenset((p.symbol, p.colour) for p in primitives), frozenset(templates)


def test_a_recipe_means_the_episodes_that_fit_in_their_order():
    for arity, length in ((None, None), (1, (2, 3)), (2, (5, 5))):
        least, most = length or (1, 5)
        fit = [e for e in TEST if least <= len(e.answer) <= most and arity in (None, len(items(e.prompt)[0]) - 1)]
        assert select(Episodes(arity=arity, length=length), 0) == fit
        some = select(Episodes(arity=arity, length=length, count=30), 0)
        assert len(set(some)) == 30
        places = [fit.index(episode) for episode in some]
        assert places == sorted(places)
        assert select(Episodes(arity=arity, length=length, count=30, seed=1), 0) != some
    for variable in VARIABLES:
        chosen = select(Episodes(arity=2), 0, variable)
        assert chosen == [e for e in TEST if len(items(e.prompt)[0]) == 3 and counterpart(e, variable)]
    assert select(Episodes(split="validation", count=500), 0) == list(splits.make_splits(0).validation)


def test_strict_questions_keep_out_of_what_training_shows(monkeypatch: pytest.MonkeyPatch):
    """By luck they might anyway; here training shows half of what would be drawn."""
    monkeypatch.setattr(slices, "COUNT", 8)
    monkeypatch.setattr(slices, "make_slice", slices.make_slice.__wrapped__)
    monkeypatch.setattr(slices, "_known", slices._known.__wrapped__)
    real = splits.make_splits(0)
    drawn = [episode for part in slices.make_slices.__wrapped__(0).values() for episode in part]
    monkeypatch.setattr(slices, "make_splits", lambda seed: replace(real, train=tuple(drawn[::2])))
    shown = {splits.conjunction(episode) for episode in drawn[::2]}
    new_ones = {splits.conjunction(episode) for part in slices.make_slices.__wrapped__(0).values() for episode in part}
    assert len(shown) > 20
    assert not new_ones & shown
    assert not new_ones & real.held_out
