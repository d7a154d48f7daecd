"""Sweeps: a recipe at every combination of some keys, as one result with a column for each."""

from __future__ import annotations

import csv
from io import StringIO

import pytest

import steer
from steer.base.errors import ConfigError, SteerError
from steer.base.yaml import Document
from steer.experiments.api import build_recipe
from steer.experiments.sweeping import question_hash
from steer.models.checkpoint import load_checkpoint
from steer.recipe.sweeps import points_of
from steer.results.files import from_json, rows_csv, to_json

COMMON = {
    "kind": "ablate-set", "checkpoint": "tiny", "nodes": "enc-self-{layer}.*", "episodes": {"count": 4},
    "measures": [{"name": "token-accuracy"}],
}  # fmt: skip


def test_keys_by_path_and_words_in_braces():
    data = {"sites": ["enc-{layer}.x", "{layer}"], "a": {"b": [1, 2]}, "sweep": {"layer": [0, 1], "a.b.1": [7]}}
    found = points_of(Document("made", data))
    assert [levels for levels, _ in found] == [(("layer", 0), ("a.b.1", 7)), (("layer", 1), ("a.b.1", 7))]
    (_, first), (_, second) = found
    assert first.data["sites"] == ["enc-0.x", 0]  # a text that is the word alone becomes the value itself
    assert second.data["sites"] == ["enc-1.x", 1]
    assert first.data["a"] == {"b": [1, 7]}
    assert data["a"] == {"b": [1, 2]}
    assert first.data["figure"] == "dose"


def test_every_point_of_a_sweep_is_part_of_the_question():
    checkpoint = load_checkpoint("tiny")
    asked = [build_recipe(**COMMON | {"sweep": {"layer": [0, 1], "seed": [0, last]}}) for last in (1, 2, 1)]
    first, other, again = (question_hash(one, checkpoint) for one in asked)
    assert first == again != other


def test_one_result_with_a_column_for_each():
    result = steer.run(COMMON | {"sweep": {"layer": [0, 1], "episodes.seed": [0, 3]}})
    assert len({row.levels for row in result.rows}) == 4
    for layer in (0, 1):
        for seed in (0, 3):
            keys = {"nodes": f"enc-self-{layer}.*", "episodes": {"count": 4, "seed": seed}}
            alone = steer.run(COMMON | keys)
            mine = [row for row in result.rows if row.levels == (("layer", layer), ("episodes.seed", seed))]
            assert [row.value for row in mine] == [row.value for row in alone.rows]
            assert [row.condition for row in mine] == [row.condition for row in alone.rows]
    written = list(csv.DictReader(StringIO(rows_csv(result.rows))))
    assert {(line["layer"], line["episodes.seed"]) for line in written} == {
        ("0", "0"),
        ("0", "3"),
        ("1", "0"),
        ("1", "3"),
    }
    assert list(result.frame["layer"].unique()) == [0, 1]
    assert from_json(to_json(result), "made").rows == result.rows


def test_a_sweep_says_how_many_examples_its_smallest_point_has():
    """No number of it is of fewer; each row says its own."""
    result = steer.run(COMMON | {"nodes": "enc-self-0.*", "sweep": {"episodes.count": [5, 3, 4]}})
    assert [row.examples for row in result.rows if row.position is None and row.condition == "set ablated"] == [5, 3, 4]
    assert result.provenance.examples == 3


def test_another_value_is_another_question():
    tiny = load_checkpoint("tiny")

    def asked(*layers: int) -> str:
        return question_hash(build_recipe(**COMMON | {"sweep": {"layer": list(layers)}}), tiny)

    assert len({asked(0), asked(1), asked(0, 1), asked(1, 0)}) == 4
    assert asked(0, 1) == asked(0, 1)


def test_what_is_learnt_at_every_point_is_kept():
    keys = {
        "kind": "align", "checkpoint": "tiny", "variable": "index-in-question", "k": 1, "epochs": 1,
        "sets": [{"name": "set", "sites": "enc-self-0.0.z"}], "controls": [], "no_controls": "a test",
        "episodes": {"arity": 2, "count": 4, "split": "validation"},
        "train": {"arity": 2, "count": 12, "split": "validation", "seed": 1},
        "measures": [{"name": "exact-match", "against": "answer"}],
    }  # fmt: skip
    result = steer.run(keys | {"sweep": {"seed": [0, 3]}})
    assert len(result.subspaces) == 2
    for seed in (0, 3):
        (alone,) = steer.run(keys | {"seed": seed}).subspaces.values()
        (mine,) = (one for name, one in result.subspaces.items() if name.startswith(f"seed_{seed}_set_k_1"))
        assert (mine.rows == alone.rows).all()
        assert mine.about.seed == seed


def test_checkpoints_are_swept():
    keys = {"kind": "clean", "episodes": {"count": 6}, "measures": [{"name": "answer-probability"}]}
    result = steer.run(keys | {"sweep": {"checkpoint": ["tiny", "seed1"]}})
    alone = [steer.run(keys, name).rows[0].value for name in ("tiny", "seed1")]
    assert [row.value for row in result.rows] == alone
    assert result.provenance.checkpoint.name == "tiny, seed1"


FAULTS = {
    "should be a list of values": {"sweep": {"layer": 3}},
    "sweep.layer: should be a list of values": {"sweep": {"layer": []}},
    "should be keys with lists": {"sweep": ["layer"]},
    "a value stands there twice": {"sweep": {"layer": [0, 0]}},
    "combinations; at most 400": {"sweep": {"layer": list(range(21)), "seed": list(range(20))}},
    "unknown key 'layr'": {"sweep": {"layer": [0], "layr": [1]}},
    "enc-self-9": {"sweep": {"layer": [0, 9]}},
}


@pytest.mark.parametrize("text", FAULTS)
def test_faults(text: str):
    with pytest.raises(SteerError, match=text):
        steer.validate(COMMON | FAULTS[text])


def test_a_dose_needs_something_that_varies():
    with pytest.raises(ConfigError, match="a dose is of something that varies"):
        steer.validate(COMMON | {"nodes": "enc-self-0.*", "figure": "dose"})


def test_steering_without_a_control_says_so():
    sets = [{"name": "a", "sites": "enc-self-0.0.z"}]
    keys = {
        "kind": "steer", "checkpoint": "tiny", "variable": "index-in-question", "sets": sets,
        "episodes": {"arity": 2, "count": 4}, "measures": [{"name": "exact-match"}],
    }  # fmt: skip
    told, quiet = steer.run(keys).rows, steer.run(keys | {"no_control": "a test"}).rows
    assert len(told) == len(quiet) == 3  # before, the set and the ceiling
    assert all("name a `control`" in row.warning for row in told)
    assert not any("control" in row.warning for row in quiet)
