"""The documents: their examples run, their commands exist, their links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from steer.commands import app

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for example in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL):
        exec(compile(example, str(page), "exec"), names)


def test_there_are_python_examples():
    assert sum("```python" in page.read_text() for page in PAGES) >= 3


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path):
    for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_named_exist(page: Path):
    known = {command.name or command.callback.__name__ for command in app.registered_commands}
    for name in re.findall(r"(?:^|`)steer ([a-z]+)", page.read_text(), re.MULTILINE):
        assert name in known, name


def test_every_command_is_in_the_readme():
    text = (ROOT / "README.md").read_text()
    for command in app.registered_commands:
        assert f"steer {command.name or command.callback.__name__}" in text
