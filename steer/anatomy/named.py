"""Types of keys that name parts of a model. Each type says what its texts name, so a schema shows where names are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator
from pydantic.fields import FieldInfo

from steer.base.fields import listed
from steer.base.yaml import AT_LEAST_ONE

Things: TypeAlias = Literal["nodes", "heads", "sites", "ports", "site"]


@dataclass(frozen=True)
class Naming:
    """What the texts of a key name. The method of `KeyedNames` that reads them is called the same."""

    things: Things


_LISTED = BeforeValidator(listed, json_schema_input_type=str | list[str])
_Any: TypeAlias = Annotated[tuple[str, ...], _LISTED]
_Some: TypeAlias = Annotated[tuple[str, ...], AT_LEAST_ONE, _LISTED]

Heads: TypeAlias = Annotated[_Some, Naming("heads")]
Nodes: TypeAlias = Annotated[_Some, Naming("nodes")]
Sites: TypeAlias = Annotated[_Some, Naming("sites")]
Ports: TypeAlias = Annotated[_Some, Naming("ports")]
AnyNodes: TypeAlias = Annotated[_Any, Naming("nodes")]  # may be left empty
AnySites: TypeAlias = Annotated[_Any, Naming("sites")]
OneSite: TypeAlias = Annotated[str, Naming("site")]
Chain: TypeAlias = Annotated[tuple[str, ...], Naming("ports")]  # a list even of one: its order matters


def naming(field: FieldInfo) -> Naming | None:
    """What the texts of a field name; None if it is not a part of a model."""
    return next((mark for mark in field.metadata if isinstance(mark, Naming)), None)


def named_keys(spec: type[BaseModel]) -> Iterator[str]:
    """The keys of a class that name parts of a model."""
    return (key for key, field in spec.model_fields.items() if naming(field))
