"""Faults that only the data or the checkpoint can tell: they too stand at the line and column of a recipe's key."""

from __future__ import annotations

from pathlib import Path

import pytest

from steer.base.errors import ConfigError, KeyedError, SteerError, keyed
from steer.experiments.api import build_recipe, run
from steer.recipe.load import load_recipe
from steer.recipe.lower import lower

MARK = "@"  # stands in front of what is at fault
EXACT = "measures:\n  - {name: exact-match}\n"
OFF = "kind: ablate-set\nnodes: enc-self-0.0\n"
CASES = {
    "a filter that nothing passes": (
        f"kind: clean\nepisodes: {{arity: 1, length: @[9, 9]}}\n{EXACT}", "0 of 2,000 test episodes match: arity 1",
    ),
    "filters that leave nothing together": (
        f"kind: clean\nepisodes: @{{split: strict, functions: [2, 2], overlap: true, repeated: false}}\n{EXACT}",
        "strict episodes match: functions (2, 2), overlap True, repeated False",
    ),
    "a variable that cannot be changed": (
        "kind: steer\nvariable: function\nepisodes: @{split: strict, functions: [1, 1], arity: 2}\n"
        f"sets: [{{name: one, sites: enc-self-0.0.z}}]\n{EXACT}", "the function of none of them can be changed",
    ),
    "prompts that are too long": (
        f"kind: clean\nepisodes:\n  count: 3\n  split: @long\n{EXACT}", "tokens; tiny takes",
    ),
    "a place that no sequence has": (f"{OFF}places: [@63, 64]\n{EXACT}", "no sequence has a place 63"),
    "the mean over one episode": (f"{OFF}episodes: {{count: @1}}\n{EXACT}", "the mean over one episode"),
    "resampling from one episode": (
        f"{OFF}ablation: {{value: resample}}\nepisodes: {{count: @1}}\n{EXACT}", "at least two episodes",
    ),
    "an episode that is not there": (
        f"kind: clean\nepisodes: {{count: 3}}\n{EXACT}  - name: attention-pattern\n    heads: dec-cross-0.0\n"
        "    episode: @3\nfigure: patterns\n", "asks for episode 3 of 3",
    ),
    "nothing to label": (
        "kind: clean\nepisodes: {split: strict, repeated: true}\nmeasures:\n"
        "  - {name: r-squared, site: enc-self-0.0.z, label: index-in-question, tokens: @symbols}\n",
        "no symbols to label",
    ),
}  # fmt: skip


def written(text: str, folder: Path) -> tuple[Path, str]:
    """The recipe without its mark; and where the mark stood."""
    before = text[: text.index(MARK)]
    path = folder / "mine.yaml"
    path.write_text(text.replace(MARK, "", 1))
    return path, f"{path}:{before.count(chr(10)) + 1}:{len(before) - before.rfind(chr(10))}: "


@pytest.mark.parametrize(("text", "told"), CASES.values(), ids=CASES)
def test_a_fault_of_the_data_stands_where_its_key_does(text: str, told: str, tmp_path: Path):
    path, place = written(f"checkpoint: tiny\n{text}", tmp_path)
    with pytest.raises(ConfigError) as caught:
        run(str(path))
    (fault,) = caught.value.faults
    assert fault.startswith(place)
    assert told in fault


@pytest.mark.parametrize("command", ["run", "plan", "validate"])
def test_a_checkpoint_that_is_not_there_stands_where_it_is_named(steer, command: str, tmp_path: Path):
    path, place = written(f"kind: clean\ncheckpoint: @seed9\n{EXACT}", tmp_path)
    done = steer(command, path)
    assert done.exit_code == 2
    assert f"error: {place}no checkpoint named 'seed9'" in done.stderr


def test_a_change_on_the_command_line_is_the_place_of_its_fault(tmp_path: Path):
    path, _ = written(f"kind: clean\nepisodes: @{{length: [1, 1]}}\n{EXACT}", tmp_path)
    with pytest.raises(ConfigError, match=r"^'episodes.length=\[9, 9\]': 0 of 2,000"):
        run(load_recipe(str(path), "checkpoint=tiny", "episodes.length=[9, 9]"))


def test_a_key_that_is_not_in_the_file_is_named(tmp_path: Path):
    path, _ = written(f"@kind: position-swap\nports: enc-self-0.0.v\ncheckpoint: nosuch/tiny\n{EXACT}", tmp_path)
    asked = build_recipe("mine", kind="clean", measures=[{"name": "exact-match"}], episodes={"length": [9, 9]})
    with pytest.raises(ConfigError, match=r"^mine: episodes.length: 0 of 2,000"):
        run(asked)
    loaded = load_recipe(str(path))
    with pytest.raises(ConfigError) as caught, loaded.placing():
        raise KeyedError([(("episodes", "arity"), "so")])
    assert caught.value.faults == (f"{path}: episodes.arity: so",)


def test_faults_of_a_block_belong_under_its_key():
    with pytest.raises(KeyedError) as caught, keyed("measures", 1):
        raise KeyedError([(("site",), "one"), ((), "two")])
    assert caught.value.placed == [(("measures", 1, "site"), "one"), (("measures", 1), "two")]
    with pytest.raises(KeyedError) as caught, keyed("checkpoint"):
        raise SteerError("one", "two")
    assert caught.value.faults == ("checkpoint: one", "checkpoint: two")


@pytest.mark.parametrize(("places", "times"), [("all", 1), ("each", 2)])
def test_a_recipe_is_lowered_again_only_where_its_runs_depend_on_the_examples(
    places: str, times: int, monkeypatch: pytest.MonkeyPatch
):
    lowered: list[object] = []

    def counting(*arguments: object) -> object:
        lowered.append(arguments)
        return lower(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr("steer.recipe.load.lower", counting)
    recipe = build_recipe(
        kind="activation-patch", checkpoint="tiny", variable="index-in-question", sites="enc-resid-0.post",
        places=places, episodes={"count": 2, "arity": 2}, measures=[{"name": "exact-match"}],
    )  # fmt: skip
    rows = run(recipe).rows
    assert len(lowered) == times
    assert (len({row.condition for row in rows}) > 3) == (places == "each")
