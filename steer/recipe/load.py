"""Recipes by path or by shipped name, checked against the schema and against the model they name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from steer.anatomy.names import Names
from steer.base.errors import ConfigError, Fault, Key, KeyedError, SteerError, dotted, keyed, unknown
from steer.base.files import is_there
from steer.base.shipped import DEFAULT, RECIPES, recipe_names
from steer.base.shown import Card, Shown
from steer.base.yaml import Document, override, read
from steer.models.families import names_of
from steer.recipe.lower import lower
from steer.recipe.lowering import Lowered
from steer.recipe.raw_names import name_faults
from steer.recipe.schema import Recipe
from steer.recipe.sweeps import is_sweep, points_of
from steer.recipe.tasked import RecipeSchema, recipe_schema, schema_for
from steer.results.rows import Level
from steer.tasks.task import Task


@dataclass(frozen=True, repr=False)
class Loaded(Shown):
    """A recipe with the file it came from, so that a later fault can still be placed."""

    name: str
    recipe: Recipe
    document: Document
    changes: tuple[str, ...] = ()  # `key=value`, as given on the command line
    points: tuple[tuple[tuple[Level, ...], Loaded], ...] = ()  # of a sweep: the levels of each, and what it means

    def card(self) -> Card:
        changes = [("changes", ", ".join(self.changes))] if self.changes else []
        text = yaml.safe_dump(self.document.data, sort_keys=False, default_flow_style=None, width=110)
        return Card(f"recipe {self.name}: {self.recipe.description or self.recipe.kind}", changes, text=text)

    def lower(self, names: Names, lengths: Mapping[str, int] | None = None) -> Lowered:
        """The plan that it means for a model, or an error with every fault and its place."""
        with self.placing():
            return lower(self.recipe, names, lengths, self.folder)

    def check(self) -> None:
        """Lower it for the checkpoint that it names, or every point of its sweep; raises all faults at once."""
        faults: dict[Fault, None] = {}
        for one in [point for _, point in self.points] or [self]:
            try:
                one.lower(one.names())
            except SteerError as error:
                faults |= dict.fromkeys(error.faults)
        if faults:
            raise ConfigError(*faults)

    @property
    def folder(self) -> Path:
        """That the files which it names are relative to."""
        return Path(self.document.name).parent

    def names(self) -> Names:
        """Of the checkpoint that the recipe names."""
        with self.placing(), keyed("checkpoint"):
            return names_of(self.recipe.checkpoint)

    @contextmanager
    def placing(self) -> Iterator[None]:
        """Add line and column to the faults that are raised in this block."""
        try:
            yield
        except KeyedError as error:
            raise ConfigError(
                *(Fault(self._place(fault.key), fault.key, fault.text) for fault in error.faults)
            ) from error

    def _place(self, key: Key) -> str:
        """Where a key stands in the file; if it does not, the file and the key."""
        there = key[:1] in self.document.places
        return self.document.place(key) if there else f"{self.document.name}: {dotted(key)}"


def find(name: str) -> Path:
    """A recipe's file: a path, or a shipped recipe's name."""
    for path in (Path(name), RECIPES / f"{name}.yaml"):
        if is_there(path) and path.is_file():
            return path
    raise ConfigError(f"{unknown('recipe', name, recipe_names())} (or give the path of a YAML file)")


def load_recipe(name: str, *changes: str, task: Task | None = None) -> Loaded:
    """A recipe by path or shipped name, with `key=value` changes; about the task of its checkpoint, or this one."""
    path = find(name)
    document = override(read(path), changes)
    return loaded_from(document, path.stem, changes, task)


def loaded_from(document: Document, name: str, changes: Sequence[str] = (), task: Task | None = None) -> Loaded:
    """A recipe from its data; of a sweep, every point of it."""
    if not is_sweep(document):
        return Loaded(name, _recipe(document, task), document, tuple(changes))
    faults: dict[Fault, None] = {}
    points = []
    for levels, one in points_of(document):
        try:
            points.append((levels, Loaded(name, _recipe(one, task), one, tuple(changes))))
        except ConfigError as error:
            faults |= dict.fromkeys(error.faults)
    if faults:
        raise ConfigError(*faults)
    return replace(points[0][1], document=document, points=tuple(points))


def _recipe(document: Document, task: Task | None) -> Recipe:
    schema = schema_for(document) if task is None else recipe_schema(task)
    try:
        return schema.check(document)
    except ConfigError as error:  # the names may be at fault too: all is reported at once
        raise ConfigError(*error.faults, *_name_faults(document, schema)) from error


def _name_faults(document: Document, schema: RecipeSchema) -> list[Fault]:
    named = document.data.get("checkpoint", DEFAULT) if isinstance(document.data, dict) else DEFAULT
    try:
        names = names_of(str(named))
    except SteerError:
        return []
    return [Fault(document.place(key), key, text) for key, text in name_faults(document.data, names, schema.kinds)]


def gather(names: Sequence[str]) -> tuple[list[Path], dict[str, ConfigError]]:
    """The recipe files that names, paths and folders stand for, each once; and what is wrong with other names."""
    paths: list[Path] = []
    missing: dict[str, ConfigError] = {}
    for name in names:
        try:
            paths += _folder(Path(name)) if is_there(name) and Path(name).is_dir() else [find(name)]
        except ConfigError as error:
            missing[name] = error
    return list(dict.fromkeys(paths)), missing


def _folder(path: Path) -> list[Path]:
    inside = sorted(path.rglob("*.yaml"))
    if not inside:
        raise ConfigError(f"{path}: holds no recipes (*.yaml)")
    return inside
