"""A file of prompts as a task: its texts are cut into tokens by one model's tokenizer.

Variables are the names of the counterparts, labels are spans with a value, alternatives are the wrong answers. The same
file bound to another tokenizer is another task; the file itself knows no model.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import create_model

from steer.base.dice import Dice
from steer.base.errors import KeyedError, SteerError
from steer.tasks.prompts.formats import FormatName
from steer.tasks.prompts.line import Line, Said
from steer.tasks.prompts.read import check, read_lines
from steer.tasks.task import PROMPT, Place, Selection, Spans, TaskOf, Tokens, Words
from steer.tasks.text import Tokenizer, covered, cuts

ALL = "all"  # every line, whatever its split
TEST = "test"  # the split that circuits are judged on
FEWEST = 10  # lines that a circuit is searched on, and judged on


class Lines(Selection):
    """Which lines of the file are shown to the model."""

    split: str = ALL


@dataclass(frozen=True)
class Prompt:
    """A line's prompt and answer as tokens; `line` is its number among the lines, from 0."""

    prompt: Tokens
    answer: Tokens
    text: str
    line: int
    spans: Spans = field(default_factory=dict, compare=False)

    def answering(self, answer: Tokens) -> Prompt:
        return replace(self, answer=answer)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Bound:
    """A line with its prompt, its wrong answers and its counterparts as tokens."""

    example: Prompt
    wrong: tuple[Tokens, ...]
    counterparts: Mapping[str, Prompt]  # with an empty answer where none is known; with the example's own spans
    labels: Mapping[str, str]
    split: str
    place: str = ""  # file and line
    cut: frozenset[str] = frozenset()  # spans that begin or end within a token


class Prompts(TaskOf[Prompt, Lines]):
    """The task of a file's lines. Without a file it is the task of models that were trained on none of ours."""

    name = "prompts"
    tokens = ()
    longest_answer = 0
    splits: Tokens = (ALL,)
    selection = Lines
    words = Words(rival="the wrong answer", choosing="lines with a wrong answer")

    def __init__(
        self, bound: Sequence[Bound] = (), source: Any = "", fingerprint: str = "", tokenizer: Tokenizer | None = None
    ) -> None:
        """`tokenizer`: to read typed prompts with."""
        self.bound, self.source, self.fingerprint, self.tokenizer = tuple(bound), source, fingerprint, tokenizer
        self.said: frozenset[str] = frozenset()
        if not bound:
            return
        self.longest_answer = max(len(answer) for one in bound for answer in _answers(one))
        self.splits = tuple(dict.fromkeys([ALL, *(one.split for one in bound if one.split)]))
        self.variables = tuple(dict.fromkeys(name for one in bound for name in one.counterparts))
        self.span_names = tuple(dict.fromkeys(name for one in bound for name in one.example.spans))
        self.values = {span: _numbered([one.labels.get(span) for one in bound]) for one in bound for span in one.labels}
        self.labels = {span: {span: PROMPT} for span in self.values}
        self.said = frozenset(token for one in bound for answer in _answers(one) for token in answer)
        choice: Any = Literal[self.splits]
        self.selection = create_model("Lines", __base__=Lines, __doc__=Lines.__doc__, split=(choice, ALL))

    def split(self, name: str, seed: int) -> Sequence[Prompt]:
        if not self.bound:
            raise SteerError("which prompts? Say `task: FILE.jsonl` (docs/task.md says what stands in it)")
        return [one.example for one in self.bound if name in (ALL, one.split)]

    def apart(self, seed: int) -> tuple[Sequence[Prompt], Sequence[Prompt]]:
        """The lines of the split `test` are judged on, all others searched on; without it, halves drawn at random."""
        if TEST in self.splits:
            judged = [one.split == TEST for one in self.bound]
        else:
            drawn = {*Dice(seed, "apart").sample(range(len(self.bound)), len(self.bound) // 2)}
            judged = [number in drawn for number in range(len(self.bound))]
        lines = [[one.example for one, its in zip(self.bound, judged, strict=True) if its is k] for k in (False, True)]
        if min(map(len, lines)) < FEWEST:
            searched, tested = map(len, lines)
            raise SteerError(
                f"{self.source}: {searched} lines to search on and {tested} to judge on; each takes {FEWEST} or more"
            )
        return lines[0], lines[1]

    def examples(self, wanted: Lines, seed: int, variable: str | None = None) -> Sequence[Prompt]:
        examples = self.split(wanted.split, seed)
        if not examples:
            raise KeyedError([((), f"no lines of {self.source} are of the split {wanted.split!r}")])
        if wanted.count < len(examples):
            chosen = Dice(wanted.seed, "select").sample(range(len(examples)), wanted.count)
            examples = [examples[row] for row in sorted(chosen)]
        return examples

    def parse(self, text: str) -> Prompt:
        if self.tokenizer is None:
            return super().parse(text)
        return _tokens(text, None, 0, self.tokenizer)

    def counts(self, token: str) -> bool:
        """Every token of an answer does."""
        return token in self.said

    def alternatives(self, example: Prompt) -> Tokens:
        """The first tokens of the wrong answers, or of the counterparts' answers, or of all answers of the file."""
        one = self.bound[example.line]
        others = one.wrong or tuple(other.answer for other in one.counterparts.values() if other.answer)
        firsts = [answer[0] for answer in others] or [other.example.answer[0] for other in self.bound]
        return tuple(dict.fromkeys(firsts))

    def rivals(self, example: Prompt) -> Tokens:
        """The first wrong answer, or else that of the first counterpart with an answer, token by token."""
        one = self.bound[example.line]
        others = (*one.wrong, *(other.answer for other in one.counterparts.values() if other.answer))
        return (others[0] + example.answer[len(others[0]) :])[: len(example.answer)] if others else example.answer

    def chooses(self, example: Prompt) -> bool:
        return self.rivals(example) != example.answer

    def wrong(self, example: Prompt) -> Sequence[Tokens]:
        return self.bound[example.line].wrong

    def cut_spans(self, example: Prompt) -> frozenset[str]:
        return self.bound[example.line].cut

    def place(self, example: Prompt) -> str:
        return self.bound[example.line].place

    def counterpart(self, example: Prompt, variable: str) -> Prompt | None:
        other = self.lender(example, variable)
        return other if other is not None and other.answer else None

    def lender(self, example: Prompt, variable: str) -> Prompt | None:
        return self.bound[example.line].counterparts.get(variable)

    def why_fixed(self, example: Prompt, variable: str) -> str:
        return f"{self.place(example)} has no counterpart {variable!r} with an answer"

    def keeps_length(self, variable: str) -> bool:
        pairs = [(one.example, one.counterparts[variable]) for one in self.bound if variable in one.counterparts]
        return all(len(one.answer) == len(other.answer) for one, other in pairs if other.answer)

    def labelled(self, example: Prompt, label: str, tokens: str) -> Sequence[tuple[Place, int]]:
        value = self.bound[example.line].labels.get(label)
        places = example.spans[label] if value is not None else ()
        return [((PROMPT, place), self.values[label][value or ""]) for place in places]


TASK = Prompts()


def _answers(one: Bound) -> Iterator[Tokens]:
    yield from (one.example.answer, *one.wrong, *(other.answer for other in one.counterparts.values()))


def _numbered(values: Sequence[str | None]) -> dict[str, int]:
    """Each value with its number, from 1, in the order of the alphabet."""
    return {value: number for number, value in enumerate(sorted({v for v in values if v is not None}), 1)}


def read_prompts(path: Path, form: FormatName, tokenizer: Tokenizer, source: Any) -> Prompts:
    """A file as a task for one model. `source`: how the recipe names it."""
    lines, data = read_lines(path, form)
    bound: list[Bound] = []
    faults: list[str] = []
    for place, line in lines.items():
        try:
            bound.append(_bind(line, len(bound), tokenizer, place))
        except SteerError as error:
            faults += [f"{place}: {fault}" for fault in error.faults]
    check(faults)
    return Prompts(bound, source, hashlib.sha256(form.encode() + b"\n" + data).hexdigest(), tokenizer)


def _bind(line: Line, number: int, tokenizer: Tokenizer, place: str) -> Bound:
    example = _tokens(line.prompt, line.answer, number, tokenizer)
    pieces = tokenizer.prompt(line.prompt)
    spans = {name: covered(pieces, *ends) for name, ends in line.spans.items()}
    for name, places in spans.items():
        if not places:
            raise SteerError(f"spans: {name!r} holds no token of the prompt")
    counterparts = {
        name: replace(_tokens(pair.prompt, pair.answer, number, tokenizer), spans=spans)
        for name, pair in line.counterparts.items()
    }
    labels = {span: str(value) for span, value in line.labels.items()}
    wrong = tuple(_said(line.prompt, answer, tokenizer) for answer in line.wrong)
    if example.answer in wrong:
        raise SteerError(f"wrong: {' '.join(example.answer)!r} is the answer itself")
    cut = frozenset(name for name, ends in line.spans.items() if cuts(line.prompt, pieces, *ends))
    return Bound(replace(example, spans=spans), wrong, counterparts, labels, line.split, place, cut)


def _tokens(prompt: str, answer: Said | None, number: int, tokenizer: Tokenizer) -> Prompt:
    tokens = tuple(piece.token for piece in tokenizer.prompt(prompt))
    if not tokens:
        raise SteerError("prompt: holds no token")
    return Prompt(tokens, () if answer is None else _said(prompt, answer, tokenizer), prompt, number)


def _said(prompt: str, answer: Said, tokenizer: Tokenizer) -> Tokens:
    if isinstance(answer, int):
        return (tokenizer.token(answer),)
    tokens = tuple(piece.token for piece in tokenizer.answer(prompt, answer))
    if not tokens:
        raise SteerError("answer: holds no token")
    return tokens
