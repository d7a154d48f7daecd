"""What one must know about a file of prompts before trusting a number, computed from its tokens, without a model.

The same facts guard every run: an answer that starts like its rival is a fault of a measure of first tokens, a
counterpart of another length is left out and counted, a span that cuts a token is a warning.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from steer.base.errors import SteerError
from steer.tasks.prompts.line import Line, Said
from steer.tasks.prompts.task import Bound, Prompts
from steer.tasks.task import Tokens, start_alike
from steer.tasks.text import Tokenizer

SHOWN = 3  # lines that a remark names


@dataclass(frozen=True)
class Remark:
    """Something to know: what it is about, what follows from it, and where it was seen."""

    about: str
    text: str
    lines: tuple[str, ...] = ()  # the first few
    count: int = 0


@dataclass(frozen=True)
class ShownLine:
    """A line as the model reads it."""

    place: str
    prompt: Tokens
    answer: Tokens
    wrong: tuple[Tokens, ...]
    counterparts: Mapping[str, tuple[Tokens, Tokens]]  # prompt and answer
    spans: Mapping[str, Tokens]


@dataclass(frozen=True)
class Facts:
    lines: int
    prompt_tokens: tuple[int, int]  # the fewest and the most
    answer_tokens: Mapping[int, int]  # number of tokens -> how many lines have an answer of that length
    counterparts: Mapping[str, Mapping[str, int]]  # name -> lines, of another length, without an answer
    spans: Mapping[str, Mapping[str, int]]  # name -> lines, cut
    remarks: tuple[Remark, ...]
    shown: tuple[ShownLine, ...]


def facts_of(task: Prompts, lines: Mapping[str, Line], tokenizer: Tokenizer, show: int = SHOWN) -> Facts:
    bound, lengths = task.bound, [len(one.example.prompt) for one in task.bound]
    return Facts(
        len(bound),
        (min(lengths), max(lengths)),
        dict(sorted(Counter(len(one.example.answer) for one in bound).items())),
        {name: _counterpart(name, bound) for name in task.variables},
        {name: _span(name, bound) for name in task.span_names},
        tuple(_remarks(task, lines, tokenizer)),
        tuple(_shown(one) for one in bound[:show]),
    )


def _counterpart(name: str, bound: Sequence[Bound]) -> dict[str, int]:
    there = [(one.example, one.counterparts[name]) for one in bound if name in one.counterparts]
    other = sum(len(mine.prompt) != len(its.prompt) for mine, its in there)
    return {"lines": len(there), "of another length": other, "without an answer": sum(not o.answer for _, o in there)}


def _span(name: str, bound: Sequence[Bound]) -> dict[str, int]:
    there = [one for one in bound if name in one.example.spans]
    return {"lines": len(there), "cutting a token": sum(name in one.cut for one in there)}


def _shown(one: Bound) -> ShownLine:
    tokens = one.example.prompt
    spans = {name: tuple(tokens[place] for place in places) for name, places in one.example.spans.items()}
    others = {name: (other.prompt, other.answer) for name, other in one.counterparts.items()}
    return ShownLine(one.place, tokens, one.example.answer, one.wrong, others, spans)


def _remarks(task: Prompts, lines: Mapping[str, Line], tokenizer: Tokenizer) -> Iterator[Remark]:
    bound = task.bound
    alike = [one.place for one in bound if any(start_alike(one.example.answer, other) for other in one.wrong)]
    yield from _remark("wrong answers", "start with the answer's first token: a difference needs `steps: all`", alike)
    for name in task.variables:
        yield from _counterpart_remarks(name, [one for one in bound if name in one.counterparts])
    for name in task.span_names:
        remark = "begins or ends within a token: the whole token is taken"
        yield from _remark(f"span {name!r}", remark, [one.place for one in bound if name in one.cut])
    bare = [place for place, line in lines.items() if _wants_blank(line.prompt, line.answer, tokenizer)]
    remark = "begins without a blank: its first token is another than behind one; is that meant?"
    yield from _remark("answers", remark, bare)


def _counterpart_remarks(name: str, bound: Sequence[Bound]) -> Iterator[Remark]:
    pairs = [(one.place, one.example, one.counterparts[name]) for one in bound]
    for text, places in (
        (
            "its answer starts with the same token: a difference needs `steps: all`",
            [at for at, mine, other in pairs if other.answer and start_alike(mine.answer, other.answer)],
        ),
        (
            "has another number of tokens: left out where its values are taken (activation-patch, steer, ablation)",
            [at for at, mine, other in pairs if len(mine.prompt) != len(other.prompt)],
        ),
        (
            "has no answer: it lends its values, but `against: counterfactual` leaves it out",
            [at for at, _, other in pairs if not other.answer],
        ),
    ):
        yield from _remark(f"counterpart {name!r}", text, places)


def _remark(about: str, text: str, places: Iterable[str]) -> Iterator[Remark]:
    shown = list(places)
    if shown:
        yield Remark(about, text, tuple(shown[:SHOWN]), len(shown))


def _wants_blank(prompt: str, answer: Said, tokenizer: Tokenizer) -> bool:
    """Would a blank before the answer, which has none, make other tokens of it?"""
    if isinstance(answer, int) or answer[:1].isspace() or prompt[-1:].isspace() or not answer[:1].isalnum():
        return False
    try:
        one, two = (tokenizer.answer(prompt, text) for text in (answer, f" {answer}"))
    except SteerError:
        return False
    return [piece.token for piece in one] != [piece.token for piece in two]
