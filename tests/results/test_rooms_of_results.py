"""The laws of the rooms results, drawing and paper."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ABOVE = {
    "results": {"base", "anatomy"},
    "drawing": {"base", "anatomy", "results", "tasks"},
}
HEAVY = ("torch", "nnsight", "matplotlib", "seaborn")


def imported(path: Path) -> Iterator[str]:
    """Every module that a file imports, at its top or inside a function."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


@pytest.mark.parametrize("room", ABOVE)
def test_a_room_imports_only_rooms_above_it(room: str):
    files = sorted((ROOT / "steer" / room).rglob("*.py"))
    assert len(files) > 5
    for path in files:
        rooms = {name.split(".")[1] for name in imported(path) if name.startswith("steer.")}
        assert rooms <= ABOVE[room] | {room}, path


def test_only_figures_import_matplotlib():
    def draws(path: Path) -> bool:
        return not {name.split(".")[0] for name in imported(path)}.isdisjoint({"matplotlib", "seaborn"})

    assert {path.parent.name for path in (ROOT / "steer").rglob("*.py") if draws(path)} == {"figures"}


@pytest.mark.parametrize(
    "module", ["results.files", "results.circuit", "results.tally", "drawing.tables", "drawing.page"]
)
def test_these_load_without_torch_and_without_pictures(module: str):
    code = f"import sys, steer.{module}; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_page_escapes_what_it_is_given(tmp_path: Path):
    from steer.drawing.page import Line, Page, Section, page_text

    lines, sections = [Line("same", ("<i>", "a & b"))], [Section("<s>", faults=["<b>no</b>"])]
    text = page_text(Page("<t>", "<n>", "<l>", ("x", "<c>"), lines, sections))
    assert not any(sign in text for sign in ("<t>", "<n>", "<l>", "<c>", "<i>", "<s>", "<b>no"))
    assert all(f"&lt;{sign}&gt;" in text for sign in "tnlcis")
    assert "a &amp; b" in text
