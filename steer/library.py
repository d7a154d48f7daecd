"""Recipes by path or by shipped name, checked against the schema and against the model they name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from steer.documents import Document, check_as, override, read
from steer.errors import ConfigError, unknown
from steer.lower import LoweringError, lower
from steer.names import Shape
from steer.plan import Plan
from steer.recipe import RECIPE, Recipe
from steer.shipped import RECIPES, recipe_names


@dataclass(frozen=True)
class Loaded:
    """A recipe with the file it came from, so that a later fault can still be placed."""

    name: str
    recipe: Recipe
    document: Document

    def plan(self, shape: Shape) -> Plan:
        try:
            return lower(self.recipe, shape)
        except LoweringError as error:
            raise ConfigError(*(f"{self.document.place(key)}: {text}" for key, text in error.placed)) from error


def find(name: str) -> Path:
    """A recipe's file: a path, or a shipped recipe's name."""
    for path in (Path(name), RECIPES / f"{name}.yaml"):
        if path.is_file():
            return path
    raise ConfigError(f"{unknown('recipe', name, recipe_names())} (or give the path of a YAML file)")


def load_recipe(name: str, changes: Sequence[str] = ()) -> Loaded:
    path = find(name)
    document = override(read(path), changes)
    return Loaded(path.stem, check_as(document, RECIPE, Recipe), document)


def gather(names: Sequence[str]) -> list[Path]:
    """The recipe files that names, paths and folders stand for, each once, in order."""
    found: list[Path] = []
    for name in names:
        if Path(name).is_dir():
            inside = sorted(Path(name).rglob("*.yaml"))
            if not inside:
                raise ConfigError(f"{name}: holds no recipes (*.yaml)")
            found += inside
        else:
            found.append(find(name))
    return list(dict.fromkeys(found))
