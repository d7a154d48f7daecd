"""The schema of recipes about one task: all kinds and measures, with the task's own examples, variables and labels.

`steer schema` prints it as JSON Schema for editors.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, reduce
from operator import or_
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import BaseModel, BeforeValidator, Field, TypeAdapter, create_model

from steer.base.errors import SteerError
from steer.base.fields import one_of, refined
from steer.base.json import Json
from steer.base.registry import Registry
from steer.base.shipped import DEFAULT_TASK
from steer.base.yaml import AT_LEAST_ONE, Document, check_as
from steer.measures import MEASURES
from steer.measures.measure import Measure
from steer.models.families import task_of
from steer.recipe.brought import brought_task, checkpoint_named
from steer.recipe.kinds import KINDS
from steer.recipe.schema import OWN, Ablation, Recipe, TaskField
from steer.tasks import TASKS
from steer.tasks.task import Task

Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True)
class RecipeSchema:
    kinds: Any  # a union of classes
    adapter: TypeAdapter[Recipe]

    def check(self, document: Document) -> Recipe:
        return check_as(document, self.adapter, self.kinds)

    def json(self) -> Json:
        return self.adapter.json_schema()


def schema_for(document: Document) -> RecipeSchema:
    """The schema of recipes about the document's own task, or its checkpoint's, or else the default task."""
    named = checkpoint_named(document)
    if (brought := brought_task(document, named)) is not None:
        return recipe_schema(brought)
    try:
        task = TASKS[task_of(named)]
    except SteerError:  # what is wrong with the checkpoint is said when it is loaded
        task = TASKS[DEFAULT_TASK]
    return recipe_schema(task)


@lru_cache(maxsize=8)
def recipe_schema(task: Task) -> RecipeSchema:
    reference = refined(Ablation, "reference", Literal[OWN] | one_of(task.splits))
    variable = refined(Ablation, "variable", one_of(task.variables) | None)
    ablation = _made(Ablation, task, reference=reference, variable=variable)
    specs = [_made(spec, task, **spec.task_fields(task)) for spec in offered(MEASURES, Measure, "name")]
    measures = _union(specs, "name")
    common = {
        "task": (_always(task), Field(default_factory=lambda: task)),
        "episodes": (task.selection, task.selection()),
        "ablation": (ablation, ablation()),
        "measures": (Annotated[tuple[measures, ...], AT_LEAST_ONE], ...),  # type: ignore[valid-type]
    }
    kinds = [_made(kind, task, **common, **kind.task_fields(task)) for kind in offered(KINDS, Recipe, "kind")]
    union = _union(kinds, "kind")
    return RecipeSchema(union, TypeAdapter(union))


def _always(task: Task) -> Any:
    """The type of the key `task`: whatever the file says there has been read already, and is this task."""
    return Annotated[TaskField, BeforeValidator(lambda given: task)]


def offered(registry: Registry[type[Model]], base: type[Model], key: str) -> list[type[Model]]:
    """The classes in a registry, each once. What another package offers must be one of them, and say so by its name."""
    classes: dict[type[Model], list[str]] = {}
    for name in registry:
        if not (isinstance(registry[name], type) and issubclass(registry[name], base)):
            raise SteerError(f"{registry.group}: {name!r}: {registry.places[name]} is not a {base.__name__}")
        classes.setdefault(registry[name], []).append(name)
    for one, names in classes.items():
        field = one.model_fields.get(key)
        said = get_args(field.annotation) if field is not None else ()
        if set(said) != set(names):
            text = f"{registry.group}: {', '.join(names)}: {one.__name__} must say `{key}: Literal[{str(names)[1:-1]}]`"
            raise SteerError(text)
    return list(classes)


def _made(base: type[Model], task: Task, /, **fields: Any) -> type[Model]:
    """A class of the same name with other fields, its text in the task's words."""
    text = (base.__doc__ or "").format(**vars(task.words))
    return create_model(base.__name__, __base__=base, __doc__=text, __module__=base.__module__, **fields)


def _union(kinds: list[Any], key: str) -> Any:
    return Annotated[reduce(or_, kinds), Field(discriminator=key)]
