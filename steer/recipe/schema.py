"""What every recipe may say; each kind of experiment adds its own keys, in `kinds/`.

Unknown keys are refused, every choice is spelled out, and no value names Python code. What is the task's to say (which
examples, variables and labels there are) is a plain word here; `recipe_schema` makes the schema of one task of it.
Whether the names in a recipe exist in a given model is checked later, by `lower`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import BeforeValidator, Field, PlainSerializer, PlainValidator, WithJsonSchema, model_validator
from typing_extensions import Self

from steer.anatomy.named import AnySites
from steer.base.fields import listed
from steer.base.shipped import DEFAULT
from steer.base.yaml import AT_LEAST_ONE, Strict
from steer.measures.measure import Measure
from steer.results.rows import End
from steer.tasks.prompts.formats import FormatName
from steer.tasks.task import Example, Selection, Task

if TYPE_CHECKING:
    from steer.plan.plan import Run
    from steer.recipe.lowering import Lowering

OWN = "episodes"  # the recipe's own
# What the conditions at the ends of a scale are called; the second is a chain's own, nothing changed before its first
# link. Only people read these words: a run says itself which end it is.
NOTHING, UNCHANGED, EVERYTHING = "nothing ablated", "nothing ablated before the chain", "everything ablated"
BEFORE = "before"  # the clean run of kinds that change the answer


class TaskFile(Strict):
    """A file of prompts that a recipe brings; its name alone will do."""

    file: Annotated[str, Field(min_length=1, description="JSONL, JSON, CSV or Parquet, relative to the recipe")]
    format: Annotated[FormatName, Field(description="whose columns they are")] = "steer"


class Ablation(Strict):
    """What stands in for a value that is ablated."""

    value: Literal["mean", "zero", "resample"] = "mean"
    over: Annotated[
        Literal["position", "token", "padded"],
        Field(description="mean at each position, or one mean over all tokens; padded: over padding too"),
    ] = "position"
    reference: Annotated[str, Field(description="episodes that give the mean: the recipe's own, or a split")] = OWN
    mlps: Annotated[
        Literal["sources", "recomputed"],
        Field(description="on paths into a port: sources like others, or what they make of the changed stream"),
    ] = "sources"

    @model_validator(mode="after")
    def _from_its_own(self) -> Self:
        if self.value == "resample" and self.reference != OWN:
            raise ValueError("resample takes values of the recipe's own episodes (reference: episodes)")
        if self.over == "padded" and (self.value != "mean" or self.reference == OWN):
            raise ValueError("padded is a mean over another set's batches: give a split as reference")
        return self


FigureName: TypeAlias = Literal["bars", "positions", "scatter", "patterns", "histogram", "rates", "none"]
Figures = Annotated[
    tuple[FigureName, ...],
    AT_LEAST_ONE,
    Field(description="one figure, or several"),
    BeforeValidator(listed, json_schema_input_type=FigureName | list[FigureName]),
]


# A recipe holds the task itself; in a file stands where it is from. Which one it is says `recipe_schema`.
TaskField: TypeAlias = Annotated[
    Task,
    PlainValidator(lambda given: given),
    PlainSerializer(lambda task: task.source, return_type=str | dict[str, str]),
    WithJsonSchema(TaskFile.model_json_schema() | {"type": ["string", "object"]}),
    Field(description="a file of prompts, relative to the recipe's (default: the task of the checkpoint)"),
]


class Recipe(Strict):
    """What every recipe may say. A kind is one file with a class like this: its keys, and the runs that it means."""

    clean_condition: ClassVar[str] = "clean"  # what the clean run is called
    clean_end: ClassVar[End] = ""  # whether it is an end of a scale
    ablates: ClassVar[bool] = True  # does `ablation` say something?
    predicts: ClassVar[bool] = False  # does the task know the answer under the intervention?
    if TYPE_CHECKING:  # for pydantic a base class's keys come first, and `kind` is each class's own
        kind: str

    version: Annotated[Literal[1], Field(description="of the recipe's format")] = 1
    description: str = ""
    checkpoint: Annotated[str, Field(description="a shipped checkpoint by name, or a folder")] = DEFAULT
    task: TaskField
    episodes: Selection = Selection()
    ablation: Ablation = Ablation()
    freeze: Annotated[AnySites, Field(description="sites held at their clean values")] = ()
    places: Annotated[
        tuple[Annotated[int, Field(ge=1, le=4096)], ...],
        Field(description="edit only these places of the sequence, counted from 1 (default: all of them)"),
    ] = ()
    measures: Annotated[tuple[Measure, ...], AT_LEAST_ONE]
    # Not `save`: whoever imported nnsight first has an attribute of that name on every object, a default to pydantic.
    tensors: Annotated[AnySites, Field(description="sites whose values are written to tensors.safetensors")] = ()
    seed: Annotated[int, Field(ge=0, description="of resampling and of the intervals")] = 0
    figure: Figures = ("bars",)

    @classmethod
    def task_fields(cls, task: Task) -> dict[str, Any]:
        """Keys whose choices or words are the task's, as `create_model` takes them."""
        return {}

    def runs(self, lowering: Lowering) -> list[Run]:
        """The runs beside the clean one. What does not fit the model is noted as a fault in `lowering.names`."""
        raise NotImplementedError

    @property
    def changed_variable(self) -> str | None:
        """The variable that it changes: only examples whose answer this changes are of use to it."""
        return None

    @property
    def keeps_length(self) -> bool:
        """Has the predicted answer always as many tokens?"""
        return True

    @property
    def shown(self) -> str:
        """The condition that figures show, where they show one alone."""
        return ""

    def counterparts(self, examples: Sequence[Example]) -> list[Example]:
        """The examples that runs take values from (`Of("counterpart")`), if there are such runs."""
        return []

    def counterfactual(self, examples: Sequence[Example]) -> list[Example]:
        """The same examples with the answers that the task predicts under the intervention, where it `predicts`."""
        return []


class OnScale(Recipe):
    """Kinds whose conditions lie between nothing ablated, which is the clean run, and everything ablated."""

    clean_condition: ClassVar[str] = NOTHING
    clean_end: ClassVar[End] = "nothing"
