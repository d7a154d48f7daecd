"""Pictures: no text makes them unreadable, and one that fails loses no number."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
from made import made_result, made_row
from matplotlib.axes import Axes

from steer.drawing.figures.draw import DRAWN
from steer.drawing.figures.pattern import fill_pattern
from steer.drawing.figures.theme import new_figure, theme
from steer.drawing.look import FORMATS
from steer.recipe.load import Loaded
from steer.results.details import Pattern
from steer.results.files import read_result
from steer.results.provenance import Weights
from steer.results.result import Result

LONG = {"letters": "x" * 5_000, "words": "word " * 2_000, "lines": "line\n" * 500, "tabs": "a\t" * 3_000}


def bars(condition: str = "clean", checkpoint: str = "m", **provenance: str) -> Result:
    row = made_row(0.5, 0.4, 0.6, measure="exact-match", condition=condition)
    return made_result([row], checkpoint=Weights(checkpoint), **provenance)


@pytest.mark.parametrize("key", ["description", "name", "checkpoint", "condition"])
@pytest.mark.parametrize("text", LONG.values(), ids=LONG)
def test_long_texts_leave_room_for_the_axes(key: str, text: str):
    result = bars(**{key: text})
    with theme():
        figure = DRAWN["bars"](result)
        figure.draw_without_rendering()
        (axes,) = figure.axes
    room = axes.get_position()
    assert room.width > 0.25
    assert room.height > 0.15
    assert axes.get_tightbbox().x0 > -1  # and nothing sticks out


def test_every_warning_stands_above_the_picture_once():
    result = bars()
    (first,) = result.rows
    said = {"b": "places are missing", "c": "few points", "d": "few points"}
    result.rows += [replace(first, condition=name, warning=text) for name, text in said.items()]
    with theme():
        title = DRAWN["bars"](result).get_suptitle()
    assert title.count("Warning: places are missing") == title.count("Warning: few points") == 1


def shown(axes: Axes) -> list[str]:
    return [text.get_text() for text in (*axes.get_xticklabels(), *axes.get_yticklabels())]


def test_a_pattern_is_an_image_with_its_tokens_at_the_cells():
    weights = np.arange(12).reshape(3, 4) / 12
    with theme():
        axes = new_figure(3, 3).add_subplot()
        rows = tuple(map(tuple, weights.tolist()))
        fill_pattern(axes, Pattern("a head", "", (), tuple("ABC"), tuple("defg"), rows))
    (image,) = axes.images
    assert np.array_equal(image.get_array(), weights)
    assert image.get_clim() == (0, 1)
    assert shown(axes) == [*"defg", *"ABC"]
    assert list(axes.get_xticks()) == [0, 1, 2, 3]  # the centre of a cell is its number
    assert image.get_extent() == [-0.5, 3.5, 2.5, -0.5]  # the first query stands on top
    assert len(axes.collections) == 2  # the grid; not a shape for each cell
    assert not plt.get_fignums()


@pytest.fixture
def call(recipe_file, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[object, ...]:
    """A run whose numbers are made up on the spot."""
    monkeypatch.setattr("steer.experiments.one.experiment_hash", lambda *given: "0123456789")

    def run(loaded: Loaded, *given: object) -> Result:
        return bars(hash="0123456789", recipe=loaded.recipe.model_dump(mode="json"))

    monkeypatch.setattr("steer.experiments.one.run_experiment", run)
    path = recipe_file("kind: clean\ncheckpoint: tiny\nmeasures: [{name: exact-match}]\n")
    return ("run", path, "--out", tmp_path / "out", "--json")


def test_a_failed_picture_is_a_warning_and_the_numbers_stay(steer, call, monkeypatch: pytest.MonkeyPatch):
    def fail(result: Result) -> None:
        raise ZeroDivisionError("no room")

    with monkeypatch.context() as patch:
        patch.setitem(DRAWN, "bars", fail)
        done = steer(*call)
    assert done.exit_code == 0, done.output
    assert done.stderr == "warning: mine: the picture figure could not be drawn (ZeroDivisionError: no room)\n"
    told = json.loads(done.stdout)
    assert told["pictures"] == []
    assert len(read_result(Path(told["folder"])).rows) == len(told["rows"]) == 1
    again = json.loads(steer(*call).stdout)  # it is tried again
    assert again["unchanged"]
    assert [Path(name).name for name in again["pictures"]] == ["figure.png"]


def test_missing_and_older_pictures_are_drawn_again(steer, call):
    call = (*call, "--format", "pdf", "--format", "svg")
    folder = Path(json.loads(steer(*call).stdout)["folder"])
    names = [f"figure.{kind}" for kind in FORMATS]
    for name in names:  # killed before this picture was written
        (folder / name).unlink()
        assert json.loads(steer(*call).stdout)["unchanged"]
        assert (folder / name).is_file()
    os.utime(folder / names[1], ns=(0, 0))  # of an earlier result, which was then replaced
    steer(*call)
    written = {name: (folder / name).stat().st_mtime_ns for name in (*names, "result.json")}
    assert written[names[1]] > 0
    steer(*call)
    assert written == {name: (folder / name).stat().st_mtime_ns for name in written}  # whole: nothing is done
