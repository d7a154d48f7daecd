"""Episodes drawn at random.

A `Grammar` states the ranges; `draw` makes one episode from it. All randomness goes through `Dice`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations, product
from typing import ClassVar

from pydantic import ConfigDict

from steer.base.dice import Dice, Range
from steer.tasks.compositional.episode import Call, Demonstration, Episode, Function, Item, Primitive
from steer.tasks.compositional.program import is_determined
from steer.tasks.compositional.vocabulary import COLOURS, SYMBOLS


@dataclass(frozen=True)
class Grammar:
    """The ranges of an episode, both ends included. The defaults are the paper's."""

    primitives: Range = (3, 4)
    functions: Range = (1, 3)  # distinct functions; all but the one asked about are distractors
    demonstrations: Range = (2, 4)  # the paper's "function assignments"
    arities: tuple[int, ...] = (1, 2)
    length: Range = (1, 5)
    listed: Range = (1, 1)  # primitives that the question lists when the episode has no functions (a curriculum)
    disjoint: bool = False  # where possible, ask about arguments that the function's demonstrations do not show
    repeats: bool = False  # a call may take the same argument twice: `A S A`
    independent: bool = False  # the question is drawn independently of the support, and may be part of it
    templates: tuple[str, ...] = ()  # the functions themselves, by argument number: "21211"; random if none are given
    unlisted: float = 0.0  # chance that an assignment (`A = red`) is left out, if the answer stays determined

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    @property
    def longest(self) -> int:
        """The most tokens that a prompt may have."""
        question = max(1 + max(self.arities), self.listed[1])
        call = 1 + max(self.arities)
        return question + 4 * self.primitives[1] + (call + 2 + self.length[1]) * self.demonstrations[1] + 1

    def __post_init__(self) -> None:
        ranges = {
            name: getattr(self, name) for name in ("primitives", "functions", "demonstrations", "length", "listed")
        }
        faults = [f"{name} must go from small to large" for name, (low, high) in ranges.items() if not 0 <= low <= high]
        if not 0 <= self.unlisted <= 1:
            faults.append("unlisted must be a share, from 0 to 1")
        if not self.arities or not set(self.arities) <= {1, 2}:
            faults.append("arities must be 1, 2 or both")
        elif self.primitives[0] < max(self.arities):
            faults.append("primitives must allow two different arguments")
        elif self.demonstrations[1] and self.primitives[0] < 2:
            faults.append("primitives must be at least 2 where there are demonstrations: one call is shown, one asked")
        if self.templates:
            faults += _template_faults(self)
        if self.listed[0] < 1:
            faults.append("listed must be at least 1")
        if self.primitives[1] > len(COLOURS):
            faults.append(f"primitives must be at most {len(COLOURS)}, one for each colour")
        if self.primitives[1] + min(self.functions[1], self.demonstrations[1]) > len(SYMBOLS):
            faults.append(f"primitives and functions together need more than {len(SYMBOLS)} symbols")
        if self.length[0] < 1:
            faults.append("length must be at least 1")
        if faults:
            raise ValueError("; ".join(faults))


def _template_faults(grammar: Grammar) -> list[str]:
    faults = []
    digits = "12"[: max(grammar.arities, default=1)]
    if any(not template or set(template) - set(digits) for template in grammar.templates):
        faults.append(f"templates must be of the digits {' and '.join(digits)}, the number of an argument each")
    if len(grammar.templates) < grammar.functions[1]:
        faults.append(f"templates must be {grammar.functions[1]} at least, one for each function")
    if len(set(grammar.arities)) > 1:
        faults.append("arities must be one number where templates are given")
    longest = max(map(len, grammar.templates))
    if longest > grammar.length[1]:
        faults.append(f"length must allow the longest template, {longest}")
    return faults


PAPER = Grammar()


def draw(grammar: Grammar, dice: Dice) -> Episode:
    """One episode: support in random order, and a question that the support determines."""
    episode = _draw(grammar, dice)
    while (grammar.repeats or grammar.independent) and not is_determined(episode):  # too little was shown
        episode = _draw(grammar, dice)
    return _leave_out(episode, grammar.unlisted, dice) if grammar.unlisted else episode


def _draw(grammar: Grammar, dice: Dice) -> Episode:
    count = dice.between(grammar.demonstrations)
    kinds = min(dice.between(grammar.functions), count)
    names = dice.sample(SYMBOLS, dice.between(grammar.primitives) + kinds)
    symbols = names[kinds:]
    colours = dict(zip(symbols, dice.sample(COLOURS, len(symbols)), strict=True))
    functions = [_function(name, number, grammar, dice) for number, name in enumerate(names[:kinds])]
    support: list[Item] = [Primitive(symbol, colour) for symbol, colour in colours.items()]
    if not functions:  # a grammar of primitives alone asks for the colours of one or more
        listed = tuple(dice.sample(symbols, min(dice.between(grammar.listed), len(symbols))))
        return Episode(Call(listed), tuple(dice.shuffled(support)), tuple(colours[symbol] for symbol in listed))
    calls = {function: list(_arguments(symbols, function.arity, grammar.repeats)) for function in functions}
    choose = _apart if grammar.independent else _held_back
    shown, (chosen, arguments) = choose(calls, count, grammar, dice)
    support += [Demonstration(Call(args, f.symbol), f.apply(args, colours)) for f, args in shown]
    return Episode(Call(arguments, chosen.symbol), tuple(dice.shuffled(support)), chosen.apply(arguments, colours))


Arguments = tuple[str, ...]
Drawn = tuple[list[tuple[Function, Arguments]], tuple[Function, Arguments]]  # what is shown, what is asked


def _arguments(symbols: Sequence[str], arity: int, repeats: bool) -> Iterator[Arguments]:
    return product(symbols, repeat=arity) if repeats else permutations(symbols, arity)


def _held_back(calls: dict[Function, list[Arguments]], count: int, grammar: Grammar, dice: Dice) -> Drawn:
    """Every function is shown, and one call of each is kept back, so that every function could be asked about."""
    calls = {function: dice.shuffled(those) for function, those in calls.items()}
    shown = [(function, calls[function].pop()) for function in calls]
    while len(shown) < count and (free := [f for f in calls if len(calls[f]) > 1]):
        function = dice.choice(free)
        shown.append((function, calls[function].pop()))
    chosen = dice.choice(list(calls))
    arguments = calls[chosen].pop()
    if grammar.disjoint:
        seen = {symbol for function, call in shown for symbol in call if function is chosen}
        arguments = min([arguments, *calls[chosen]], key=lambda call: len(seen & set(call)))
    return shown, (chosen, arguments)


def _apart(calls: dict[Function, list[Arguments]], count: int, grammar: Grammar, dice: Dice) -> Drawn:
    """Calls to show and a call to ask, drawn independently of each other."""
    every = [(function, arguments) for function, those in calls.items() for arguments in those]
    shown = dice.sample(every, min(count, len(every)))
    if not grammar.disjoint:
        return shown, dice.choice(every)
    chosen = dice.choice(list(calls))
    seen = {symbol for function, call in shown for symbol in call if function is chosen}
    return shown, (chosen, min(dice.shuffled(calls[chosen]), key=lambda call: len(seen & set(call))))


def _leave_out(episode: Episode, chance: float, dice: Dice) -> Episode:
    """The episode without some of its assignments, which must then be inferred from the demonstrations."""
    for item in dice.shuffled(episode.primitives):
        less = replace(episode, support=tuple(other for other in episode.support if other != item))
        if dice.below(1_000) < 1_000 * chance and is_determined(less):
            episode = less
    return episode


def _function(symbol: str, number: int, grammar: Grammar, dice: Dice) -> Function:
    if grammar.templates:
        return Function(symbol, max(grammar.arities), tuple(int(digit) - 1 for digit in grammar.templates[number]))
    arity = dice.choice(grammar.arities)
    template = tuple(dice.below(arity) for _ in range(dice.between(grammar.length)))
    return Function(symbol, arity, template)


def relabel(episode: Episode, dice: Dice) -> Episode:
    """The same episode under other names: symbols and colours each permuted."""
    names = dict(zip(SYMBOLS, dice.shuffled(SYMBOLS), strict=True))
    names |= dict(zip(COLOURS, dice.shuffled(COLOURS), strict=True))

    def call(old: Call) -> Call:
        return Call(tuple(names[a] for a in old.arguments), old.function and names[old.function])

    def item(old: Item) -> Item:
        if isinstance(old, Primitive):
            return Primitive(names[old.symbol], names[old.colour])
        return Demonstration(call(old.call), tuple(names[colour] for colour in old.output))

    answer = tuple(names[colour] for colour in episode.answer)
    return Episode(call(episode.question), tuple(map(item, episode.support)), answer)
