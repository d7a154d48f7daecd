"""The paper's Algorithm 1, executed.

`solve` answers an episode from its prompt alone and returns every intermediate variable. They are the labels of
the figures (index-in-question, relative-index-on-LHS) and the prediction that steering is held to: `answer_with`
runs the last step of the algorithm under indices of the caller's choice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from steer.errors import PromptError
from steer.task.episode import Call, Demonstration, Episode, Function


@dataclass(frozen=True)
class Solution:
    """The algorithm's variables. Indices count from 1, as in the paper: in `A S B`, A is 1st and B is 3rd."""

    symbol_to_colour: Mapping[str, str]
    colour_to_symbol: Mapping[str, str]
    index_in_question: Mapping[str, int]  # of each symbol of the question
    relative_index: tuple[int, ...]  # relative-index-on-LHS, one for each output token
    answer: tuple[str, ...]

    def answer_with(self, index_in_question: Mapping[str, int], relative_index: Sequence[int]) -> tuple[str, ...]:
        """The answer that follows from other indices, e.g. two question symbols exchanged."""
        symbol_at = {index: symbol for symbol, index in index_in_question.items()}
        return tuple(self.symbol_to_colour[symbol_at[index]] for index in relative_index)


def index_of(call: Call) -> dict[str, int]:
    """Each symbol of a call with its place, counted from 1."""
    return {symbol: place for place, symbol in enumerate(call.tokens, start=1)}


def relative_indices(shown: Demonstration, colour_to_symbol: Mapping[str, str]) -> tuple[int, ...]:
    """Each right-hand colour as the place of its symbol on the left-hand side."""
    places = index_of(shown.call)
    return tuple(places[colour_to_symbol[colour]] for colour in shown.output)


def solve(episode: Episode) -> Solution:
    symbol_to_colour = {p.symbol: p.colour for p in episode.primitives}
    colour_to_symbol = {p.colour: p.symbol for p in episode.primitives}
    _check(episode, symbol_to_colour)
    question = index_of(episode.question)
    if episode.question.function is None:  # bare primitives: their colours, one after the other
        relative: tuple[int, ...] = tuple(range(1, len(episode.question.arguments) + 1))
    else:
        shown = _matching(episode)[0]
        relative = relative_indices(shown, colour_to_symbol)
    solution = Solution(symbol_to_colour, colour_to_symbol, question, relative, ())
    answer = solution.answer_with(question, relative)
    return Solution(symbol_to_colour, colour_to_symbol, question, relative, answer)


def functions(episode: Episode) -> frozenset[Function]:
    """The functions that the support defines, as templates over their arguments."""
    colour_to_symbol = {p.colour: p.symbol for p in episode.primitives}
    return frozenset(_function(shown, colour_to_symbol) for shown in episode.demonstrations)


def _function(shown: Demonstration, colour_to_symbol: Mapping[str, str]) -> Function:
    template = tuple(shown.call.arguments.index(colour_to_symbol[colour]) for colour in shown.output)
    return Function(shown.call.function or "", len(shown.call.arguments), template)


def _matching(episode: Episode) -> list[Demonstration]:
    """The demonstrations of the function that the question asks about."""
    asked = episode.question
    return [
        shown
        for shown in episode.demonstrations
        if shown.call.function == asked.function and len(shown.call.arguments) == len(asked.arguments)
    ]


def _check(episode: Episode, colours: Mapping[str, str]) -> None:
    """Faults that leave the answer undetermined; an episode drawn from a grammar has none."""
    faults = []
    if len(colours) < len(episode.primitives) or len(set(colours.values())) < len(colours):
        faults.append("prompt: a symbol or a colour is assigned twice")
    faults += [
        f"prompt: {s!r} is in the question but has no colour" for s in episode.question.arguments if s not in colours
    ]
    if len(set(episode.question.arguments)) < len(episode.question.arguments):
        faults.append("prompt: the arguments of the question must be different primitives")
    for shown in episode.demonstrations:
        used = {colours.get(symbol) for symbol in shown.call.arguments}
        if len(used) < len(shown.call.arguments):
            faults.append(f"prompt: the arguments of '{' '.join(shown.tokens)}' must be different primitives")
        elif not set(shown.output) <= used:
            faults.append(f"prompt: '{' '.join(shown.tokens)}' has a colour that is none of its arguments'")
    if faults:
        raise PromptError(*faults)
    if episode.question.function is not None:
        found = {relative_indices(shown, {c: s for s, c in colours.items()}) for shown in _matching(episode)}
        if len(found) != 1:
            what = "shows no example of" if not found else "contradicts itself about"
            raise PromptError(f"prompt: the support {what} '{' '.join(episode.question.tokens)}'")
