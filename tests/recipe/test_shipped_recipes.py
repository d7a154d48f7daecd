"""The recipes and the schema that are shipped."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import pytest
import yaml
from rig import named
from tokens import RECIPE

from steer.anatomy.nodes import Node
from steer.base.shipped import RECIPES, recipe_files
from steer.base.yaml import read
from steer.engine.schedule import make_schedule
from steer.engine.text import planned
from steer.models.plain.layout import PlainSteps
from steer.recipe.kinds import KINDS
from steer.recipe.load import load_recipe
from steer.recipe.lower import lower
from steer.recipe.tasked import schema_for


def brings_prompts(path: Path) -> bool:
    return str(yaml.safe_load(path.read_text()).get("task", "")).endswith(".jsonl")


@pytest.mark.parametrize("path", recipe_files(), ids=lambda path: path.stem)
def test_every_shipped_recipe_is_short_and_says_what_it_is(path: Path):
    lines = path.read_text().splitlines()
    assert len(lines) <= 20
    # The schema that editors take is of the paper's task: it knows no spans or splits of a file of prompts.
    assert lines[0].startswith("# yaml-language-server: $schema=") != brings_prompts(path)
    assert any(f"steer run recipes/{path.relative_to(RECIPES)}" in line for line in lines)
    assert load_recipe(str(path)).recipe.description


@pytest.mark.parametrize("path", recipe_files(), ids=lambda path: path.stem)
def test_the_json_schema_accepts_every_shipped_recipe(path: Path):
    schema = (schema_for(read(path)).adapter if brings_prompts(path) else RECIPE).json_schema()
    jsonschema.validate(yaml.safe_load(path.read_text()), schema)


def test_the_shipped_schema_is_current():
    shipped = json.loads((RECIPES / "schema.json").read_text())
    assert shipped == RECIPE.json_schema(), "run: steer schema > recipes/schema.json"


def by_role(path: Path) -> bool:
    """Does a recipe name its heads by their roles? (Else it is of one checkpoint.)"""
    return not brings_prompts(path) and not re.search(r"-(self|cross)-\d+\.\d", path.read_text())


@pytest.mark.parametrize("path", [*filter(by_role, recipe_files())], ids=lambda path: path.stem)
def test_shipped_recipes_fit_deeper_models(path: Path):
    """Whatever the layer that a role is found in."""
    roles = {
        "output": (Node("dec-cross", 2, 1), Node("dec-cross", 1, 3)), "rhs-scanner": (Node("dec-cross", 1, 0),),
        "primitive-pairing": (Node("enc-self", 2, 1),), "question-broadcast": (Node("enc-self", 1, 2),),
        "function-retrieval": (Node("enc-self", 2, 3),),
    }  # fmt: skip
    names = named(3, 3, 4, roles)
    plan = lower(load_recipe(str(path)).recipe, names).plan
    told = json.dumps(planned(path.stem, make_schedule(plan, names.layout, PlainSteps(3, 3))).to_json())
    recipe = path.read_text().partition("kind:")[2]
    for role, players in roles.items():
        if f"${role}" in recipe and "ov-alignment" not in recipe:  # which reads what all heads read
            assert str(players[0]) in told


def test_every_kind_has_a_class_and_the_schema_forbids_the_rest():
    schema = RECIPE.json_schema()
    assert list(KINDS) == [
        "keep-only-one",
        "ablate-only-one",
        "chained-patch",
        "position-swap",
        "chained-swap",
        "steer",
        "activation-patch",
        "intervene",
        "align",
        "ablate-set",
        "ablate-each",
        "keep-set",
        "compare",
        "clean",
    ]
    assert set(schema["discriminator"]["mapping"]) == set(KINDS)
    assert all(d["additionalProperties"] is False for d in schema["$defs"].values() if d["type"] == "object")
