"""Grammars that ask for what a support says without showing it: one answer fits, and no other."""

from __future__ import annotations

from itertools import permutations, product

from hypothesis import given, settings
from hypothesis import strategies as st

from steer.base.dice import Dice
from steer.tasks.compositional.episode import Episode
from steer.tasks.compositional.grammar import Grammar, draw
from steer.tasks.compositional.program import solve
from steer.tasks.compositional.vocabulary import COLOURS

seeds = st.integers(min_value=0, max_value=2**32)
AUTHORS_LIKE = Grammar(
    primitives=(4, 4), functions=(4, 4), demonstrations=(10, 10), arities=(2,), length=(5, 5), repeats=True,
    independent=True,
)  # fmt: skip
loose_grammars = st.sampled_from(
    [
        Grammar(repeats=True),
        Grammar(unlisted=0.7, functions=(2, 4), demonstrations=(3, 6)),
        Grammar(repeats=True, unlisted=1.0, demonstrations=(4, 8), functions=(1, 3), disjoint=True),
        AUTHORS_LIKE,
    ]
)


def answers_that_fit(episode: Episode) -> set[tuple[str, ...]]:
    """Every answer that agrees with the support, by trying all colours and all templates: no inference at all."""
    asked = (episode.question.function, len(episode.question.arguments))
    symbols = sorted(
        {a for shown in (*episode.demonstrations,) for a in shown.call.arguments} | set(episode.question.arguments)
    )
    given = {p.symbol: p.colour for p in episode.primitives}
    found = set()
    for colours in permutations(COLOURS, len(symbols)):
        meaning = dict(zip(symbols, colours, strict=True))
        if any(meaning.get(symbol, colour) != colour for symbol, colour in given.items()):
            continue
        if set(given.values()) & {c for s, c in meaning.items() if s not in given}:
            continue  # two symbols never share a colour
        fitting: dict = {}
        for shown in episode.demonstrations:
            key = (shown.call.function, len(shown.call.arguments))
            every = product(range(key[1]), repeat=len(shown.output))
            every = {t for t in every if tuple(meaning[shown.call.arguments[slot]] for slot in t) == shown.output}
            fitting[key] = fitting.get(key, every) & every
        if all(fitting.values()) and asked in fitting:
            found |= {tuple(meaning[episode.question.arguments[slot]] for slot in t) for t in fitting[asked]}
    return found


@settings(max_examples=40, deadline=None)
@given(loose_grammars, seeds)
def test_what_a_loose_grammar_asks_has_one_answer_and_no_other(grammar: Grammar, seed: int):
    episode = draw(grammar, Dice(seed))
    assert answers_that_fit(episode) == {episode.answer}
    assert solve(episode).answer == episode.answer


def test_a_loose_grammar_draws_what_its_words_say():
    drawn = [draw(AUTHORS_LIKE, Dice(seed)) for seed in range(60)]
    calls = [shown.call for episode in drawn for shown in episode.demonstrations]
    assert {len(e.primitives) for e in drawn} == {4}
    assert {len(e.demonstrations) for e in drawn} == {10}
    assert max(len(e.prompt) for e in drawn) == 120 == AUTHORS_LIKE.longest
    assert 0.15 < sum(len(set(call.arguments)) == 1 for call in calls) / len(calls) < 0.35
    assert 0 < sum(e.question in {s.call for s in e.demonstrations} for e in drawn) < 30
    unlisted = [draw(Grammar(unlisted=0.6, demonstrations=(4, 6)), Dice(seed)) for seed in range(60)]
    assert {1, 2} & {len(e.primitives) for e in unlisted}
