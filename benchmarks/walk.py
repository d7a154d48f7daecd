"""A command's way through the house: every function of steer in the order in which it is first entered.

    python benchmarks/walk.py run recipes/swap_index.yaml --force --quiet --out /tmp/walk

Prints how many functions are entered, how often two that follow each other are of different rooms, and how often a
room is come back to: of all functions; of those that a reader has to look up; and of these in the rooms that lead from
one stage to the next alone. Nobody looks up helpers of `base`, what a library calls (checks by pydantic, hooks), or a
function of a few lines that calls no other of ours. `STEER_WALK=FILE` writes the list, with a star where a function is
looked up. The profiler makes the command several times slower.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from types import CodeType, FrameType

import steer
from steer.commands import app

HOUSE = f"{Path(steer.__file__).parent}{os.sep}"
FUNCTION = 2  # the flag of code that is not a class's or a module's body
SMALL = 5  # lines of code, the first one among them
LEADING = ("commands", "experiments", "recipe", "engine", "drawing")  # the others are called from these, and return


@dataclass
class Entered:
    """A function, who called it first, and whether it calls another of ours."""

    code: CodeType
    by_library: bool
    calls: bool = False

    @property
    def room(self) -> str:
        return Path(self.code.co_filename.removeprefix(HOUSE)).parts[0]

    @property
    def looked_up(self) -> bool:
        lines = {line for _, _, line in self.code.co_lines() if line}
        is_small_leaf = not self.calls and len(lines) <= SMALL
        return not (self.room == "base" or self.by_library or is_small_leaf)

    def __str__(self) -> str:
        place = self.code.co_filename.removeprefix(HOUSE)
        star = "*" if self.looked_up else " "
        return f"{star} {self.room:12}{place}: {getattr(self.code, 'co_qualname', self.code.co_name)}"


def is_ours(code: CodeType) -> bool:
    return bool(code.co_flags & FUNCTION) and code.co_filename.startswith(HOUSE) and not code.co_name.startswith("<")


def caller(frame: FrameType | None) -> tuple[CodeType | None, bool]:
    """The function of ours that a call comes from, and whether a library stands between them."""
    through = False
    while frame is not None and not is_ours(frame.f_code):
        through = through or not frame.f_code.co_filename.startswith(HOUSE)
        frame = frame.f_back
    return (frame.f_code if frame else None), through


def entered(arguments: list[str]) -> list[Entered]:
    seen: dict[CodeType, Entered] = {}

    def enter(frame: FrameType, event: str, argument: object) -> None:
        if event != "call" or not is_ours(frame.f_code):
            return
        above, through = caller(frame.f_back)
        if above in seen:
            seen[above].calls = True
        if frame.f_code not in seen:
            seen[frame.f_code] = Entered(frame.f_code, through and above is not None)

    sys.setprofile(enter)
    try:
        app(arguments, standalone_mode=False)
    finally:
        sys.setprofile(None)
    return list(seen.values())


def summary(way: Sequence[Entered], which: str) -> str:
    stays = [room for room, _ in groupby(one.room for one in way)]
    back = sum(room in stays[:number] for number, room in enumerate(stays))
    rooms = f"{len(way)} functions of {len(set(stays))} rooms"
    return f"{which:15}{rooms}, {len(stays) - 1} changes of room, {back} of them back"


def main() -> None:
    way = entered(sys.argv[1:])
    looked_up = [one for one in way if one.looked_up]
    print(summary(way, "all"))
    print(summary(looked_up, "looked up"))
    print(summary([one for one in looked_up if one.room in LEADING], "leading rooms"))
    if listing := os.environ.get("STEER_WALK"):
        Path(listing).write_text("".join(f"{one}\n" for one in way))


if __name__ == "__main__":
    main()
