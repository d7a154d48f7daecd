"""The nineteen tokens of the authors' prompts.

Answers are made of the first nine alone: the authors' decoder knows no other. Their separator is the token that starts
an answer, `SOS`.
"""

from __future__ import annotations

from steer.tasks.compositional.vocabulary import BAR, EOS, EQUALS, PAD, SOS

__all__ = ["COLOURS", "EOS", "IO", "MARKS", "SOS", "TOKENS", "WORDS"]
COLOURS = ("RED", "YELLOW", "GREEN", "BLUE", "PURPLE", "PINK")
WORDS = ("dax", "lug", "wif", "zup", "fep", "blicket", "kiki", "tufa", "gazzer")
IO = "IO"
TOKENS = (PAD, SOS, EOS, *COLOURS, IO, *WORDS)
MARKS = {BAR: SOS, EQUALS: IO}  # as people read them -> as the authors' prompts have them
