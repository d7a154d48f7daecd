"""The paper's Algorithm 1, executed.

`solve` answers an episode from its prompt alone and returns every intermediate variable. They are the labels of
the figures (index-in-question, relative-index-on-LHS), and they predict what steering should do: `answer_with` runs
the last step of the algorithm with indices that the caller gives. `understand` works out what the support says,
including primitives that it never assigns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from steer.base.errors import PromptError
from steer.tasks.compositional.episode import Call, Demonstration, Episode, Function, Primitive

Template = tuple[int, ...]  # the argument (0 or 1) whose colour stands at each place of an output
FunctionKey = tuple[str, int]  # a function's symbol and its number of arguments


@dataclass(frozen=True)
class Solution:
    """The algorithm's variables. Indices count from 1, as in the paper: in `A S B`, A is 1st and B is 3rd."""

    symbol_to_colour: Mapping[str, str]
    colour_to_symbol: Mapping[str, str]
    symbol_at: Mapping[int, str]  # of the question, by index
    relative_index: tuple[int, ...]  # relative-index-on-LHS, one for each output token
    answer: tuple[str, ...]

    @property
    def index_in_question(self) -> Mapping[str, int]:
        """Of each symbol of the question that stands there once: in `A S A` only S has one index."""
        symbols = list(self.symbol_at.values())
        return {symbol: index for index, symbol in self.symbol_at.items() if symbols.count(symbol) == 1}

    def answer_with(self, symbol_at: Mapping[int, str], relative_index: Sequence[int]) -> tuple[str, ...]:
        """The answer that follows from other indices, e.g. two question symbols exchanged."""
        return tuple(self.symbol_to_colour[symbol_at[index]] for index in relative_index)


def place_of(slot: int) -> int:
    """Where an argument stands in its call, counted from 1: the function's symbol follows the first."""
    return 1 + 2 * slot


@dataclass
class Understood:
    """Everything that a support determines."""

    colours: dict[str, str] = field(default_factory=dict)  # by symbol
    templates: dict[FunctionKey, Template] = field(default_factory=dict)
    lengths: dict[FunctionKey, int] = field(default_factory=dict)  # all that `A S A = red red` says about S

    def learn(self, shown: Demonstration) -> bool:
        """Learn from a demonstration, given what is known. Returns whether anything was new."""
        before = len(self.colours), len(self.templates), len(self.lengths)
        arguments, function = shown.call.arguments, key_of(shown.call)
        self.lengths.setdefault(function, len(shown.output))
        if len(set(arguments)) < len(arguments):
            self.colours.setdefault(arguments[0], shown.output[0])
        elif function in self.templates:
            for slot, colour in zip(self.templates[function], shown.output, strict=False):
                self.colours.setdefault(arguments[slot], colour)
        else:
            self._compare(function, arguments, shown.output)
        return before != (len(self.colours), len(self.templates), len(self.lengths))

    def _compare(self, function: FunctionKey, arguments: tuple[str, ...], output: tuple[str, ...]) -> None:
        """Known colours tell the template; a colour of no known argument is that of the one unknown argument."""
        known = {self.colours[argument]: argument for argument in arguments if argument in self.colours}
        unknown = [argument for argument in arguments if argument not in self.colours]
        strange = set(output) - set(known)
        if len(unknown) == len(strange) == 1:
            self.colours[unknown[0]] = strange.pop()
            known[self.colours[unknown[0]]] = unknown[0]
        if not strange:
            self.templates[function] = tuple(arguments.index(known[colour]) for colour in output)


def understand(episode: Episode) -> Understood:
    """Everything that follows from the support: demonstrations are used again until nothing new follows."""
    understood = Understood({p.symbol: p.colour for p in episode.primitives})
    while any(understood.learn(shown) for shown in episode.demonstrations):
        pass
    return understood


def solve(episode: Episode) -> Solution:
    support = understand(episode)
    _check(episode, support)
    colour_to_symbol = {colour: symbol for symbol, colour in support.colours.items()}
    symbol_at = dict(enumerate(episode.question.tokens, start=1))
    relative = _relative_index(episode.question, support)
    solution = Solution(support.colours, colour_to_symbol, symbol_at, relative, ())
    lost = [symbol_at[index] for index in relative if symbol_at[index] not in support.colours]
    if lost:
        raise PromptError(*(f"prompt: {s!r} is in the question but has no colour" for s in dict.fromkeys(lost)))
    answer = solution.answer_with(symbol_at, relative)
    return Solution(support.colours, colour_to_symbol, symbol_at, relative, answer)


def is_determined(episode: Episode) -> bool:
    """Does the support say enough to answer?"""
    try:
        solve(episode)
    except PromptError:
        return False
    return True


def functions(episode: Episode) -> frozenset[Function]:
    """The functions that the support defines, as templates over their arguments."""
    return functions_of(understand(episode))


def functions_of(support: Understood) -> frozenset[Function]:
    return frozenset(Function(symbol, arity, template) for (symbol, arity), template in support.templates.items())


def primitives(episode: Episode) -> frozenset[Primitive]:
    """The primitives that the support defines, by an assignment or by demonstrations."""
    return primitives_of(understand(episode))


def primitives_of(support: Understood) -> frozenset[Primitive]:
    return frozenset(Primitive(symbol, colour) for symbol, colour in support.colours.items())


def key_of(call: Call) -> FunctionKey:
    return call.function or "", len(call.arguments)


def _relative_index(question: Call, support: Understood) -> tuple[int, ...]:
    if question.function is None:  # bare primitives: their colours, one after the other
        return tuple(range(1, len(question.arguments) + 1))
    words, function = " ".join(question.tokens), key_of(question)
    if function in support.templates:
        return tuple(place_of(slot) for slot in support.templates[function])
    if function not in support.lengths:
        raise PromptError(f"prompt: the support shows no example of '{words}'")
    if len(set(question.arguments)) == 1 < len(question.arguments):  # `A S A`: either place has the same colour
        return (1,) * support.lengths[function]
    raise PromptError(f"prompt: the support does not tell which argument each colour of '{words}' comes from")


def _check(episode: Episode, support: Understood) -> None:
    """Raise if assignments and demonstrations contradict each other."""
    colours, faults = support.colours, []
    listed = [p.symbol for p in episode.primitives]
    if len(set(listed)) < len(listed) or len(set(colours.values())) < len(colours):
        faults.append("prompt: a symbol or a colour is assigned twice")
    for shown in episode.demonstrations:
        arguments, text = shown.call.arguments, " ".join(shown.tokens)
        if all(a in colours for a in arguments) and not set(shown.output) <= {colours[a] for a in arguments}:
            faults.append(f"prompt: '{text}' has a colour that none of its arguments has")
        elif not _agrees(shown, support):
            faults.append(f"prompt: the support contradicts itself about '{' '.join(shown.call.tokens)}'")
    if faults:
        raise PromptError(*faults)


def _agrees(shown: Demonstration, support: Understood) -> bool:
    """Does a demonstration show what the support says about its call?"""
    function, arguments = key_of(shown.call), shown.call.arguments
    if len(shown.output) != support.lengths[function]:
        return False
    template = support.templates.get(function, ())
    return all(
        colour == support.colours.get(arguments[slot]) for slot, colour in zip(template, shown.output, strict=False)
    )
