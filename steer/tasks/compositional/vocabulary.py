"""The twenty tokens of the task.

Six colours, nine symbols (each may stand for a primitive or a function, as the episode says), the two marks of the
prompt, and the three tokens that frame a sequence. A model that is trained from now on has them in this order; a
checkpoint's own record says which token each of its ids is.
"""

from __future__ import annotations

PAD, SOS, EOS, BAR, EQUALS = "PAD", "SOS", "EOS", "|", "="
COLOURS = ("red", "blue", "green", "yellow", "purple", "pink")
SYMBOLS = ("A", "B", "C", "D", "E", "F", "R", "S", "T")
TOKENS = (PAD, SOS, EOS, BAR, EQUALS, *COLOURS, *SYMBOLS)
