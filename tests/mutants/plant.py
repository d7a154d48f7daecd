"""Do the tests notice? Bugs planted one at a time in a copy of the project, and the suite run on each.

The bugs stand in the YAML files beside this one: wrong changes that a careless refactoring could make, none of which
crashes. `find` must occur exactly once in its file, else the entry is stale: the code has moved on and the list has
not. The tests that should notice, files or single tests of theirs (`file.py::test`), run first, the rest of the suite
only if they pass. A bug that no test notices is a survivor, and the semantics that it breaks wants a test: of the
semantics, not of the line.

    python tests/mutants/plant.py [--only ID]... [--jobs N] [--quick]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

import yaml

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
ENOUGH = 0.95  # of the planted bugs must be noticed
PATIENCE = 1_800  # seconds for one bug; a suite that hangs has noticed it
LEFT_BEHIND = shutil.ignore_patterns(".*", "__pycache__")
LEFT_AT_THE_TOP = ("results", "runs", "build", "dist")  # `steer/results` is code
NO_TESTS = 5  # pytest's exit code where none was run: nobody has noticed
EARLY = "ignore::pytest.PytestAssertRewriteWarning"  # of plugins that a large library has loaded
PYTEST = ("-x", "-p", "no:cacheprovider", "-W", EARLY)
LARGE = ("torch", "transformers", "scipy.stats", "sklearn.linear_model", "seaborn", "jsonschema")
ALONE = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}  # a core for each copy, and nothing is fetched


def left_behind(root: Path, at: str, names: list[str]) -> set[str]:
    """What is not copied of a folder."""
    found = LEFT_BEHIND(at, names)
    return found | {*LEFT_AT_THE_TOP} if Path(at) == root else found


@dataclass(frozen=True)
class Mutant:
    """One wrong change, and the tests that should notice it."""

    id: str
    file: str
    find: str
    replace: str
    why: str
    tests: tuple[str, ...] = ()

    def fault(self, root: Path) -> str | None:
        """Why it cannot be planted, if it cannot."""
        path = root / self.file
        if not path.is_file():
            return f"{self.file} is not there"
        missing = [name for name in self.tests if not _is_there(root / "tests", name)]
        if missing:
            return f"tests/{missing[0]} is not there"
        count = path.read_text().count(self.find)
        return None if count == 1 else f"`find` occurs {count} times in {self.file}"


def _is_there(tests: Path, name: str) -> bool:
    file, _, test = name.partition("::")
    path = tests / file
    return path.is_file() and (not test or f"\ndef {test}(" in path.read_text())


@dataclass(frozen=True)
class Verdict:
    mutant: Mutant
    state: str  # killed, survived, stale
    told: str = ""


def read_lists(folder: Path = HERE) -> list[Mutant]:
    found = []
    for path in sorted(folder.glob("*.yaml")):
        for entry in yaml.safe_load(path.read_text()):
            found.append(Mutant(**entry | {"tests": tuple(entry.get("tests", ()))}))
    return found


def faults(mutants: Sequence[Mutant], root: Path = ROOT) -> list[str]:
    """What is wrong with the lists themselves."""
    twice = [f"{name}: the id stands there twice" for name, n in Counter(m.id for m in mutants).items() if n > 1]
    idle = [f"{m.id}: changes nothing" for m in mutants if m.find == m.replace]
    stale = [f"{m.id}: {fault}" for m in mutants if (fault := m.fault(root))]
    return [*twice, *idle, *stale]


class Field:
    """A copy of the project in which one bug at a time is planted and taken out again."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.root, self.writings = folder, 0
        shutil.copytree(root, folder, ignore=lambda at, names: left_behind(root, at, names))
        self.warm = self._start()

    def _start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, HERE / "warm.py", *LARGE], cwd=self.root, env=os.environ | ALONE, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip

    def close(self) -> None:
        """End what runs the tests, and all that it started."""
        os.killpg(self.warm.pid, signal.SIGKILL)
        self.warm.communicate()

    def write(self, path: Path, text: str) -> None:
        """Bytecode is told from its source by size and second: every writing gets a second of its own."""
        self.writings += 1
        path.write_text(text)
        os.utime(path, (self.writings, self.writings))

    def notice(self, tests: Sequence[str]) -> str | None:
        """The first test that fails, or None."""
        assert self.warm.stdin is not None
        assert self.warm.stdout is not None
        self.warm.stdin.write(json.dumps([*PYTEST, *(f"tests/{name}" for name in tests)]) + "\n")
        self.warm.stdin.flush()
        if not select.select([self.warm.stdout], [], [], PATIENCE)[0]:
            self.close()
            self.warm = self._start()
            return "no end"
        code, told = json.loads(self.warm.stdout.readline())
        if code in (0, NO_TESTS):
            return None
        named = re.search(r"^(?:FAILED|ERROR) (\S+)", told, re.MULTILINE)
        return named[1] if named else told.strip().splitlines()[-1]

    def try_out(self, mutant: Mutant, quick: bool) -> Verdict:
        if fault := mutant.fault(self.root):
            return Verdict(mutant, "stale", fault)
        path = self.root / mutant.file
        text = path.read_text()
        self.write(path, text.replace(mutant.find, mutant.replace))
        try:
            noticed = self.notice(mutant.tests) if mutant.tests else None
            if noticed is None and not (quick and mutant.tests):
                noticed = self.notice(())
        finally:
            self.write(path, text)
        return Verdict(mutant, "killed" if noticed else "survived", noticed or "")


def plant(mutants: Sequence[Mutant], root: Path, jobs: int = 1, quick: bool = False) -> Iterator[Verdict]:
    """Each bug's fate, as it becomes known."""
    with copies(root, jobs) as made:
        fields: SimpleQueue[Field] = SimpleQueue()
        for field in made:
            fields.put(field)

        def one(mutant: Mutant) -> Verdict:
            field = fields.get()
            try:
                return field.try_out(mutant, quick)
            finally:
                fields.put(field)

        with ThreadPoolExecutor(jobs) as pool:
            for done in as_completed([pool.submit(one, mutant) for mutant in mutants]):
                yield done.result()


@contextmanager
def copies(root: Path, count: int) -> Iterator[list[Field]]:
    fields: list[Field] = []
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        try:
            fields += (Field(root, Path(folder) / str(number)) for number in range(count))
            yield fields
        finally:
            for field in fields:
                field.close()


def sound(mutants: Sequence[Mutant], root: Path) -> str | None:
    """What fails without any bug: then a failure says nothing about the planted ones."""
    named = tuple(dict.fromkeys(name for mutant in mutants for name in mutant.tests))
    with copies(root, 1) as (field,):
        return field.notice(named)


def main(arguments: Sequence[str] | None = None, root: Path = ROOT, folder: Path = HERE) -> int:
    parser = argparse.ArgumentParser(description="Plant bugs in a copy of the project; report which the tests notice.")
    parser.add_argument("--only", action="append", metavar="ID", help="this one alone; may be given again")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="so many copies at a time")
    parser.add_argument("--quick", action="store_true", help="run only the tests that should notice, not the rest")
    asked = parser.parse_args(arguments)
    mutants = read_lists(folder)
    known = {mutant.id for mutant in mutants}
    if strangers := sorted(set(asked.only or ()) - known):
        parser.error(f"no bug named {', '.join(strangers)}")
    mutants = [mutant for mutant in mutants if not asked.only or mutant.id in asked.only]
    if broken := sound([mutant for mutant in mutants if not mutant.fault(root)], root):
        print(f"the tests fail without any bug: {broken}", file=sys.stderr)
        return 1
    return report(mutants, plant(mutants, root, asked.jobs, asked.quick))


def report(mutants: Sequence[Mutant], verdicts: Iterator[Verdict]) -> int:
    started, found = time.monotonic(), []
    for number, verdict in enumerate(verdicts, 1):
        found.append(verdict)
        seconds = time.monotonic() - started
        told = f"{verdict.mutant.id:8}{verdict.state:10}{verdict.told}"
        print(f"{number:>4} of {len(mutants)}  {seconds:>6.0f} s  {told}", flush=True)
    states = Counter(verdict.state for verdict in found)
    planted = states["killed"] + states["survived"]
    share = states["killed"] / planted if planted else 0.0
    print(f"\n{states['killed']} of {planted} planted bugs noticed ({share:.0%}), {states['stale']} stale")
    for verdict in found:
        if verdict.state != "killed":
            print(f"  {verdict.state}: {verdict.mutant.id}: {verdict.mutant.why} {verdict.told}")
    return int(share < ENOUGH or states["stale"] > 0)


if __name__ == "__main__":
    sys.exit(main())
