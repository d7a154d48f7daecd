"""Checks the names in a recipe that fails its schema, so that all faults are reported at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from steer.anatomy.keyed import KeyedNames
from steer.anatomy.named import Naming, naming
from steer.anatomy.names import Names
from steer.base.errors import Key
from steer.base.json import Json


def name_faults(data: Any, model: Names, kinds: Any) -> list[tuple[Key, str]]:
    """The names in a recipe's raw data that the model does not have. `kinds`: the union of the recipe classes."""
    names = KeyedNames(model)
    _check(names, kinds, data, ())
    return names.faults


def _check(names: KeyedNames, kind: Any, data: Any, key: Key) -> None:
    """Every key below that the type says names a part of a model."""
    if isinstance(data, list):
        for number, one in enumerate(data):
            _check(names, kind, one, (*key, number))
    if isinstance(data, dict):
        fields = _fields(kind, data)
        for name, value in data.items():  # in the order in which they stand there
            field = fields.get(name)
            mark = naming(field) if field is not None else None
            if mark is not None:
                _read(names, mark, (*key, name), value)
            elif field is not None:
                _check(names, field.annotation, value, (*key, name))


def _fields(kind: Any, data: Json) -> dict[str, FieldInfo]:
    """The fields of all classes in a type. Those of the class that the data names, if it names one, win."""
    classes = sorted(_classes(kind), key=lambda one: _is_named(one, data))
    return {name: field for one in classes for name, field in one.model_fields.items()}


def _is_named(spec: type[BaseModel], data: Json) -> bool:
    """Does the data name this class, by its `kind` or `name`?"""
    fields = {key: spec.model_fields[key] for key in ("kind", "name") if key in spec.model_fields}
    return any(data.get(key) in get_args(field.annotation) for key, field in fields.items())


def _classes(kind: Any) -> Iterator[type[BaseModel]]:
    """The pydantic classes in a type, however deep."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        yield kind
    for inner in get_args(kind):
        yield from _classes(inner)


def _read(names: KeyedNames, mark: Naming, key: Key, value: Any) -> None:
    if mark.things == "site":
        names.site(key, value)
        return
    listed = value if isinstance(value, list) else [value]
    getattr(names, mark.things)(key, [text for text in listed if isinstance(text, str)])
