"""The twenty tokens of the task.

Six colours, nine symbols (each may stand for a primitive or a function, as the episode says), the two marks of the
prompt, and the three tokens that frame a sequence. The order fixes the token ids, and so the weights' meaning: a
checkpoint stores this list and refuses to load under another.
"""

from __future__ import annotations

PAD, SOS, EOS, BAR, EQUALS = "PAD", "SOS", "EOS", "|", "="
COLOURS = ("red", "blue", "green", "yellow", "purple", "pink")
SYMBOLS = ("A", "B", "C", "D", "E", "F", "R", "S", "T")
TOKENS = (PAD, SOS, EOS, BAR, EQUALS, *COLOURS, *SYMBOLS)

ID = {token: index for index, token in enumerate(TOKENS)}
PAD_ID, SOS_ID, EOS_ID = ID[PAD], ID[SOS], ID[EOS]
COLOUR_IDS = tuple(ID[colour] for colour in COLOURS)


def encode(tokens: tuple[str, ...]) -> list[int]:
    return [ID[token] for token in tokens]


def decode(ids: list[int]) -> tuple[str, ...]:
    return tuple(TOKENS[index] for index in ids)


def decode_answer(ids: list[int]) -> tuple[str, ...]:
    """The tokens of a written answer, without the EOS that closes it and what comes after."""
    return decode(ids[: ids.index(EOS_ID)] if EOS_ID in ids else ids)
