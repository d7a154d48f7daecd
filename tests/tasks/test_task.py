"""The grammar, the program and the splits."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokens import decode, encode

from steer.base.dice import Dice
from steer.base.errors import PromptError
from steer.tasks.compositional.counterparts import VARIABLES, counterpart
from steer.tasks.compositional.episode import Call, Episode
from steer.tasks.compositional.grammar import PAPER, Grammar, draw, relabel
from steer.tasks.compositional.program import functions, solve
from steer.tasks.compositional.roles import output, rhs_scanner
from steer.tasks.compositional.slices import held_out, make_slices
from steer.tasks.compositional.splits import SIZES, conjunction, make_splits
from steer.tasks.compositional.vocabulary import COLOURS, EOS, SYMBOLS, TOKENS

seeds = st.integers(min_value=0, max_value=2**32)
episodes = seeds.map(lambda seed: draw(PAPER, Dice(seed)))


def test_vocabulary_is_the_papers():
    assert (len(COLOURS), len(SYMBOLS), len(TOKENS)) == (6, 9, 20)
    assert decode(encode(TOKENS)) == TOKENS


@given(episodes)
def test_an_episode_keeps_the_grammar(episode: Episode):
    assert 3 <= len(episode.primitives) <= 4
    assert 2 <= len(episode.demonstrations) <= 4
    colours = [primitive.colour for primitive in episode.primitives]
    assert len(set(colours)) == len(colours)
    names = {p.symbol for p in episode.primitives}
    assert not names & {shown.call.function for shown in episode.demonstrations}
    for shown in episode.demonstrations:
        assert set(shown.call.arguments) <= names
        assert 1 <= len(shown.output) <= 5
    assert episode.prompt[-1] == EOS
    assert len(episode.prompt) <= 64


@given(episodes)
def test_the_question_is_answerable_and_not_shown(episode: Episode):
    assert episode.question not in {shown.call for shown in episode.demonstrations}
    assert episode.question.function in {shown.call.function for shown in episode.demonstrations}
    assert solve(episode).answer == episode.answer


@given(episodes)
def test_every_demonstration_answers_itself(episode: Episode):
    """Asking what the support shows gives what it shows: all demonstrations of a function agree."""
    for shown in episode.demonstrations:
        assert solve(Episode(shown.call, episode.support)).answer == shown.output


@given(episodes)
def test_text_and_episode_are_inverses(episode: Episode):
    again = Episode.parse(str(episode))
    assert (again.question, again.support) == (episode.question, episode.support)


@given(episodes, seeds)
def test_relabelling_commutes_with_solving(episode: Episode, seed: int):
    renamed = relabel(episode, Dice(seed))
    assert solve(renamed).answer == renamed.answer
    assert solve(renamed).relative_index == solve(episode).relative_index
    assert [len(item) for item in renamed.items] == [len(item) for item in episode.items]


@given(episodes)
def test_indices_answer_the_question_by_hand(episode: Episode):
    """Algorithm 1's last loop, written again over the raw tokens of the prompt."""
    solution, tokens = solve(episode), episode.question.tokens
    assert tuple(solution.symbol_to_colour[tokens[index - 1]] for index in solution.relative_index) == episode.answer


@given(episodes)
def test_exchanged_indices_exchange_the_colours(episode: Episode):
    solution, question = solve(episode), episode.question
    if len(question.arguments) < 2:
        return
    first, second = question.arguments
    symbol_at = dict(solution.symbol_at)
    symbol_at[1], symbol_at[3] = second, first
    swapped = Episode(Call((second, first), question.function), episode.support)
    assert solution.answer_with(symbol_at, solution.relative_index) == solve(swapped).answer


def test_the_papers_example():
    episode = Episode.parse("B S A | A = red | B = blue | A S B = blue red")
    solution = solve(episode)
    assert solution.answer == ("red", "blue")
    assert dict(solution.index_in_question) == {"B": 1, "S": 2, "A": 3}
    assert solution.relative_index == (3, 1)


def test_functions_are_templates():
    episode = Episode.parse("B S A | A = red | B = blue | A S B = blue red | A T = red red")
    assert {(f.symbol, f.arity, f.template) for f in functions(episode)} == {("S", 2, (1, 0)), ("T", 1, (0, 0))}


@pytest.mark.parametrize(
    ("prompt", "says"),
    [
        ("B S A | A = rod", "did you mean red"),
        ("B S A | A red", "exactly one '='"),
        ("A B C D | A = red", "one to three symbols"),
        ("A | A = red blue", "one colour"),
        ("B S A | A = red | B = blue", "shows no example"),
        ("B S A | A = red | A S B = red", "'B' is in the question"),
        ("B S A | A = red | B = red | A S B = red", "assigned twice"),
        ("B S A | A = red | B = blue | A S B = pink", "none of its arguments has"),
        ("B S A | A = red | B = blue | A S A = red", "does not tell which argument"),
        ("B S A | A = red | B = blue | A S A = blue", "none of its arguments has"),
        ("B S A | A S B = blue red", "does not tell which argument"),
        ("B S A | A = red | A S B = red | B S A = red", "assigned twice"),
        ("B S A | A = red | B = blue | A S B = red | A S B = blue", "contradicts itself"),
        ("", "one to three symbols"),
    ],
)
def test_a_bad_prompt_is_answered(prompt: str, says: str):
    with pytest.raises(PromptError, match=says):
        solve(Episode.parse(prompt))


def test_splits_are_disjoint_and_of_the_papers_sizes():
    splits = make_splits(0)
    kinds = {name: [conjunction(episode) for episode in splits[name]] for name in SIZES}
    assert {name: len(found) for name, found in kinds.items()} == SIZES
    assert not set(kinds["train"]) & set(kinds["test"])
    assert not set(kinds["train"]) & set(kinds["validation"])
    assert not set(kinds["validation"]) & set(kinds["test"])
    assert splits.held_out == set(kinds["test"]) | set(kinds["validation"])


def test_a_seed_gives_the_same_bytes_everywhere():
    text = "\n".join(f"{episode} -> {' '.join(episode.answer)}" for episode in make_splits(0).test)
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "c640824accdb7ac3"
    assert make_splits(1).test[0] != make_splits(0).test[0]


def test_a_grammar_without_functions_asks_for_a_primitive():
    episode = draw(Grammar(primitives=(2, 2), demonstrations=(0, 0)), Dice(3))
    assert episode.question.function is None
    assert solve(episode).answer == episode.answer


@pytest.mark.parametrize(
    "ranges",
    [
        {"primitives": (4, 3)},
        {"primitives": (3, 7)},
        {"primitives": (1, 3)},
        {"primitives": (6, 6), "functions": (4, 4)},
        {"arities": ()},
        {"arities": (3,)},
        {"length": (0, 5)},
    ],
)
def test_impossible_ranges_are_refused(ranges: dict):
    with pytest.raises(ValueError, match=r"must|need"):
        Grammar(**ranges)


@pytest.mark.parametrize(
    ("prompt", "answer"),
    [
        ("A S A | A = red | B = blue | B S B = blue blue", "red red"),
        ("A S A | A = red | B = blue | A S B = blue red", "red red"),
        ("B S A | A = red | A S B = blue red", "red blue"),
        ("C S A | A = red | A S B = blue red | C S B = blue green", "red green"),
        ("C T | A = red | A S B = blue red | C S B = blue green | A T = red red", "green green"),
    ],
)
def test_answers_worked_out_by_people(prompt: str, answer: str):
    assert " ".join(solve(Episode.parse(prompt)).answer) == answer


def test_a_symbol_that_stands_twice_has_no_single_index():
    solution = solve(Episode.parse("A S A | A = red | B = blue | A S B = blue red"))
    assert dict(solution.index_in_question) == {"S": 2}
    assert dict(solution.symbol_at) == {1: "A", 2: "S", 3: "A"}


def test_slices_hold_what_their_names_say_and_share_nothing_with_the_splits():
    slices, splits = make_slices(0), make_splits(0)
    known = {conjunction(e) for name in SIZES for e in splits[name]}
    for name, part in slices.items():
        assert len(part) == 400
        assert not known & {conjunction(e) for e in part}, name
        assert {conjunction(e) for e in part} <= held_out(0), name
        assert all(solve(e).answer == e.answer for e in part[:50])
    for count in (1, 2, 3, 4):
        for episode in slices[f"disjoint-{count}"]:
            own = [s.call for s in episode.demonstrations if s.call.function == episode.question.function]
            assert len({s.call.function for s in episode.demonstrations}) == count
            assert len(own) == 1
            assert not set(own[0].arguments) & set(episode.question.arguments)
            assert set(episode.answer) == {solve(episode).symbol_to_colour[a] for a in episode.question.arguments}
    assert all(len(set(e.question.arguments)) == 1 for e in slices["repeated"])
    assert {"".join(str(slot + 1) for slot in f.template) for e in slices["long"] for f in functions(e)} <= {
        "21211", "21122", "12121", "12212"
    }  # fmt: skip
    asked = [(e, set(e.question.arguments)) for e in slices["overlap-1"]]
    assert all({a for s in e.demonstrations for a in s.call.arguments} & question for e, question in asked)


def test_slices_are_the_same_bytes_everywhere():
    text = "\n".join(f"{episode} -> {' '.join(episode.answer)}" for part in make_slices(0).values() for episode in part)
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "947f7d56c7843449"


@pytest.mark.parametrize(
    ("templates", "says"),
    [(("13",), "digits 1 and 2"), (("",), "digits"), (("12",), "2 at least"), (("121212", "12"), "longest template")],
)
def test_templates_that_cannot_be_are_refused(templates: tuple[str, ...], says: str):
    with pytest.raises(ValueError, match=says):
        Grammar(arities=(2,), functions=(2, 2), templates=templates)


@pytest.mark.parametrize("variable", VARIABLES)
def test_a_counterpart_says_the_same_about_every_symbol(variable):
    """With unlisted primitives a changed demonstration could say that a symbol has another colour."""
    grammar = Grammar(unlisted=1.0, repeats=True, demonstrations=(3, 6), functions=(1, 3), arities=(2,), length=(2, 4))
    found = 0
    for seed in range(150):
        episode = draw(grammar, Dice(seed))
        other = counterpart(episode, variable)
        if other is not None:
            found += 1
            assert solve(other).symbol_to_colour == solve(episode).symbol_to_colour
            assert solve(other).answer == other.answer != episode.answer
    assert found > 5


def test_no_role_looks_from_a_step_after_the_last_colour():
    """A distractor's output may be longer than the answer: there is still nothing to scan for at the closing step."""
    for look in (rhs_scanner, output):
        ends = [(step, len(e.answer)) for e in make_splits(0).validation[:200] for step, _ in look(e)]
        assert all(step < end for step, end in ends)
        assert any(step == end - 1 for step, end in ends)
