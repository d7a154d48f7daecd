"""Logging for maintainers: `steer --debug …`, or the logger "steer" from Python.

The switch is an environment variable, so that the processes of `--jobs` follow it.
"""

from __future__ import annotations

import logging
import os
import traceback

LOG = logging.getLogger("steer")
SWITCH = "STEER_DEBUG"
BUG = "this is a bug in steer, not a fault of the input: please report it with the lines above"


def is_debugging() -> bool:
    return os.environ.get(SWITCH) == "1"


def start_debugging() -> None:
    os.environ[SWITCH] = "1"
    follow_debugging()


def follow_debugging() -> None:
    """Log to the terminal if this process, or the one that started it, has the switch on."""
    if is_debugging() and not LOG.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(relativeCreated)7d ms  %(module)s: %(message)s"))
        LOG.addHandler(handler)
        LOG.setLevel(logging.DEBUG)
        LOG.propagate = False


def traceback_of(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)).rstrip()
