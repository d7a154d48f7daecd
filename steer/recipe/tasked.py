"""The schema of recipes about one task: the classes of `schema`, with the task's own examples, variables and labels.

`steer schema` prints it as JSON Schema for editors.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, reduce
from operator import or_
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import BaseModel, Field, TypeAdapter, create_model

from steer.base.errors import SteerError
from steer.base.shipped import DEFAULT, DEFAULT_TASK, locate
from steer.base.yaml import AT_LEAST_ONE, Document, check_as
from steer.models.record import read_record
from steer.recipe.schema import (
    OWN,
    Ablation,
    AttentionMeasure,
    Measure,
    PositionSwap,
    Recipe,
    RSquaredMeasure,
    Steer,
)
from steer.tasks import TASKS
from steer.tasks.task import Task

Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True)
class RecipeSchema:
    kinds: Any  # a union of classes
    adapter: TypeAdapter[Recipe]

    def check(self, document: Document) -> Recipe:
        return check_as(document, self.adapter, self.kinds)

    def json(self) -> dict[str, Any]:
        return self.adapter.json_schema()


def schema_for(document: Document) -> RecipeSchema:
    """The schema of the task that the document's checkpoint is of; the default task's, where there is none to ask."""
    named = document.data.get("checkpoint", DEFAULT) if isinstance(document.data, dict) else DEFAULT
    try:
        return recipe_schema(TASKS[read_record(locate(str(named))).task])
    except SteerError:  # what is wrong with the checkpoint is said when it is loaded
        return recipe_schema(TASKS[DEFAULT_TASK])


@lru_cache(maxsize=8)
def recipe_schema(task: Task) -> RecipeSchema:
    ablation = _made(Ablation, task, reference=_described(Ablation, "reference", Literal[OWN] | _one_of(task.splits)))
    measures = _union([_made(measure, task, **_measure_fields(measure, task)) for measure in _members(Measure)], "name")
    common = {
        "episodes": (task.selection, task.selection()),
        "ablation": (ablation, ablation()),
        "measures": (Annotated[tuple[measures, ...], AT_LEAST_ONE], ...),  # type: ignore[valid-type]
    }
    kinds = [_made(kind, task, **common, **_kind_fields(kind, task)) for kind in _members(Recipe)]
    for kind in kinds:
        kind.task = task
    union = _union(kinds, "kind")
    return RecipeSchema(union, TypeAdapter(union))


def _measure_fields(measure: type[BaseModel], task: Task) -> dict[str, Any]:
    if measure is AttentionMeasure:
        return {"against": _described(measure, "against", task=task)}
    if measure is RSquaredMeasure:
        tokens = dict.fromkeys(word for words in task.labels.values() for word in words)
        described: Any = Annotated[_one_of(tokens), Field(description=task.labels_text)]
        return {"label": (_one_of(task.labels), ...), "tokens": (described, ...)}
    return {}


def _kind_fields(kind: type[BaseModel], task: Task) -> dict[str, Any]:
    if kind is Steer:
        return {"variable": _described(kind, "variable", _one_of(task.variables))}
    if kind is PositionSwap and task.exchange is not None:
        return {"tokens": _described(kind, "tokens", default=task.exchange.places)}
    return {}


def _made(base: type[Model], task: Task, **fields: Any) -> type[Model]:
    """A class of the same name with other fields, its text in the task's words."""
    text = (base.__doc__ or "").format(**vars(task.words))
    return create_model(base.__name__, __base__=base, __doc__=text, __module__=base.__module__, **fields)


def _described(
    base: type[BaseModel], name: str, kind: Any = None, default: Any = None, task: Task | None = None
) -> tuple[Any, Any]:
    """A field of the base class with another type or default, and the same description."""
    old = base.model_fields[name]
    text = (old.description or "").format(**vars(task.words)) if task else old.description
    default = ... if default is None and old.is_required() else old.default if default is None else default
    return Annotated[kind or old.annotation, Field(description=text)], default


def _one_of(words: Any) -> Any:
    """A choice between words; without any, no word is right."""
    return Literal[tuple(words) or ("",)]


def _members(union: Any) -> tuple[Any, ...]:
    """The classes of a union, which may be annotated."""
    inner = get_args(union)[0] if hasattr(union, "__metadata__") else union
    return get_args(inner)


def _union(kinds: list[Any], key: str) -> Any:
    return Annotated[reduce(or_, kinds), Field(discriminator=key)]
