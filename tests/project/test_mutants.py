"""The lists of planted bugs are in step with the code, and the planter tells what is noticed from what is not."""

from __future__ import annotations

from pathlib import Path

import pytest
from mutants.plant import faults, main, read_lists


def test_no_planted_bug_is_stale():
    mutants = read_lists()
    assert mutants
    assert not faults(mutants)
    assert all(mutant.why for mutant in mutants)


PROJECT = {
    "sums.py": "def double(x):\n    return x + x\n\n\ndef triple(x):\n    return 3 * x\n",
    "tests/test_double.py": "from sums import double\n\n\ndef test_double():\n    assert double(2) == 4\n",
    "tests/test_later.py": "from sums import double\n\n\ndef test_later():\n    assert double(3) == 6\n",
    "tests/test_nothing.py": "def helper():\n    return 1\n",
    "bugs/list.yaml": """\
- {id: A, file: sums.py, find: x + x, replace: x * x, why: a square, tests: [test_double.py]}
- {id: B, file: sums.py, find: x + x, replace: x - x, why: nothing}
- {id: C, file: sums.py, find: 3 * x, replace: 4 * x, why: nobody asks}
- {id: I, file: sums.py, find: 3 * x, replace: 4 * x, why: no test was run, tests: [test_nothing.py]}
- {id: D, file: sums.py, find: 5 * x, replace: 4 * x, why: moved}
- {id: E, file: sums.py, find: return, replace: yield, why: which one}
- {id: G, file: sums.py, find: x + x, replace: x - x, why: one test, tests: ['test_double.py::test_double']}
- {id: H, file: sums.py, find: x + x, replace: x - x, why: no such test, tests: ['test_double.py::test_twice']}
""",
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # none is needed, and they take a second each
    monkeypatch.setattr("mutants.plant.LARGE", ())
    for name, text in PROJECT.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_what_is_noticed_what_survives_and_what_is_stale(project: Path, capsys: pytest.CaptureFixture[str]):
    code = main(["--jobs", "2"], project, project / "bugs")
    told = capsys.readouterr().out
    states = {line.split()[5]: line.split()[6:] for line in told.splitlines() if " s  " in line}
    assert states["A"] == ["killed", "tests/test_later.py::test_later"]  # 2 + 2 is 2 * 2: the rest of the suite knows
    assert states["B"] == ["killed", "tests/test_double.py::test_double"]
    assert states["C"] == states["I"] == ["survived"]
    assert states["G"] == ["killed", "tests/test_double.py::test_double"]
    assert [states[name][0] for name in "DEH"] == ["stale"] * 3
    assert "3 of 5 planted bugs noticed (60%), 3 stale" in told
    assert code == 1
    assert (project / "sums.py").read_text() == PROJECT["sums.py"]


def test_one_bug_alone(project: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["--only", "B"], project, project / "bugs") == 0
    assert "1 of 1 planted bugs noticed" in capsys.readouterr().out
    assert main(["--only", "A", "--quick"], project, project / "bugs") == 1
    with pytest.raises(SystemExit):
        main(["--only", "Z"], project, project / "bugs")


def test_a_suite_that_fails_by_itself_says_nothing(project: Path, capsys: pytest.CaptureFixture[str]):
    (project / "tests" / "test_double.py").write_text("def test_no():\n    assert False\n")
    assert main(["--only", "B"], project, project / "bugs") == 1
    assert "fail without any bug: tests/test_double.py::test_no" in capsys.readouterr().err


def test_faults_of_a_list_are_named(project: Path):
    text = "- {id: A, file: sums.py, find: x + x, replace: x + x, why: idle}\n" * 2
    (project / "bugs" / "list.yaml").write_text(text + "- {id: F, file: no.py, find: x, replace: y, why: gone}\n")
    found = faults(read_lists(project / "bugs"), project)
    assert [line.split(":")[0] for line in found] == ["A", "A", "A", "F"]
    assert "twice" in found[0]
