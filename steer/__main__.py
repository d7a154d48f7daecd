"""The entry point of `python -m steer` and of the console script. Ctrl-C is handled from the first line on.

The commands take a while to import, and torch takes longer. An exception raised during an import may turn into another
one, or get lost and leave a half-loaded module. So an interrupt during an import ends the process at once.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # as in `typing`, which takes longer to import than all of this file
if TYPE_CHECKING:
    from types import FrameType
    from typing import NoReturn


def main() -> None:
    try:
        import signal

        open_streams()
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not when it is ignored, as under nohup
            signal.signal(signal.SIGINT, interrupt)
        import atexit
        import gc

        atexit.register(gc.freeze)  # what is left then goes with the process: to walk through all of torch takes long
        from steer.commands import app

        app(prog_name="steer")
    except KeyboardInterrupt:  # before a command started; later the command itself says what is kept
        leave()


def open_streams() -> None:
    """Where the caller has closed output or errors (`>&-`), Python has no stream at all, and libraries fail on that."""
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115, PTH123  (no pathlib here)
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115, PTH123


def interrupt(number: int, frame: FrameType | None) -> None:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            leave()
        frame = frame.f_back
    raise KeyboardInterrupt


def leave() -> NoReturn:
    """Exit as `steer.commands` does after an interrupt, but without Python's own clean-up."""
    try:  # no contextlib: it may be what is being imported
        sys.stdout.flush()
    except (OSError, ValueError):
        open_streams()
    os.write(2, b"interrupted\n")
    os._exit(130)


if __name__ == "__main__":
    main()
