"""The verbs of the command line as Python functions."""

from __future__ import annotations

from typing import Any

from steer.base.errors import keyed
from steer.base.yaml import Document
from steer.experiments.one import run_experiment
from steer.models.families import load_subject
from steer.models.subject import Subject
from steer.recipe.load import Loaded, load_recipe
from steer.recipe.tasked import schema_for
from steer.results.result import Result


def build_recipe(name: str = "recipe", **keys: Any) -> Loaded:
    """A recipe from keyword arguments, checked like one from a file: `build_recipe(kind="clean", measures=[…])`."""
    document = Document(name, keys)
    return Loaded(name, schema_for(document).check(document), document)


def run(recipe: Loaded | str, checkpoint: Subject | None = None) -> Result:
    """Run a recipe (or one by name), on the checkpoint that it names or on another. Nothing is written to disk."""
    recipe = load_recipe(recipe) if isinstance(recipe, str) else recipe
    with recipe.placing(), keyed("checkpoint"):
        checkpoint = checkpoint or load_subject(recipe.recipe.checkpoint)
    return run_experiment(recipe, checkpoint)
