"""The variables that can be changed in an episode, and at which heads, by role, a model can be changed."""

from __future__ import annotations

from collections.abc import Mapping

from steer.tasks.compositional.episode import ARGUMENTS
from steer.tasks.task import Exchange, Handle, Needed

INDEX = "index-in-question"
EXCHANGE = Exchange((1, 3), ARGUMENTS, INDEX, "the arguments of a question of two stand there")
NEEDED = Needed({"arity": 2}, "questions of two arguments: set episodes.arity to 2")
SCANNERS = Handle("counterpart", ("$rhs-scanner:all.z", "$rhs-scanner:block.z"))
HANDLES: Mapping[str, Handle] = {
    INDEX: Handle("positions", ("$question-broadcast:all.v",)),
    "argument": Handle("counterpart", ("$question-broadcast:all.z",)),
    "relative-index": SCANNERS,
    "function": SCANNERS,
}
CARRIERS: Mapping[str, tuple[tuple[str, str], ...]] = {
    INDEX: (("question-broadcast", "z"), ("primitive-pairing", "z"), ("output", "k")),
    "relative-index": (("rhs-scanner", "z"), ("output", "q")),
}
