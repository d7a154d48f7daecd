"""`steer attribute`, `steer attend` and `steer draw`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.usefixtures("png_only")

PROMPT = "B S A | A = red | B = blue | A S B = blue red"


def test_a_pattern_is_shown_as_text_json_and_picture(steer, tmp_path: Path):
    asked = ["--prompt", PROMPT, "--out", tmp_path]
    told = json.loads(steer("attend", "--head", "Dec-Cross-1.3", *asked, "--json").stdout)
    weights = np.array(told["weights"])
    assert weights.shape == (len(told["queries"]), len(told["keys"]))
    np.testing.assert_allclose(weights.sum(1), 1, atol=1e-5)
    assert told["keys"] == [*PROMPT.split(), "EOS"]
    assert told["queries"] == ["SOS", *told["answer"]]
    assert told["expected"] == ["red", "blue"]
    assert Path(told["picture"]).stat().st_size > 1_000
    text = steer("attend", "--head", "dec-cross-1.3", *asked).stdout
    best = told["keys"][int(weights[0].argmax())]
    assert f"{best}@{int(weights[0].argmax()) + 1} {weights[0].max():.2f}" in text


@pytest.mark.parametrize(("head", "square"), [("enc-self-0.1", True), ("dec-self-1.0", True), ("dec-cross-0.2", False)])
def test_every_kind_of_head_has_its_axes(steer, tmp_path: Path, head: str, square: bool):
    told = json.loads(steer("attend", "--head", head, "--episode", 3, "--out", tmp_path, "--json").stdout)
    assert (told["queries"] == told["keys"]) is square


def test_a_heads_page_agrees_with_the_sweep_over_all_components(steer, tmp_path: Path):
    few = ["--episodes", 40, "--out", tmp_path, "--json"]
    page = json.loads(steer("attribute", "--head", "dec-cross-1.2", *few).stdout)
    everything = json.loads(steer("attribute", *few).stdout)
    mine = {row["position"]: row["value"] for row in page["rows"] if not row["group"] and "logit" in row["measure"]}
    theirs = {row["position"]: row["value"] for row in everything["rows"] if row["of"] == "dec-cross-1.2"}
    assert mine == pytest.approx(theirs)
    by_token = [row for row in page["rows"] if row["group"]]
    total = sum(row["value"] * row["counted"] for row in by_token) / sum(row["counted"] for row in by_token)
    assert total == pytest.approx(mine[None])
    assert page["alignment"]["tokens"] > 0
    assert page["pattern"]["head"] == "dec-cross-1.2"


def test_a_page_tells_the_numbers_that_it_writes(steer, tmp_path: Path):
    text = steer("attribute", "--head", "dec-cross-1.2", "--episodes", 20, "--out", tmp_path).stdout
    page = json.loads((tmp_path / "page.json").read_text())
    for title, name in (("own row", "own"), ("other rows", "others")):
        told = re.search(rf"{title} +(\S+) +(\S+) to (\S+)", text)
        wanted = [page["alignment"][name][what] for what in ("mean", "low", "high")]
        assert list(told.groups()) == [f"{number:.2f}" for number in wanted]
    titles = {"logit-attribution": "logit contribution", "attention-accuracy": "attention accuracy"}
    for measure, title in titles.items():
        block = text.split(f"\n{title}")[1].split("\n\n")[0]
        shown = dict(re.findall(r"\n  (overall|position \d|[a-z]+) +(\S+)   ", block))
        how = ".1%" if measure == "attention-accuracy" else ".3f"
        rows = [row for row in page["rows"] if row["measure"] == measure]
        places = ["overall" if row["position"] is None else f"position {row['position']}" for row in rows]
        names = [row["group"] or place for row, place in zip(rows, places, strict=True)]
        assert shown == {name: f"{row['value']:{how}}" for name, row in zip(names, rows, strict=True)}


@pytest.mark.parametrize("name", ["enc-mlp-0", "enc-self-1.1", "dec-self-0.0", "dec-mlp-1"])
def test_every_component_has_a_page_that_says_what_it_leaves_out(steer, tmp_path: Path, name: str):
    done = steer("attribute", "--head", name, "--episodes", 10, "--out", tmp_path)
    assert done.exit_code == 0, done.output
    assert "no attention accuracy" in done.stdout
    assert ("logit contribution (" in done.stdout) is name.startswith("dec")


def test_a_known_result_is_left_as_it_is(steer, cast: Path, tmp_path: Path):
    ask = ("run", "swap_index", "episodes.count=20", f"checkpoint={cast}", "--out", tmp_path)
    steer(*ask)
    files = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.*") if path.is_file()}
    assert "already known" in steer(*ask).output
    assert files == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.*") if path.is_file()}
    told = json.loads(next(tmp_path.rglob("result.json")).read_text())
    assert told["edited"]["after"] == ["enc-self-0.3.v"]
    steer(*ask, "description=in other words")
    assert "in other words" in next(tmp_path.rglob("result.json")).read_text()


def test_a_result_is_drawn_again(steer, cast: Path, tmp_path: Path):
    changes = ["episodes.count=20", f"checkpoint={cast}"]
    told = json.loads(steer("run", "swap_index", *changes, "--out", tmp_path, "--json").stdout)
    picture = Path(told["picture"])
    picture.unlink()
    assert steer("draw", told["folder"]).exit_code == 0
    bars = picture.read_bytes()
    assert steer("draw", told["folder"], "--figure", "positions").exit_code == 0
    assert picture.read_bytes() != bars


@pytest.mark.parametrize("text", ["[]", '{"rows": [], "recipe": {}}', '{"rows": [{}], "recipe": {"figure": "bars"}}'])
def test_what_is_no_result_cannot_be_drawn(steer, tmp_path: Path, text: str):
    (tmp_path / "result.json").write_text(text)
    done = steer("draw", tmp_path)
    assert done.exit_code == 2, done.output
    assert str(tmp_path) in done.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["attend", "--head", "dec-cros-1.3"], "did you mean dec-cross-1.3"),
        (["attend", "--head", "dec-cross-1.3", "--episode", "9999"], "episodes 0 to 1,999"),
        (["attend", "--head", "dec-cross-1.3", "--episode", "1", "--prompt", PROMPT], "not both"),
        (["attend", "--head", "dec-cross-1.3", "--prompt", "B S A | A = red"], "shows no example"),
        (
            ["attend", "--head", "dec-cross-1.3", "--prompt", PROMPT + " | A S B = blue red" * 19],
            "tokens, the model takes",
        ),
        (["attribute", "--head", "dec-mpl-0"], "did you mean dec-mlp-0"),
        (["attribute", "--head", "dec-cross-*.*"], "stands for 16 components; one is wanted"),
        (["attribute", "-c", "seed1", "--head", "$primitive-retrieval:any"], "stands for 0 components; one is wanted"),
        (["attribute", "--episode", "3"], "give --head as well"),
        (["attribute", "--head", "dec-cross-1.3", "--episodes", "5", "--episode", "9999"], "episodes 0 to 1,999"),
        (["attribute", "-c", "007"], "no checkpoint named '007'"),
        (["draw", "nowhere"], "there is no file or folder nowhere"),
    ],
)
def test_bad_calls_are_answered(steer, tmp_path: Path, monkeypatch, arguments: list[str], says: str):
    monkeypatch.chdir(tmp_path)
    done = steer(*arguments)
    assert done.exit_code == 2, done.output
    assert says in done.stderr
    assert not list(tmp_path.iterdir())
