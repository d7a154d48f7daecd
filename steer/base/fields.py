"""Fields of pydantic classes: lists of one, and fields whose choices or descriptions are known only later."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, Field

Fields: TypeAlias = dict[str, tuple[Any, Any]]  # name -> type and default, as `create_model` takes them


def listed(value: object) -> object:
    """A single text becomes a list of one, so that one name may be written without brackets."""
    return [value] if isinstance(value, str) else value


def one_of(words: Iterable[str]) -> Any:
    """The type of a choice between these words; without words, of the empty text alone."""
    return Literal[tuple(words) or ("",)]


def refined(
    base: type[BaseModel], name: str, kind: Any = None, default: Any = None, words: Mapping[str, str] | None = None
) -> tuple[Any, Any]:
    """A field of a class with another type or default, as `create_model` takes it. `words` fill its description."""
    old = base.model_fields[name]
    text = (old.description or "").format(**words) if words else old.description
    default = ... if default is None and old.is_required() else old.default if default is None else default
    return Annotated[kind or old.annotation, Field(description=text)], default
