"""Every command with odd arguments: an answer and an exit code, never a traceback.

The heavy work is stubbed out: what is tried is everything before it. The draws are the same each time; to try more,
raise `max_examples` and leave `derandomize` out.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from steer.base.errors import SteerError
from steer.commands import app

WORK = (  # what takes long, once its arguments have been found good
    "steer.experiments.one.run_experiment", "steer.paper.reproduce.reproduce",
    "steer.discover.keep.find_circuit", "steer.discover.keep.find_on_prompts", "steer.experiments.ask.ask",
    "steer.experiments.accuracy.accuracy", "steer.experiments.accuracy.strict",
    "steer.experiments.attend.attention_pattern",
    "steer.experiments.component.component_page",
    "steer.models.training.loop.Trainer",
)  # fmt: skip
COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]
RECIPE = "kind: clean\ncheckpoint: tiny\nepisodes: {count: 2}\nmeasures: [{name: exact-match}]\n"
FILES = {
    "good.yaml": RECIPE, "empty.yaml": "", "list.yaml": "[1, 2]", "deep.yaml": "[" * 200, "self.yaml": "a: &a [*a]",
    "signs.yaml": RECIPE + 'description: "\\0 \\ud800"', "digits.yaml": RECIPE + "seed: " + "9" * 5_000,
    "deep.json": "[" * 100_000, "digits.json": "9" * 5_000, "inf.json": '{"rows": Infinity}', "null.json": "null",
    "rows.json": '{"rows": [1], "recipe": {}}', "foreign.json": '{"rows": [{}], "recipe": {"figure": "bars"}}',
    "recipe.json": '{"rows": [], "recipe": []}', "details.json": '{"rows": [], "details": 3, "recipe": {}}',
    "broken/checkpoint.json": "{", "huge/checkpoint.json": '{"config": {"encoder_layers": 1000000000}, "seed": 1e999}',
    "deep/checkpoint.json": "[" * 100_000, "roles/circuit.yaml": "roles: [", "folder/inside.txt": "",
}  # fmt: skip
ODD = [
    "", " ", "-", "--", "---", "\0", "\udcff", "\ud800x", "é→", "x" * 5_000, "x/" * 2_000, "..", "nosuch",
    "nosuch/x", "/dev/null", "/dev/null/x", "/dev/zero", "pipe", "dangling", "loop", *FILES, "folder", "roles",
    "broken", "huge", "deep", "=", "a=", "=a", "a.b.c=1", "kind=", "kind=clean", "checkpoint=tiny",
    "checkpoint=huge", "checkpoint=[1]", "seed=-1", "seed=0x" + "f" * 4_000, "seed=" + "9" * 5_000,
    "episodes.count=1e999", "episodes=3", "measures.0=1", "measures.²=1", "measures.99999999999999999999.heads=x",
    "measures.-1.name=x", 'description="\\0"', "description=&a [*a]", "description=2020-13-45", "target={a: b}",
    "tensors=[[[]]]", "figure=scatter", "stages.0.epochs=.nan", "model.heads=1e9", "0", "-1", "1", "١", "²", "inf",
    "nan", "1e999", "99999999999999999999999", "3.5", "0x10", "None", "true", "tiny", "presets/tiny", "keep_one_k",
    "paper/accuracy", "seed1x", "cpu", "cuda:99", "meta", "float16", "test", "train", "dec-cross-0.1", "dec-mlp-0",
    "enc-self-[", "*", "$", "$output", "$output:all", "$x:y", "dec-cross-0.1.k", "logits", "bars", "patterns",
    "relative-index", "function", "A", "B S A | A = red | B = blue | A S B = blue red", "A | A = red", "|",
]  # fmt: skip
WORDS = st.one_of(st.sampled_from(ODD), st.sampled_from(ODD), st.text(max_size=8).filter(lambda t: "/" not in t))


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder of odd files to work in, with nothing behind the commands that takes long."""
    folder = tmp_path_factory.mktemp("fuzz")
    for name, text in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    os.mkfifo(folder / "pipe")
    (folder / "dangling").symlink_to("nowhere")
    (folder / "loop").symlink_to("loop")

    def stop(*given: object, **named: object) -> None:
        raise SteerError("stopped before the work")

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name in WORK:
            patch.setattr(name, stop)
        for name in ("steer.models.plain.family.read_circuit", "steer.models.checkpoint.read_circuit"):
            patch.setattr(name, lambda *given: None)  # long files, read again and again
        yield folder


@st.composite
def calls(draw: st.DrawFn) -> list[str]:
    name = draw(st.sampled_from(sorted(COMMANDS)))
    options = [param for param in COMMANDS[name].params if param.opts[0].startswith("-") and param.name != "help"]
    places = [param for param in COMMANDS[name].params if param not in options and param.name != "help"]
    most = sum(3 if place.nargs < 0 else 1 for place in places)
    words = [name, *draw(st.lists(WORDS, min_size=min(most, 1), max_size=most))]
    for option in draw(st.lists(st.sampled_from(options), max_size=3)) if options else []:
        values = [] if option.is_flag else [draw(WORDS) for _ in range(option.nargs)]
        words += [draw(st.sampled_from(option.opts)), *values]
    return words


def answered(arguments: list[str]) -> None:
    done = CliRunner().invoke(app, arguments)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise AssertionError(arguments) from done.exception
    assert done.exit_code in ((0, 1, 2) if arguments[0] == "run" else (0, 2)), (arguments, done.output)
    assert done.exit_code == 0 or done.stderr.strip(), arguments
    for word in (
        "Traceback",
        "[Errno",
        "this is a bug in steer",
        "maximum recursion",
        "object has no",
    ):  # Python's words, not ours
        assert word not in done.output, (arguments, done.output)
    assert len(done.stderr) < 40_000, arguments


@settings(max_examples=250, deadline=None, derandomize=True, database=None)
@given(arguments=calls())
def test_odd_arguments_are_answered(workshop: Path, arguments: list[str]):
    answered(arguments)


ROW = {
    "condition": "clean", "measure": "exact-match", "of": "", "against": "answer", "decoding": "forced",
    "position": None, "value": 0.5, "low": 0.4, "high": 0.6, "counted": 3, "examples": 3, "unit": "share", "end": "",
}  # fmt: skip
PATTERN = {
    "head": "dec-cross-0.1", "condition": "clean", "roles": [], "queries": ["a"], "keys": ["b", "c"],
    "weights": [[0.2, 0.8]], "prompt": "A | A = red", "answer": ["red"], "kind": "pattern",
}  # fmt: skip
GOOD = {
    "format": 2, "name": "a", "description": "", "figures": ["bars", "patterns"], "checkpoint": {"name": "m"},
    "examples": 3, "wanted": 3, "rows": [ROW], "details": [PATTERN],
}  # fmt: skip
VALUES = st.sampled_from(
    [None, "", "x", "\0", "\ud800", "x\n" * 99, -1, 1e308, float("nan"), 10**30, [], {}, [[]], True]
)


def places(told: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inside = told.items() if isinstance(told, dict) else enumerate(told) if isinstance(told, list) else ()
    return [path, *(place for key, value in inside for place in places(value, (*path, key)))]


def changed(told: Any, path: tuple[Any, ...], value: Any) -> Any:
    """The same with another value at one place."""
    if not path:
        return value
    copy = dict(told) if isinstance(told, dict) else list(told)
    copy[path[0]] = changed(told[path[0]], path[1:], value)
    return copy


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(path=st.sampled_from(places(GOOD)), value=VALUES)
def test_a_result_with_one_odd_value_is_drawn_or_refused(workshop: Path, path: tuple[Any, ...], value: Any):
    folder = workshop / "drawn"
    folder.mkdir(exist_ok=True)
    (folder / "result.json").write_text(json.dumps(changed(GOOD, path, value)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("steer.drawing.figures.theme.FORMATS", ("svg",))
        answered(["draw", str(folder)])


def test_what_is_drawn_from_is_good_otherwise(workshop: Path):
    (workshop / "drawn").mkdir(exist_ok=True)
    (workshop / "drawn" / "result.json").write_text(json.dumps(GOOD))
    assert CliRunner().invoke(app, ["draw", str(workshop / "drawn")]).exit_code == 0
