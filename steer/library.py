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


def load_recipe(name: str, *changes: str) -> Loaded:
    """A recipe by path or shipped name, with `key=value` changes."""
    path = find(name)
    document = override(read(path), changes)
    return Loaded(path.stem, check_as(document, RECIPE, Recipe), document)


def gather(names: Sequence[str]) -> tuple[list[Path], dict[str, tuple[str, ...]]]:
    """The recipe files that names, paths and folders stand for, each once; and what is wrong with other names."""
    found: list[Path] = []
    missing: dict[str, tuple[str, ...]] = {}
    for name in names:
        try:
            found += _folder(Path(name)) if Path(name).is_dir() else [find(name)]
        except ConfigError as error:
            missing[name] = error.faults
    return list(dict.fromkeys(found)), missing


def _folder(path: Path) -> list[Path]:
    inside = sorted(path.rglob("*.yaml"))
    if not inside:
        raise ConfigError(f"{path}: holds no recipes (*.yaml)")
    return inside
