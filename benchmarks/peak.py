"""The most memory that a program held, and it alone.

    python benchmarks/peak.py discover -c deep --force --quiet --out /tmp/peak

Runs a command of steer in this very process and prints its peak: in all, and beyond what it takes to load PyTorch and
nnsight. That is what `--memory` bounds (4G unless it is given), the weights and what is read of files apart.
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path


def peak_kilobytes() -> int:
    """`ru_maxrss` would count the program that started this one as well: a child begins as its copy."""
    status = Path("/proc/self/status")
    if status.is_file():
        return int(status.read_text().partition("VmHWM:")[2].split()[0])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main(arguments: list[str]) -> None:
    from steer.commands import app
    from steer.engine.backends import local  # noqa: F401  PyTorch and nnsight

    loaded = peak_kilobytes()
    app(arguments, standalone_mode=False)
    peak = peak_kilobytes()
    print(f"peak {peak / 2**20:.2f} GiB, {(peak - loaded) / 2**20:.2f} GiB beyond what is loaded")


if __name__ == "__main__":
    main(sys.argv[1:])
