"""Episodes that differ only in the names of symbols and colours and in the order of the support.

Every primitive has a colour of its own, so a colour is named by its primitive. The question's symbols are named by
their places; the others in every possible way, and the smallest of the forms represents them all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import permutations, product
from typing import TypeAlias

from steer.tasks.compositional.episode import Episode

Form: TypeAlias = tuple[tuple[str, ...], ...]


def canonical(episode: Episode) -> Form:
    """A form that two episodes share exactly when renaming and reordering turns one into the other."""
    return min(_form(episode, names) for names in _namings(episode))


def _namings(episode: Episode) -> Iterator[dict[str, str]]:
    in_question = {symbol: f"question {place}" for place, symbol in enumerate(episode.question.tokens)}
    primitives = [p.symbol for p in episode.primitives if p.symbol not in in_question]
    functions = {shown.call.function or "" for shown in episode.demonstrations} - {*in_question, ""}
    for first, second in product(_named("primitive", primitives), _named("function", functions)):
        yield in_question | first | second


def _named(kind: str, symbols: Iterable[str]) -> Iterator[dict[str, str]]:
    for order in permutations(sorted(symbols)):
        yield {symbol: f"{kind} {number}" for number, symbol in enumerate(order)}


def _form(episode: Episode, names: dict[str, str]) -> Form:
    names = names | {p.colour: f"colour of {names[p.symbol]}" for p in episode.primitives}
    support = sorted(tuple(names.get(token, token) for token in item.tokens) for item in episode.support)
    return (tuple(names[symbol] for symbol in episode.question.tokens), *support)
