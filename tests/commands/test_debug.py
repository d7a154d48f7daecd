"""`--debug`, and how a bug of ours looks: with its traceback, never like a fault of the input."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from typer.testing import CliRunner

from steer.base.log import LOG, SWITCH, is_debugging
from steer.commands import app

QUICK = (
    "clean_tiny.yaml",
    "kind: clean\ncheckpoint: tiny\nepisodes: {count: 4}\nmeasures: [{name: exact-match}]\nfigure: none\n",
)


@pytest.fixture(autouse=True)
def nobody_is_debugging(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(SWITCH, "0")
    yield
    LOG.handlers.clear()
    LOG.setLevel(logging.NOTSET)
    LOG.propagate = True


@pytest.fixture
def recipe(tmp_path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / QUICK[0]).write_text(QUICK[1])
    return QUICK[0]


@pytest.mark.parametrize("command", ["plan", "run"])
def test_a_fault_of_the_input_has_a_traceback_only_with_debug(recipe: str, command: str):
    plain = CliRunner().invoke(app, [command, "nosuch"])
    shown = CliRunner().invoke(app, ["--debug", command, "nosuch"])
    assert plain.exit_code == shown.exit_code == 2
    assert "Traceback" not in plain.stderr
    assert "Traceback" in shown.stderr
    assert shown.stderr.endswith(plain.stderr)


def test_an_internal_error_has_its_traceback_and_says_whose_it_is(recipe: str, monkeypatch: pytest.MonkeyPatch):
    def broken(*arguments: object) -> None:
        raise KeyError("planted")

    monkeypatch.setattr("steer.experiments.one.run_experiment", broken)
    done = CliRunner().invoke(app, ["run", recipe])
    assert done.exit_code == 2
    assert "in broken" in done.stderr
    assert "KeyError: 'planted' (this is a bug in steer, not a fault of the input" in done.stderr


def test_debug_logs_what_is_done_and_quiet_is_the_default(recipe: str, caplog: pytest.LogCaptureFixture):
    done = CliRunner().invoke(app, ["run", recipe])
    assert (done.exit_code, done.stderr) == (0, "")
    LOG.propagate = True
    with caplog.at_level(logging.DEBUG, "steer"):
        assert CliRunner().invoke(app, ["run", recipe, "--force"]).exit_code == 0
    said = caplog.text
    assert "4 examples in 1 batches" in said
    assert "to be computed" in said
    assert not is_debugging()
