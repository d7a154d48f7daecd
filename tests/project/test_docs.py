"""The documents: their examples run, their commands exist, their links lead somewhere."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from steer.base.shipped import DEFAULT
from steer.commands import app
from steer.experiments.many import split_changes
from steer.recipe.load import gather, load_recipe

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


EXAMPLES = {page: re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL) for page in PAGES}


@pytest.mark.parametrize("page", [page for page in PAGES if EXAMPLES[page]], ids=lambda page: page.name)
def test_python_examples_print_what_they_say(page: Path, tmp_path: Path, monkeypatch, capsys):
    """Each prints something; where a comment beside a print tells what, it is that."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for example in EXAMPLES[page]:
        exec(compile(example, str(page), "exec"), names)
        printed = capsys.readouterr().out
        assert printed.strip()
        for told in re.findall(r"^print\(.*\)  # (.*)$", example, re.MULTILINE):
            assert told in printed.splitlines()


def test_python_examples_are_found():
    """What is written in a code block of Python is what the test above runs."""
    shown = sum(page.read_text().count("import steer") + page.read_text().count("from steer") for page in PAGES)
    run = sum(
        example.count("import steer") + example.count("from steer") for some in EXAMPLES.values() for example in some
    )
    assert run == shown >= 3


def links(page: Path) -> list[str]:
    """What a page links to that is a file of the project."""
    return [target for target in re.findall(r"\]\(([^)#]+)", page.read_text()) if not target.startswith("http")]


def commands(page: Path) -> list[str]:
    return re.findall(r"(?:^|`)steer ([a-z]+)", page.read_text(), re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path):
    assert not [target for target in links(page) if not (page.parent / target).exists()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_named_exist(page: Path):
    known = {command.name or command.callback.__name__ for command in app.registered_commands}
    assert not set(commands(page)) - known


def test_links_and_commands_are_found():
    """The two tests above look at something: README links every page, and names a command in every row of a table."""
    readme = PAGES[0]
    assert {f"docs/{page.name}" for page in PAGES[1:]} <= {*links(readme)}
    assert len({*commands(readme)}) > 10


YOURS = ("…", "mine.yaml", "my-model", "mine.jsonl")  # what only the reader has


def runs(text: str) -> list[list[str]]:
    """The words of every `steer run …` of a page, but for those that leave something out or take a reader's file."""
    said = [" ".join(code.split()) for code in re.findall(r"`(steer run [^`]+)`", text)]
    blocks = "\n".join(re.findall(r"```\w*\n(.*?)```", text, re.DOTALL))
    said += re.findall(r"^(steer run .*)$", blocks, re.MULTILINE)
    whole = [one.replace("NAME", DEFAULT) for one in said if not any(yours in one for yours in YOURS)]
    return [shlex.split(one, comments=True)[2:] for one in whole]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_recipes_that_are_shown_can_run(page: Path):
    """On the checkpoint that the page speaks of."""
    for words in runs(page.read_text()):
        names, changes = split_changes(words)
        paths, missing = gather([str(ROOT / name) if name.endswith(".yaml") else name for name in names])
        assert not missing, words
        for path in paths:
            loaded = load_recipe(str(path), *changes)
            loaded.lower(loaded.names())


def test_recipes_that_are_shown_are_found():
    found = {" ".join(words) for page in PAGES for words in runs(page.read_text())}
    assert "ablate_decoder_mlps checkpoint=deep" in found
    assert len(found) > 20


def test_the_recipe_in_the_readme_is_the_one_that_is_shipped():
    (shown,) = re.findall(r"```yaml\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert (ROOT / "recipes/chain_k.yaml").read_text().endswith(shown)


def test_every_command_is_in_the_readme():
    text = (ROOT / "README.md").read_text()
    assert app.registered_commands
    for command in app.registered_commands:
        assert f"steer {command.name or command.callback.__name__}" in text
