"""A command's way through the house: every function of steer in the order in which it is first entered.

    python benchmarks/walk.py run recipes/swap_index.yaml --force --quiet --out /tmp/walk

Prints how many functions are entered, how often two that follow each other are of different rooms, and how often a
room is come back to; `STEER_WALK=FILE` writes the list. The profiler makes the command several times slower.
"""

from __future__ import annotations

import os
import sys
from itertools import groupby
from pathlib import Path
from types import CodeType, FrameType

import steer
from steer.commands import app

HOUSE = f"{Path(steer.__file__).parent}{os.sep}"
FUNCTION = 2  # the flag of code that is not a class's or a module's body


def entered(arguments: list[str]) -> list[tuple[str, str]]:
    """Room and name of each function."""
    seen: dict[CodeType, None] = {}

    def enter(frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        is_ours = bool(code.co_flags & FUNCTION) and code.co_filename.startswith(HOUSE)
        if event == "call" and is_ours and not code.co_name.startswith("<"):
            seen.setdefault(code)

    sys.setprofile(enter)
    try:
        app(arguments, standalone_mode=False)
    finally:
        sys.setprofile(None)
    return [named(code) for code in seen]


def named(code: CodeType) -> tuple[str, str]:
    place = Path(code.co_filename.removeprefix(HOUSE))
    return place.parts[0], f"{place}: {getattr(code, 'co_qualname', code.co_name)}"


def main() -> None:
    way = entered(sys.argv[1:])
    stays = [room for room, _ in groupby(way, lambda one: one[0])]
    back = sum(room in stays[:number] for number, room in enumerate(stays))
    print(f"{len(way)} functions of {len(set(stays))} rooms, {len(stays) - 1} changes of room, {back} of them back")
    if listing := os.environ.get("STEER_WALK"):
        Path(listing).write_text("".join(f"{room:12}{name}\n" for room, name in way))


if __name__ == "__main__":
    main()
