"""An episode: a question, the support set that determines its answer, and the answer.

Everything is a frozen value made of token strings, so that an episode can be read, compared and hashed. `str`
gives the prompt as the paper prints it (`B S A | A = red | B = blue | A S B = blue red`) and `Episode.parse`
reads it back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, TypeAlias

from typing_extensions import Self

from steer.base.errors import PromptError, unknown
from steer.tasks.compositional.vocabulary import BAR, COLOURS, EOS, EQUALS, SYMBOLS

ONE_ARGUMENT, TWO_ARGUMENTS = 2, 3  # tokens of a call
ARGUMENTS = ("first", "second")  # spans of the question


@dataclass(frozen=True)
class Call:
    """A function applied to its arguments: `A S` or `A S B`. With no function it names one primitive: `A`."""

    arguments: tuple[str, ...]
    function: str | None = None

    @property
    def tokens(self) -> tuple[str, ...]:
        if self.function is None:
            return self.arguments
        return (self.arguments[0], self.function, *self.arguments[1:])


@dataclass(frozen=True)
class Primitive:
    """`A = red`."""

    symbol: str
    colour: str

    @property
    def tokens(self) -> tuple[str, ...]:
        return (self.symbol, EQUALS, self.colour)


@dataclass(frozen=True)
class Demonstration:
    """`A S B = blue red`: a call and the colours it gives."""

    call: Call
    output: tuple[str, ...]

    @property
    def tokens(self) -> tuple[str, ...]:
        return (*self.call.tokens, EQUALS, *self.output)


Item: TypeAlias = Primitive | Demonstration


@dataclass(frozen=True)
class Function:
    """What a function does: `template[i]` is the argument (0 or 1) whose colour stands at place i of the output."""

    symbol: str
    arity: int
    template: tuple[int, ...]

    def apply(self, arguments: tuple[str, ...], colours: Mapping[str, str]) -> tuple[str, ...]:
        return tuple(colours[arguments[slot]] for slot in self.template)


@dataclass(frozen=True)
class Episode:
    question: Call
    support: tuple[Item, ...]
    answer: tuple[str, ...] = ()
    colours: ClassVar[tuple[str, ...]] = COLOURS  # the words that a typed prompt may hold
    symbols: ClassVar[tuple[str, ...]] = SYMBOLS

    @property
    def items(self) -> tuple[tuple[str, ...], ...]:
        """The parts of the prompt between the bars: the question first, then the support."""
        return (self.question.tokens, *(item.tokens for item in self.support))

    @property
    def prompt(self) -> tuple[str, ...]:
        """The tokens of the prompt, with the closing EOS."""
        first, *rest = self.items
        return (*first, *(token for item in rest for token in (BAR, *item)), EOS)

    @property
    def spans(self) -> Mapping[str, tuple[int, ...]]:
        """The question's places in the prompt: its arguments and its function."""
        arguments = {name: (2 * slot,) for slot, name in enumerate(ARGUMENTS[: len(self.question.arguments)])}
        return arguments if self.question.function is None else arguments | {"function": (1,)}

    @property
    def has_two_arguments(self) -> bool:
        return len(self.question.arguments) == 2

    def answering(self, answer: tuple[str, ...]) -> Self:
        return replace(self, answer=answer)

    @property
    def primitives(self) -> tuple[Primitive, ...]:
        return tuple(item for item in self.support if isinstance(item, Primitive))

    @property
    def demonstrations(self) -> tuple[Demonstration, ...]:
        return tuple(item for item in self.support if isinstance(item, Demonstration))

    def __str__(self) -> str:
        return " ".join(self.prompt[:-1])

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a prompt as people type it. The answer is left empty: Algorithm 1 (`task.program`) gives it."""
        tokens = text.replace(BAR, f" {BAR} ").replace(EQUALS, f" {EQUALS} ").split()
        tokens = tokens[:-1] if tokens and tokens[-1].upper() == EOS else tokens
        parts: list[list[str]] = [[]]
        for token in tokens:
            parts.append([]) if token == BAR else parts[-1].append(cls._known(token))
        question, *support = parts
        return cls(cls._call(question, "the question"), tuple(cls._item(part) for part in support))

    @classmethod
    def _known(cls, token: str) -> str:
        words = (*cls.colours, *cls.symbols)
        names = {name.lower(): name for name in (EQUALS, *words)}
        if token.lower() not in names:
            raise PromptError(f"prompt: {unknown('token', token, words)}")
        return names[token.lower()]

    @classmethod
    def _item(cls, part: list[str]) -> Item:
        place = repr(" ".join(part))
        if part.count(EQUALS) != 1:
            raise PromptError(f"prompt: {place} needs exactly one '=', as in 'A = red' or 'A S B = blue red'")
        cut = part.index(EQUALS)
        left, right = cls._call(part[:cut], place), tuple(part[cut + 1 :])
        if not right or not set(right) <= set(cls.colours):
            colours = ", ".join(cls.colours)
            raise PromptError(f"prompt: the right side of {place} must be one or more colours of {colours}")
        return make_item(left, right)

    @classmethod
    def _call(cls, part: list[str], place: str) -> Call:
        if not set(part) <= set(cls.symbols) or not 1 <= len(part) <= TWO_ARGUMENTS:
            symbols = " ".join(cls.symbols)
            raise PromptError(f"prompt: {place} must hold one to three symbols of {symbols}, as in 'A S B'")
        return make_call(part)


def make_call(words: Sequence[str]) -> Call:
    """One to three words as a call: the function's stands second."""
    if len(words) == 1:
        return Call((words[0],))
    return Call((words[0], *words[2:]), words[1])


def make_item(left: Call, right: tuple[str, ...]) -> Item:
    if left.function is not None:
        return Demonstration(left, right)
    if len(right) > 1:
        text = " ".join((*left.tokens, EQUALS, *right))
        raise PromptError(f"prompt: a primitive has one colour, {text!r} has {len(right)}")
    return Primitive(left.arguments[0], right[0])
