"""A pytest that is ready: the large libraries are loaded once, and each run is a fork that has them already.

Its arguments are the libraries. A line of stdin is a JSON list of pytest's arguments, a line of stdout its exit code
and what it printed. nnsight cannot be among the libraries: the project loads it in its own way.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path


def run(arguments: Sequence[str]) -> tuple[int, str]:
    import pytest

    with tempfile.TemporaryFile("w+") as report:
        child = os.fork()
        if child == 0:
            os.dup2(report.fileno(), 1)
            os.dup2(report.fileno(), 2)
            code = pytest.main(list(arguments))
            sys.stdout.flush()
            os._exit(int(code))
        _, status = os.waitpid(child, 0)
        report.seek(0)
        return os.waitstatus_to_exitcode(status), report.read()


def main() -> None:
    sys.path[0] = str(Path.cwd())  # as `python -m pytest` has it, instead of this file's folder
    for name in sys.argv[1:]:
        import_module(name)
    gc.freeze()  # a fork need not look through all that was loaded, and copy it by looking
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
