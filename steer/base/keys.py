"""Which keys a schema allows at a place, so that a message about an unknown key can offer them."""

from __future__ import annotations

import types
import typing
from dataclasses import fields, is_dataclass
from typing import Any, TypeAlias

from pydantic import BaseModel

Annotation: TypeAlias = Any  # of a field: a class, a union, a list of one
Key = str | int
Loc = tuple[Key, ...]  # the keys that lead to a value


def keys_at(schema: Any, loc: Loc) -> list[str]:
    """The keys that a schema allows at a place, looking through lists, options and unions."""
    kinds = _plain(schema)
    for key in loc:
        chosen = [kind for kind in kinds if key in _tags(kind)]
        kinds = chosen or [inner for kind in kinds for inner in _inside(kind, key)]
    return list(dict.fromkeys(name for kind in kinds for name in _fields(kind)))


def _tags(kind: Any) -> tuple[Any, ...]:
    """The words by which a union knows this member: what its `kind` or `name` may be."""
    known = _fields(kind)
    return tuple(tag for key in ("kind", "name") if key in known for tag in typing.get_args(known[key]))


def _plain(kind: Any) -> list[Any]:
    """The classes that an annotation stands for."""
    origin = typing.get_origin(kind)
    if origin is typing.Annotated:
        return _plain(typing.get_args(kind)[0])
    if origin in (typing.Union, types.UnionType):
        return [inner for option in typing.get_args(kind) for inner in _plain(option)]
    return [kind]


def _fields(kind: Any) -> dict[str, Annotation]:
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return {name: info.annotation for name, info in kind.model_fields.items()}
    if is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        return {f.name: hints[f.name] for f in fields(kind)}
    return {}


def _inside(kind: Any, key: Key) -> list[Any]:
    if typing.get_origin(kind) in (list, tuple):
        return [inner for option in typing.get_args(kind) if option is not ... for inner in _plain(option)]
    known = _fields(kind)
    return _plain(known[str(key)]) if key in known else [kind]
