"""Ctrl-C in the first seconds, while Python imports: one line and exit code 130, by every way in."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = "import sys\nfrom {module} import {name}\nif __name__ == '__main__':\n    sys.exit({name}())\n"
EARLY = (0.02, 0.06, 0.15, 0.3, 0.7, 1.5)  # seconds; what is imported then depends on the machine


def script(folder: Path) -> Path:
    """The console script, as installers write it."""
    named = re.search(r'^steer = "(?P<module>.+):(?P<name>.+)"$', (ROOT / "pyproject.toml").read_text(), re.M)
    assert named
    (folder / "steer-script").write_text(SCRIPT.format(**named.groupdict()))
    return folder / "steer-script"


def hear_interrupts() -> None:
    """A suite that was started in the background has its interrupts ignored, and so would what it starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def interrupted(command: list[str], folder: Path, delay: float, whole_group: bool = False) -> tuple[int, str]:
    """Exit code and stderr of a command that hears Ctrl-C after so many seconds."""
    process = subprocess.Popen(
        [sys.executable, *command], cwd=folder, env=os.environ | {"PYTHONPATH": str(ROOT)}, start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, preexec_fn=hear_interrupts,
    )  # fmt: skip
    time.sleep(delay)
    (os.killpg if whole_group else os.kill)(process.pid, signal.SIGINT)
    told = process.communicate(timeout=120)[1]
    return process.returncode, told


def is_pythons_own(told: str) -> bool:
    """An interrupt from before our first line ran: Python tells it in its own way, and none of our files is in it."""
    return not any(
        word in told
        for word in ("interrupted", "steer/__main__.py", "steer/commands", "steer/experiments/processes.py")
    )


@pytest.mark.parametrize("way", ["module", "checkout", "script"])
def test_an_interrupt_during_imports_says_so_in_one_line(way: str, tmp_path: Path):
    start = {"module": ["-m", "steer"], "checkout": [str(ROOT / "cli.py")], "script": [str(script(tmp_path))]}[way]
    ends = [interrupted([*start, "eval", "--quiet"], tmp_path, delay) for delay in EARLY]
    ours = [(code, told) for code, told in ends if not is_pythons_own(told)]
    assert ours
    assert set(ours) == {(130, "interrupted\n")}


def test_workers_leave_the_interrupt_to_their_parent(tmp_path: Path):
    """A terminal sends Ctrl-C to all of them, and they import as well."""
    run = ["-m", "steer", "run", "keep_one_k", "swap_index", "--jobs", "2", "--quiet"]
    ends = [interrupted(run, tmp_path, delay, whole_group=True) for delay in (0.8, 1.6, 3.0)]
    ours = [(code, told) for code, told in ends if not is_pythons_own(told)]
    assert ours
    assert set(ours) == {(130, "interrupted\n")}
