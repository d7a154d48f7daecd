"""Episode files like those that the authors analyse (`test_data_long`) and those that they train on (MLC's).

In the first, every file has the same four rules of two arguments, under other words and colours. The support and the
questions are drawn independently, so some questions cannot be answered from the support. In the second there are three
functions of one or two arguments, nested and strung together, as in Lake & Baroni (2023).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from steer.base.dice import Dice
from steer.tasks.authors.files import EpisodeFile, Line
from steer.tasks.authors.vocabulary import COLOURS, WORDS
from steer.tasks.compositional.slices import AUTHORS_RULES
from steer.tasks.task import Tokens

SHOWN, ASKED, CALLS = 14, 10, 10  # items of a support, questions, demonstrations where all primitives are listed
LONGEST, LEAST, STOP = 8, 2, 60  # tokens; of a right side, at least; per cent


@dataclass(frozen=True)
class Rule:
    """`u1 lug x1` -> `[x1] [u1]`: u stands for one word, x for any string."""

    left: Tokens
    right: Tokens

    def apply(self, words: Tokens) -> dict[str, Tokens] | None:
        """What each variable stands for; None if the words do not have the form of the left side."""
        match = re.fullmatch(" ".join(map(_pattern, self.left)), " ".join(words))
        return None if match is None else {f"[{name}]": tuple(text.split()) for name, text in match.groupdict().items()}


def _pattern(word: str) -> str:
    return rf"(?P<{word}>{'.+' if word[0] == 'x' else '[^ ]+'})" if word[-1].isdigit() else word


def interpret(words: Tokens, rules: Sequence[Rule], left: list[int] | None = None) -> Tokens | None:
    """The meaning of a string: by the first rule that matches, with its variables interpreted in turn; None without."""
    left = [50] if left is None else left  # rules applied in all, at most
    for rule in rules:
        bound = rule.apply(words)
        if bound is None:
            continue
        left[0] -= 1
        if left[0] < 0:
            return None
        parts = [(token,) if token in COLOURS else interpret(bound[token], rules, left) for token in rule.right]
        whole = [part for part in parts if part is not None]
        return tuple(token for part in whole for token in part) if len(whole) == len(parts) else None
    return None


def draw_long(dice: Dice) -> EpisodeFile:
    """Four primitives, all listed; ten calls of four functions; ten questions drawn apart from them."""
    words, colours = dice.shuffled(WORDS), dice.shuffled(COLOURS)
    rules = [Rule((word,), (colour,)) for word, colour in zip(words[:4], colours, strict=False)]
    for word, digits in zip(words[4:8], AUTHORS_RULES, strict=True):
        rules.append(Rule(("u1", word, "u2"), tuple(f"[u{digit}]" for digit in digits)))
    calls = [(one, word, two) for word, one, two in product(words[4:8], words[:4], words[:4])]
    primitives = [(word,) for word in words[:4]]
    shown = dice.shuffled([*primitives, *dice.sample(calls, CALLS)])
    return _file(shown, dice.sample(calls, ASKED), rules)


def _file(shown: Sequence[Tokens], questions: Sequence[Tokens], rules: Sequence[Rule]) -> EpisodeFile:
    def answered(words: Tokens) -> Line:
        return words, interpret(words, rules) or ()

    return EpisodeFile(
        tuple(map(answered, shown)), tuple(map(answered, questions)), tuple((rule.left, rule.right) for rule in rules)
    )


def draw_mlc(dice: Dice) -> EpisodeFile:
    """Four primitives, three functions, and strings of all of them."""
    words, colours = dice.shuffled(WORDS), dice.shuffled(COLOURS)
    rules = [Rule((word,), (colour,)) for word, colour in zip(words[:4], colours, strict=False)]
    rules += [_function(word, dice) for word in words[4:7]]
    rules.append(Rule(("u1", "x1"), ("[u1]", "[x1]")))
    strings: list[Tokens] = []
    while len(strings) < SHOWN + ASKED:
        string = _string(words[:4], rules[4:], dice)
        meaning = interpret(string, rules) if len(string) <= LONGEST else None
        if meaning and len(meaning) <= LONGEST and string not in strings:
            strings.append(string)
    strings = dice.shuffled(strings)  # short ones are found first
    return _file(strings[:SHOWN], strings[SHOWN:], rules)


def _function(word: str, dice: Dice) -> Rule:
    single, double = ["u1", "u2"], ["x1", "x2"]
    variables = [dice.choice((single, double)).pop(0) for _ in range(dice.between((1, 2)))]
    right = list(variables)
    while len(right) < LONGEST and (len(right) < LEAST or dice.below(100) >= STOP):
        right.append(dice.choice(variables))
    return Rule((variables[0], word, *variables[1:]), tuple(f"[{name}]" for name in dice.shuffled(right)))


def _string(primitives: Sequence[str], rules: Sequence[Rule], dice: Dice) -> Tokens:
    """A primitive or a left side, with equal chances; strings in it are drawn in the same way, words are primitives."""
    number = dice.below(1 + len(rules))
    if number == 0:
        return (dice.choice(primitives),)
    string: Tokens = ()
    for part in rules[number - 1].left:
        if len(string) > LONGEST:  # too long already: the caller will draw again
            return string
        if part[-1].isdigit():
            string += _string(primitives, rules, dice) if part[0] == "x" else (dice.choice(primitives),)
        else:
            string += (part,)
    return string
