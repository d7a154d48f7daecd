"""The task by hand, from a prompt's tokens: what it says, its answer, and the same prompt with one thing changed."""

from __future__ import annotations

from collections.abc import Sequence

Tokens = tuple[str, ...]


def items(prompt: Sequence[str]) -> list[Tokens]:
    """The question and the support, as they stand between the bars."""
    parts: list[list[str]] = [[]]
    for token in prompt:
        if token == "|":
            parts.append([])
        elif token != "EOS":
            parts[-1].append(token)
    return [tuple(part) for part in parts]


def colours(prompt: Sequence[str]) -> dict[str, str]:
    """Symbol -> colour, from the assignments `A = red`."""
    return {part[0]: part[2] for part in items(prompt)[1:] if part[1] == "="}


def examples(prompt: Sequence[str]) -> list[tuple[Tokens, Tokens]]:
    """Left and right side of every call that is shown."""
    sides = [(part[: part.index("=")], part[part.index("=") + 1 :]) for part in items(prompt)[1:]]
    return [(left, right) for left, right in sides if len(left) > 1]


def indices(prompt: Sequence[str]) -> list[int]:
    """For each colour of the answer, the place (from 1) in the question of the symbol that it stands for."""
    question, symbol = items(prompt)[0], {colour: name for name, colour in colours(prompt).items()}
    left, right = next(
        (left, right) for left, right in examples(prompt) if left[1] == question[1] and len(left) == len(question)
    )
    return [left.index(symbol[colour]) + 1 for colour in right]


def answer(prompt: Sequence[str]) -> Tokens:
    question = items(prompt)[0]
    return tuple(colours(prompt)[question[index - 1]] for index in indices(prompt))


def labelled(prompt: Sequence[str], label: str, tokens: str) -> list[tuple[int, int]]:
    """(place from 0, label) of the tokens that carry it: symbols or colours of assignments, the question's
    own arguments, all copies of their colours, or steps of the answer."""
    if label == "relative-index":
        return list(enumerate(indices(prompt)))
    question = items(prompt)[0]
    if tokens == "question":
        return [(0, 1), (2, 3)] if len(question) > 2 else [(0, 1)]
    if tokens == "copies":
        asked_colours = {colours(prompt)[s]: n for n, s in enumerate(question, 1) if n != 2}
        return [(n, asked_colours[token]) for n, token in enumerate(prompt) if token in asked_colours]
    starts = [n for n in range(1, len(prompt) - 2) if prompt[n - 1] == "|" and prompt[n + 1] == "="]
    asked = [n for n in starts if prompt[n] in question]
    return [(n + (2 if tokens == "colours" else 0), question.index(prompt[n]) + 1) for n in asked]


def exchanged(prompt: Sequence[str]) -> Tokens:
    """The question's two arguments exchanged."""
    first, function, second, *rest = prompt
    return (second, function, first, *rest)


def mirrored(prompt: Sequence[str]) -> Tokens:
    """On the right-hand sides of the function that is asked about, the colours of its two arguments exchanged."""
    question, colour = items(prompt)[0], colours(prompt)
    parts = [" ".join(question)]
    for part in items(prompt)[1:]:
        if part[1] == question[1] and len(part[: part.index("=")]) == len(question):
            one, two = colour[part[0]], colour[part[2]]
            part = (*part[:4], *({one: two, two: one}[c] for c in part[4:]))
        parts.append(" ".join(part))
    return (*" | ".join(parts).split(), "EOS")


def meaning(prompt: Sequence[str]) -> tuple[frozenset[tuple[str, str]], frozenset[tuple[str, int, Tokens]]]:
    """What the support says as a whole: who is which colour, and which argument each function puts where."""
    symbol = {colour: name for name, colour in colours(prompt).items()}
    functions = set()
    for left, right in examples(prompt):
        arguments = (left[0], *left[2:])
        template = tuple("first" if arguments.index(symbol[c]) == 0 else "second" for c in right)
        functions.add((left[1], len(arguments), template))
    return frozenset(colours(prompt).items()), frozenset(functions)
