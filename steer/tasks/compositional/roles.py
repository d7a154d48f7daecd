"""What Algorithm 1 says should be attended to: for each role, which places look at which.

A place is an index into the prompt (or, for a role that looks from the answer, into the answer with its start token).
Only places with something to look at are listed: a support symbol that is not in the question is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from steer.tasks.compositional.episode import Demonstration, Episode, Item, Primitive
from steer.tasks.compositional.program import understand
from steer.tasks.compositional.vocabulary import EQUALS
from steer.tasks.task import ANSWER, PROMPT, Gaze, Look

Wanted = list[tuple[int, frozenset[int]]]  # (place that looks, places that are right to look at)


def items(episode: Episode) -> Iterator[tuple[Item, int]]:
    """The support's items, each with the place of its first token in the prompt."""
    start = len(episode.question.tokens) + 1
    for item in episode.support:
        yield item, start
        start += len(item.tokens) + 1


def right_side(shown: Demonstration, start: int) -> range:
    """The places of a demonstration's right-hand colours."""
    first = start + shown.tokens.index(EQUALS) + 1
    return range(first, first + len(shown.output))


def question_broadcast(episode: Episode) -> Wanted:
    """Support symbols -> their copies in the question."""
    question = episode.question.tokens
    wanted = []
    for item, start in items(episode):
        left = item.tokens[: item.tokens.index(EQUALS)]
        for offset, symbol in enumerate(left):
            copies = frozenset(place for place, other in enumerate(question) if other == symbol)
            wanted += [(start + offset, copies)] if copies else []
    return wanted


def primitive_pairing(episode: Episode) -> Wanted:
    """Colours in their assignments -> the symbol that is assigned to them (`A = red`: red -> A)."""
    return [(start + 2, frozenset({start})) for item, start in items(episode) if isinstance(item, Primitive)]


def primitive_retrieval(episode: Episode) -> Wanted:
    """Right-hand colours -> the left-hand symbol that they stand for, in the same demonstration."""
    symbol_of = {colour: symbol for symbol, colour in understand(episode).colours.items()}
    return [
        (place, frozenset(start + offset for offset, left in enumerate(shown.call.tokens) if left == symbol_of[colour]))
        for shown, start in _demonstrations(episode)
        for place, colour in zip(right_side(shown, start), shown.output, strict=True)
        if colour in symbol_of
    ]


def function_retrieval(episode: Episode) -> Wanted:
    """Right-hand colours -> the function's symbol, in the same demonstration."""
    return [
        (place, frozenset({start + 1}))
        for shown, start in _demonstrations(episode)
        for place in right_side(shown, start)
    ]


def rhs_scanner(episode: Episode) -> Wanted:
    """Step i of the answer -> the i-th right-hand colour of a demonstration."""
    sides = [right_side(shown, start) for shown, start in _demonstrations(episode)]
    steps = [(step, frozenset(side[step] for side in sides if step < len(side))) for step in range(len(episode.answer))]
    return [(step, places) for step, places in steps if places]


def output(episode: Episode) -> Wanted:
    """Step of the answer -> the colour that comes next, wherever it stands."""
    return [
        (step, frozenset(place for place, token in enumerate(episode.prompt) if token == colour))
        for step, colour in enumerate(episode.answer)
    ]


def _demonstrations(episode: Episode) -> list[tuple[Demonstration, int]]:
    return [(item, start) for item, start in items(episode) if isinstance(item, Demonstration)]


FROM_ANSWER, WITHIN_PROMPT = Look(ANSWER, PROMPT), Look(PROMPT, PROMPT)
ATTENDED: Mapping[str, tuple[Look, Callable[[Episode], Wanted]]] = {
    "output": (FROM_ANSWER, output),
    "rhs-scanner": (FROM_ANSWER, rhs_scanner),
    "primitive-pairing": (WITHIN_PROMPT, primitive_pairing),
    "question-broadcast": (WITHIN_PROMPT, question_broadcast),
    "primitive-retrieval": (WITHIN_PROMPT, primitive_retrieval),
    "function-retrieval": (WITHIN_PROMPT, function_retrieval),
}
LOOKS = {role: look for role, (look, _) in ATTENDED.items()}


def gaze(episode: Episode, role: str) -> list[Gaze]:
    look, wanted = ATTENDED[role]
    return [
        Gaze((look.source, place), frozenset((look.target, other) for other in right))
        for place, right in wanted(episode)
    ]
