"""What a task is: examples with known answers, and everything that is known about them without a model.

A task has two sequences, the *prompt* and the *answer*, places in them (counted from 0, without padding) and named
spans of places. It knows no node and no architecture. Only the abstract methods must be written: a task without roles,
variables or labels keeps the defaults of the rest, and recipes that need them are refused with a message.

Place 0 of the answer's sequence is the start token: at a place stands what was said *before* the step of that number.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Generic, Protocol, TypeAlias, TypeVar

from pydantic import Field
from typing_extensions import Self

from steer.base.errors import PromptError, SteerError
from steer.base.json import Json
from steer.base.yaml import Strict

PROMPT, ANSWER = "prompt", "answer"  # the two sequences
LAST = "last"  # the prompt's last place
Tokens: TypeAlias = tuple[str, ...]
Place: TypeAlias = tuple[str, int]  # ("prompt", 4)
Spans: TypeAlias = Mapping[str, tuple[int, ...]]  # name -> places of the prompt


class Example(Protocol):
    """A prompt and its right answer, as tokens. Examples are frozen and can be hashed; `str` is for people."""

    @property
    def prompt(self) -> Tokens: ...
    @property
    def answer(self) -> Tokens: ...
    @property
    def spans(self) -> Spans: ...
    def answering(self, answer: Tokens) -> Self: ...  # the same prompt with another answer


def named_places(example: Example, name: str) -> tuple[int, ...]:
    """The places of the prompt that a name stands for; none where the example has no such span."""
    return (len(example.prompt) - 1,) if name == LAST else tuple(example.spans.get(name, ()))


def start_alike(one: Tokens, two: Tokens) -> bool:
    """Do two answers start with the same token? Then their first logits do not tell them apart."""
    return one[:1] == two[:1]


@dataclass(frozen=True)
class PlainExample:
    """An example that is nothing but its tokens."""

    prompt: Tokens
    answer: Tokens
    spans: Spans = field(default_factory=dict, compare=False)

    def answering(self, answer: Tokens) -> PlainExample:
        return PlainExample(self.prompt, answer, self.spans)

    def __str__(self) -> str:
        return " ".join(self.prompt)


class Selection(Strict):
    """The keys of every task's selection of examples; a task adds its own."""

    count: Annotated[int, Field(ge=1, le=10_000, description="how many, at most")] = 2_000
    seed: Annotated[int, Field(ge=0, description="chooses among those that match, when there are more than count")] = 0


class Lesson(Strict):
    """The keys that every stage of training has for its examples; a task adds its own."""

    batch: Annotated[int, Field(ge=1, description="episodes in a batch, with all their questions")] = 25

    @property
    def longest_prompt(self) -> int:
        """The most tokens that a prompt may have."""
        return 0


@dataclass(frozen=True)
class Gaze:
    """A place that looks, and the places that are right to look at."""

    looks: Place
    right: frozenset[Place]


@dataclass(frozen=True)
class Look:
    """Which sequence the heads of a role look from, and which they look at."""

    source: str
    target: str


@dataclass(frozen=True)
class Exchange:
    """Two places of the prompt (from 1) whose positions may be exchanged, and the variable that this changes."""

    places: tuple[int, int]
    spans: tuple[str, str]
    variable: str
    reason: str  # why these two places


@dataclass(frozen=True)
class Needed:
    """The keys that a selection must have so that a variable of its examples can be changed."""

    keys: Mapping[str, Any] = field(default_factory=dict)
    text: str = ""


@dataclass(frozen=True)
class Handle:
    """Where a variable can be changed in a model: how, and at which sites, by role (`$output:all.z`)."""

    by: str
    sites: tuple[str, ...]


@dataclass(frozen=True)
class Words:
    """The task's words in tables and messages."""

    token: str = "token"  # one of the tokens that count
    tokens: str = "tokens"
    program: str = "the task's program"  # the program that computes the answers
    exchanged: str = "two tokens"  # the tokens whose positions an `Exchange` swaps
    choosing: str = "episodes that choose"
    rival: str = "the other"  # the choice that was not made
    slices: str = "special sets"


@dataclass(frozen=True)
class Slice:
    """A set of examples of one kind, for evaluation."""

    words: str
    examples: Sequence[Any]


E = TypeVar("E", bound=Example)
S = TypeVar("S", bound=Selection)


class TaskOf(ABC, Generic[E, S]):
    name: ClassVar[str]
    tokens: ClassVar[Tokens]  # of prompts and answers; the first three are padding, start and end
    longest_answer: int  # tokens, without the end
    selection: type[S]  # what a recipe's `episodes:` may say
    splits: Tokens = ("train", "validation", "test")  # fixed sets: trained on, searched on, judged on
    roles: ClassVar[Mapping[str, Look]] = {}
    output_role: ClassVar[str] = ""  # whose heads look at the token that they write
    variables: Tokens = ()
    span_names: Tokens = ()  # the spans that examples may have
    labels: Mapping[str, Mapping[str, str]] = {}  # label -> which tokens carry it -> their sequence
    label_titles: ClassVar[Mapping[str, str]] = {}  # label -> its name in figures, if it is another
    labels_text: ClassVar[str] = ""  # which tokens may carry a label, for the schema
    exchange: ClassVar[Exchange | None] = None
    needed: ClassVar[Needed] = Needed()
    handles: ClassVar[Mapping[str, Handle]] = {}  # variable -> where `steer ask` changes it
    carriers: ClassVar[Mapping[str, tuple[tuple[str, str], ...]]] = {}  # variable -> roles and ports that carry it
    notes: ClassVar[Mapping[str, str]] = {}  # group of `groups` -> what it means
    words: ClassVar[Words] = Words()
    lesson: ClassVar[type[Lesson]] = Lesson
    source: Any = ""  # how a recipe names the file that holds the examples, if it brings one
    fingerprint: str = ""  # of that file's content

    # Examples.

    @abstractmethod
    def split(self, name: str, seed: int) -> Sequence[E]:
        """One of the fixed sets."""

    @abstractmethod
    def examples(self, wanted: S, seed: int, variable: str | None = None) -> Sequence[E]:
        """The examples that a selection means; only those in which a variable can be changed, if one is given.

        A task may leave that to `lender`: those that have none are left out later, and counted.
        """

    def apart(self, seed: int) -> tuple[Sequence[E], Sequence[E]]:
        """Examples to search a circuit on, and others to judge it on."""
        return self.split(self.splits[-2], seed), self.split(self.splits[-1], seed)

    @abstractmethod
    def counts(self, token: str) -> bool:
        """Is this token scored when it is part of an answer?"""

    def parse(self, text: str) -> E:
        """An example as people type it, with its right answer."""
        raise PromptError(f"prompt: the task {self.name!r} reads no typed prompts")

    def read(self, folder: Path) -> Sequence[Any]:
        """The examples in a folder of files of the task's own format."""
        raise SteerError(f"the task {self.name!r} reads no episode files")

    def describe(self, example: E) -> Json:
        """An example with everything known about it, as JSON."""
        return {"prompt": str(example), "answer": list(example.answer)}

    def text(self, example: E) -> str:
        """The same in a few lines."""
        return f"{example}\n  answer  {' '.join(example.answer)}"

    def solve(self, example: E) -> Any:
        """The variables of the task's program on the way to the answer."""
        raise PromptError(f"prompt: the task {self.name!r} has no program that solves it")

    def alternatives(self, example: E) -> Tokens:
        """The tokens whose mean logit is subtracted from a token's logit."""
        return tuple(token for token in self.tokens if self.counts(token))

    def wrong(self, example: E) -> Sequence[Tokens]:
        """Wrong answers that the right one is held against, token by token."""
        rival = self.rivals(example)
        return [] if rival == example.answer else [rival]

    def cut_spans(self, example: E) -> frozenset[str]:
        """The spans of an example that begin or end within a token."""
        return frozenset()

    def place(self, example: E) -> str:
        """Where an example stands, for messages."""
        return f"{str(example)[:60]!r}"

    # Variables.

    def counterpart(self, example: E, variable: str) -> E | None:
        """The example with one variable changed, and the answer that it then has; None if it cannot be changed."""
        return None

    def lender(self, example: E, variable: str) -> E | None:
        """The counterpart, also where its answer is not known: its activations can be taken all the same."""
        return self.counterpart(example, variable)

    def why_fixed(self, example: E, variable: str) -> str:
        """Why a variable of an example cannot be changed."""
        return f"the task {self.name!r} has no variables"

    def keeps_length(self, variable: str) -> bool:
        """Does the counterpart's answer always have the same number of tokens?"""
        return False

    def exchanged(self, example: E, places: tuple[int, int]) -> E:
        """The example with the answer that is predicted when two places (from 1) exchange their positions."""
        return example

    def check_exchange(self, example: E, named: Sequence[str], variable: str) -> None:
        """Raise unless exchanging the positions of these two tokens changes this variable."""

    def labelled(self, example: E, label: str, tokens: str) -> Sequence[tuple[Place, int]]:
        """The places that carry a label, with its value there."""
        return ()

    # Roles.

    def gaze(self, example: E, role: str) -> Sequence[Gaze]:
        """Where a head of this role should look, for each place that has something to look at."""
        return ()

    def chooses(self, example: E) -> bool:
        """Does the answer depend on a choice, so that a head that always does the same is not always right?"""
        return True

    def rivals(self, example: E) -> Tokens:
        """For each token of the answer the token that was not chosen; the token itself where there was no choice."""
        return example.answer

    # Evaluation.

    def kind(self, example: E) -> str:
        """The kind of question, by which reports group examples; empty: all are of one kind."""
        return ""

    def groups(self, examples: Sequence[E], trained: Sequence[E]) -> Mapping[str, Sequence[bool]]:
        """Groups of examples to report on, besides all of them."""
        return {}

    def slices(self, seed: int) -> Mapping[str, Slice]:
        """Further sets to evaluate on."""
        return {}

    # Training.

    def epoch(self, lesson: Any, data_seed: int, seed: int, number: int) -> Sequence[Sequence[Example]]:
        """The batches of one epoch, determined by these numbers alone, without examples of a held-out set."""
        raise SteerError(f"the task {self.name!r} has no training examples")


Task: TypeAlias = TaskOf[Any, Any]
