"""YAML files and their faults: N faults give N messages, each with its place."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tokens import Protocol

from steer.base.errors import ConfigError
from steer.base.keys import keys_at
from steer.base.shipped import preset_files
from steer.base.yaml import MAX_BYTES, check, override, parse, read

GOOD = """\
model: {heads: 4, position_scale: 2.0}
optimiser:
  weight_decay: 0.01
stages:
  - name: one
    epochs: 3
    grammars: [{primitives: [2, 3]}]
    lr: [1e-3, 5e-5]
"""


def faults(text: str) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        check(parse(text, "f.yaml"), Protocol)
    return caught.value.faults


def test_a_good_file_is_read():
    protocol = check(parse(GOOD, "f.yaml"), Protocol)
    assert protocol.model.heads == 4
    assert protocol.stages[0].grammars[0].primitives == (2, 3)
    assert protocol.stages[0].lr == (1e-3, 5e-5)


def test_every_fault_is_reported_with_its_place():
    text = (
        GOOD.replace("heads: 4", "heds: 4").replace("epochs: 3", "epochs: -3").replace("weight_decay", "weight_dekay")
    )
    found = faults(text)
    assert len(found) == 3
    assert any(f.startswith("f.yaml:1:9: unknown key 'model.heds'; did you mean 'heads'") for f in found), found
    assert any(f.startswith("f.yaml:3:3: unknown key 'optimiser.weight_dekay'; did you mean") for f in found), found
    assert any(f.startswith("f.yaml:6:13: stages.0.epochs: ") and "(found -3)" in f for f in found), found


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("model: [", "f.yaml:1:9: not valid YAML"),
        ("model: {}\nmodel: {}", "f.yaml:2:1: the key 'model' stands here twice"),
        ("? [a]\n: 1", "f.yaml:1:3: a key must be a plain word"),
        ("!!python/object/apply:os.system ['true']", "not valid YAML|dictionary"),
        ("- 1", "valid dictionary"),
        ("a: 1\n---\nb: 2", "not valid YAML"),
        ("model: {position_scale: .nan}", "model.position_scale"),
        ("model: {position_scale: .inf}", "model.position_scale"),
        ("model: {d_model: 127}", "multiple of 2"),
        ("stages: []", "stages"),
        ("stages: [{questions: {compositions: 0}}]", "at least one question"),
        ("stages: [{grammars: [{primitives: [4, 2]}]}]", "primitives must go from small to large"),
        ("stages: [{grammars: [{primitivs: [2, 4]}]}]", "did you mean 'primitives'"),
        ("stages: [{grammars: []}]", "at least one is needed"),
        ("stages: [{episodes: often}]", "stages.0.episodes"),
        ("optimiser: {betas: [0.9, 1.0]}", "optimiser.betas.1"),
        ("stages: [{grammars: [{primitives: [1, 2], arities: [1]}]}]", "at least 2 where there are demonstrations"),
        ("stages: [{grammars: [{listed: [0, 1]}]}]", "listed must be at least 1"),
        ("stages: [{epochs: true}]", "stages.0.epochs: should be a number"),
    ],
)
def test_bad_files_are_answered(text: str, says: str):
    assert re.search(says, "\n".join(faults(text)))


def test_an_anchor_bomb_is_stopped():
    lines = ["a: &a [x, x, x, x, x, x, x, x, x]"]
    lines += [f"{b}: &{b} [{', '.join(['*' + a] * 9)}]" for a, b in zip("abcdefgh", "bcdefghi", strict=True)]
    assert "anchors that multiply" in faults("\n".join(lines))[0]


@pytest.mark.parametrize("text", ["a: &a [*a]", "a: &a {b: *a}", "[" * 50 + "]" * 50, "[" * 100_000, "{a: " * 5_000])
def test_what_is_nested_without_end_is_stopped(text: str):
    (fault,) = faults(text)
    assert fault.startswith("f.yaml:")
    assert "nested too deeply" in fault
    assert "recursion" not in fault


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('description: "a\\0b"', r"f.yaml:1:14: description: holds '\\x00'"),
        ('description: "\\ud800 \\e"', r"f.yaml:1:14: description: holds '\\x1b', '\\ud800'"),
        ('stages: [{name: "\\x07"}]', r"f.yaml:1:17: stages.0.name: holds '\\x07'"),
        ("data_seed: 0x" + "f" * 5_000, "f.yaml:1:12: data_seed: the number is too large"),
        ("data_seed: " + "9" * 5_000, "f.yaml:1:12: not valid YAML: '9999.*… is not a valid date or number$"),
        ("data_seed: -" + "9" * 4_000, "f.yaml:1:12: data_seed: the number is too large"),
        ("description: [" + "x, " * 999 + "]", r"found \['x', 'x.*…\)$"),
    ],
)
def test_what_nothing_can_show_is_placed(text: str, says: str):
    import re

    (fault,) = faults(text)
    assert re.search(says, fault), fault
    assert len(fault) < 200


def test_an_argument_in_python_is_held_to_the_same():
    from steer.experiments.api import build_recipe

    with pytest.raises(ConfigError, match="description: holds"):
        build_recipe(kind="clean", measures=[{"name": "exact-match"}], description="a\ud800")


def test_a_huge_file_is_not_read(tmp_path: Path):
    path = tmp_path / "huge.yaml"
    path.write_bytes(b"a" * (MAX_BYTES + 1))
    with pytest.raises(ConfigError, match="larger than"):
        read(path)
    with pytest.raises(ConfigError, match="cannot be read"):
        read(tmp_path / "missing.yaml")
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="cannot be read"):
        read(path)


def test_overrides_reach_any_value():
    changes = ["stages.0.epochs=9", "model.dropout=0", "stages.0.lr=[0.01, 0.001]", "description='mine: a run'"]
    changes += ["stages.0.questions.copies=2", "stages.0.grammars.0.primitives=[3, 3]"]
    protocol = check(override(parse(GOOD, "f.yaml"), changes), Protocol)
    stage = protocol.stages[0]
    assert (protocol.model.dropout, stage.lr, protocol.description) == (0.0, (0.01, 0.001), "mine: a run")
    assert (stage.questions.copies, stage.grammars[0].primitives, stage.epochs) == (2, (3, 3), 9)
    assert (protocol.model.heads, stage.name, protocol.optimiser.weight_decay) == (4, "one", 0.01)  # as they were


def test_an_empty_change_is_no_value():
    stage = check(override(parse(GOOD, "f.yaml"), ["stages.0.until="]), Protocol).stages[0]
    assert stage.until is None


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("epochs", "not of the form key=value"),
        ("stages.1.epochs=3", "has entries 0 to 0"),
        ("stages.0.name.x=3", "holds a single value"),
        ("stages.0.epoch=3", "did you mean 'epochs'"),
        ("stages.0.epochs=none", "valid integer"),
        ("model.heads=[", "not valid YAML"),
    ],
)
def test_bad_overrides_are_answered(change: str, says: str):
    with pytest.raises(ConfigError, match=says) as caught:
        check(override(parse(GOOD, "f.yaml"), [change]), Protocol)
    assert change in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [
        "model.heads=-1", "model={heads: -1}", "model={heds: 4}", "stages=[{epochs: 0}]", "stages.0.epochs=0",
        "stages.0.grammars=[{primitives: [4, 2]}]", "stages.0.questions.copy=1", "stages.0.epochs=true",
        "optimizer.betas=[0.9, 0.9]", "modl.heads=3",
    ],
)  # fmt: skip
def test_a_fault_of_an_override_is_placed_at_the_override(change: str):
    """The file is right in every line: none of them may be named."""
    with pytest.raises(ConfigError) as caught:
        check(override(parse(GOOD, "f.yaml"), [change]), Protocol)
    (fault,) = caught.value.faults
    assert fault.startswith(f"{change!r}: ")
    assert "f.yaml" not in fault


def test_an_override_of_what_was_wrong_takes_its_place():
    wrong = GOOD.replace("heads: 4", "heds: 4").replace("epochs: 3", "epochs: -3")
    with pytest.raises(ConfigError) as caught:
        check(override(parse(wrong, "f.yaml"), ["model={heds: 5}", "stages.0.epochs=7"]), Protocol)
    (fault,) = caught.value.faults
    assert fault.startswith("'model={heds: 5}': unknown key 'model.heds'")


def test_other_values_keep_their_places_beside_an_override():
    wrong = GOOD.replace("epochs: 3", "epochs: -3")
    with pytest.raises(ConfigError) as caught:
        check(override(parse(wrong, "f.yaml"), ["stages.0.name=two", "model.heads=0"]), Protocol)
    assert sorted(fault.split(": ")[0] for fault in caught.value.faults) == ["'model.heads=0'", "f.yaml:6:13"]


def test_keys_are_found_through_lists_and_dataclasses():
    assert "primitives" in keys_at(Protocol, ("stages", 0, "grammars", 0))
    assert "betas" in keys_at(Protocol, ("optimiser",))


@pytest.mark.parametrize("path", preset_files(), ids=lambda path: path.stem)
def test_every_shipped_preset_is_valid_and_says_what_it_is(path: Path):
    assert check(read(path), Protocol).description
    assert "steer train" in path.read_text().split("description:")[0]


def test_presets_are_shipped():
    assert len(preset_files()) >= 2
