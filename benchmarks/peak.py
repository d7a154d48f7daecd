"""The most memory that a program held, and it alone."""

from __future__ import annotations

import resource
from pathlib import Path


def peak_kilobytes() -> int:
    """`ru_maxrss` would count the program that started this one as well: a child begins as its copy."""
    status = Path("/proc/self/status")
    if status.is_file():
        return int(status.read_text().partition("VmHWM:")[2].split()[0])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
