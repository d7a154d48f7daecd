"""Where the processor time of a quick look goes: each command in a fresh process, what it imports and what it does.

    python benchmarks/glance.py [--repeat 3]

User and system seconds of the whole process (the best of some), beside what its imports took of them.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
HEAD = "dec-cross-1.4"
COMMANDS = {
    "attend": ["attend", "--head", HEAD, "--episode", "0"],
    "attend --all": ["attend", "--all", "--episode", "0"],
    "ask": ["ask", "--episode", "3"],
    "attribute, one episode": ["attribute", "--episodes", "1"],
    "attribute --head, one episode": ["attribute", "--head", HEAD, "--episodes", "1"],
    "draw": ["draw", "RESULT"],
    "plan": ["plan", "chain_k"],
    "ls": ["ls"],
}
IMPORTED = re.compile(r"import time:\s+(\d+) \|\s+\d+ \|\s+([\w.]+)")


def started(arguments: list[str], folder: Path, *options: str) -> tuple[float, str]:
    """Processor time of one command, and what it says on stderr."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    where = [] if arguments[0] in ("draw", "plan", "ls") else ["--out", str(folder)]
    done = subprocess.run(
        [sys.executable, *options, "-m", "steer", *arguments, *where], cwd=ROOT, capture_output=True, text=True,
        check=False, env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    if done.returncode:
        sys.exit(f"steer {' '.join(arguments)} failed: {done.stderr[-500:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stderr


def imports(text: str) -> Counter[str]:
    """Microseconds by package, as `python -X importtime` tells them (on a busy machine they come out too long)."""
    spent: Counter[str] = Counter()
    for own, module in IMPORTED.findall(text):
        spent[module.split(".")[0]] += int(own)
    return spent


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--repeat", type=int, default=3)
    repeat = asked.parse_args().repeat
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        started(["run", "keep_one_k", "episodes.count=20"], folder)
        result = str(next(folder.glob("keep_one_k-*")))
        for title, command in COMMANDS.items():
            words = [result if word == "RESULT" else word for word in command]
            best = min(started(words, folder)[0] for _ in range(repeat))
            heaviest = imports(started(words, folder, "-X", "importtime")[1]).most_common(5)
            told = ", ".join(f"{package} {micro / 1e6:.2f}" for package, micro in heaviest)
            print(f"{title:32} {best:5.2f} s of processor time; imports: {told}", flush=True)


if __name__ == "__main__":
    main()
