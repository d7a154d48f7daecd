"""The labels of the paper's Fig. 6 and 10: which tokens of an episode carry which index of Algorithm 1."""

from __future__ import annotations

from steer.tasks.compositional.episode import Episode, Primitive
from steer.tasks.compositional.program import solve
from steer.tasks.compositional.roles import items
from steer.tasks.task import ANSWER, PROMPT

# label -> which tokens carry it -> their sequence
LABELS = {
    "index-in-question": {"symbols": PROMPT, "colours": PROMPT, "question": PROMPT, "copies": PROMPT},
    "relative-index": {"steps": ANSWER},
}
LABEL_TITLES = {"index-in-question": "index in question", "relative-index": "relative index on the left-hand side"}


def labelled_tokens(episode: Episode, label: str, tokens: str) -> list[tuple[int, int]]:
    """(place from 0, label) of each labelled token.

    index-in-question: the symbol or the colour of each assignment `A = red` whose symbol is asked about, labelled by
    the symbol's place in the question; or the arguments where they stand in the `question` itself, or all `copies` of
    their colours anywhere in the prompt (the points that the authors' code takes). relative-index: each place of the
    answer (from SOS, at 0) that a colour follows, labelled by the relative-index-on-LHS of that colour.
    """
    solution = solve(episode)
    if label == "relative-index":
        return list(enumerate(solution.relative_index))
    index = {symbol: solution.index_in_question.get(symbol, 0) for symbol in episode.question.arguments}
    place_of = {symbol: place for symbol, place in index.items() if place}
    if tokens == "question":
        return [(place - 1, place) for place in sorted(place_of.values())]
    if tokens == "copies":
        index_of = {solution.symbol_to_colour[symbol]: place for symbol, place in place_of.items()}
        return [(place, index_of[token]) for place, token in enumerate(episode.prompt) if token in index_of]
    places = []
    for item, place in items(episode):
        if isinstance(item, Primitive) and item.symbol in solution.index_in_question:
            offset = 0 if tokens == "symbols" else item.tokens.index(item.colour)
            places.append((place + offset, solution.index_in_question[item.symbol]))
    return places
