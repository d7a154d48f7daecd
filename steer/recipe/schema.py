"""The keys of every recipe; each kind of experiment adds its own, in `kinds/`.

Unknown keys are refused, every choice is spelled out, and no value names Python code. Keys whose choices depend on the
task (examples, variables, labels) are plain texts here; `recipe_schema` fills in the choices of one task.
Whether the names in a recipe exist in a given model is checked later, by `lower`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import BeforeValidator, Field, PlainSerializer, PlainValidator, WithJsonSchema, model_validator
from typing_extensions import Self

from steer.anatomy.named import AnySites
from steer.base.fields import Fields, listed
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
BEFORE, CEILING = "before", "ceiling"  # the clean run of kinds that change the answer


class TaskFile(Strict):
    """A file of prompts that a recipe brings. In a recipe its name alone is enough."""

    file: Annotated[str, Field(min_length=1, description="JSONL, JSON, CSV or Parquet, relative to the recipe")]
    format: Annotated[FormatName, Field(description="whose columns they are")] = "steer"


class Ablation(Strict):
    """What stands in for a value that is ablated."""

    value: Literal["mean", "zero", "resample", "counterpart"] = "mean"
    over: Annotated[
        Literal["position", "token", "padded"],
        Field(description="mean at each position, or one mean over all tokens; padded: over padding too"),
    ] = "position"
    reference: Annotated[str, Field(description="episodes that give the mean: the recipe's own, or a split")] = OWN
    variable: Annotated[
        str | None, Field(description="of value `counterpart`: whose prompts differ in this; what they have stands in")
    ] = None
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

    @model_validator(mode="after")
    def _named(self) -> Self:
        if self.value == "counterpart" and self.variable is None:
            raise ValueError("value: counterpart needs a variable: which counterpart?")
        if self.value != "counterpart" and self.variable is not None:
            raise ValueError("variable is of value: counterpart")
        if self.value == "counterpart" and self.reference != OWN:
            raise ValueError("counterparts are of the recipe's own episodes (reference: episodes)")
        return self


FigureName: TypeAlias = Literal[
    "bars", "positions", "scatter", "patterns", "histogram", "rates", "story", "heatmap", "dose", "none"
]
Figures = Annotated[
    tuple[FigureName, ...],
    AT_LEAST_ONE,
    Field(description="one figure, or several"),
    BeforeValidator(listed, json_schema_input_type=FigureName | list[FigureName]),
]


def _spot(value: object) -> object:
    """One message for whatever else it is."""
    if isinstance(value, str) and value:
        return value
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MOST_PLACES:
        return value
    raise ValueError(f"must be a number from 1 to {MOST_PLACES}, `last`, or the name of a span")


MOST_PLACES = 100_000
OneSpot: TypeAlias = Annotated[int | str, PlainValidator(_spot, json_schema_input_type=int | str)]
Spots: TypeAlias = Annotated[
    tuple[OneSpot, ...],
    Field(description="numbers, from 1; `last`, the prompt's last token; names of spans"),
    BeforeValidator(listed, json_schema_input_type=int | str | list[int | str]),
]


TwoSpots: TypeAlias = Annotated[
    tuple[OneSpot, OneSpot],
    Field(description="two places of the prompt: numbers, from 1; `last`; names of spans of as many tokens"),
]


# A recipe object holds the task itself; its file says where the task comes from.
TaskField: TypeAlias = Annotated[
    Task,
    PlainValidator(lambda given: given),
    PlainSerializer(lambda task: task.source, return_type=str | dict[str, str]),
    WithJsonSchema(TaskFile.model_json_schema() | {"type": ["string", "object"]}),
    Field(description="a file of prompts, relative to the recipe's (default: the task of the checkpoint)"),
]


@dataclass(frozen=True)
class Learning:
    """How the subspaces of a recipe are learnt, where it has any to learn."""

    train: Selection
    variable: str
    epochs: int
    rate: float


class Recipe(Strict):
    """The keys of every recipe. A kind is one file with a subclass: its own keys, and the runs that they stand for."""

    clean_condition: ClassVar[str] = "clean"  # what the clean run is called
    clean_end: ClassVar[End] = ""  # whether it is an end of a scale
    ablates: ClassVar[bool] = True  # does it use `ablation`?
    by_paths: ClassVar[bool] = False  # does it change what a port reads, not the whole pass?
    edits: ClassVar[bool] = True  # is there anything that a frozen site can be kept from?
    takes_places: ClassVar[bool] = True  # does it use `places`?
    predicts: ClassVar[bool] = False  # does the task know the answer under the intervention?
    goes_from_site_to_site: ClassVar[bool] = False  # a number for each: is there a heatmap?
    place_key: ClassVar[str] = "places"  # which key names the places that every example must have
    place_words: ClassVar[tuple[str, ...]] = ()  # what `places` may say beside numbers, `last` and spans
    if TYPE_CHECKING:  # for pydantic a base class's keys come first, and `kind` is each class's own
        kind: str

    version: Annotated[Literal[1], Field(description="of the recipe's format")] = 1
    description: str = ""
    checkpoint: Annotated[str, Field(description="a shipped checkpoint by name, or a folder")] = DEFAULT
    task: TaskField
    episodes: Selection = Selection()
    ablation: Ablation = Ablation()
    freeze: Annotated[AnySites, Field(description="sites held at their clean values")] = ()
    places: Annotated[Spots, Field(description="edit only these places of the sequence (default: all of them)")] = ()
    measures: Annotated[tuple[Measure, ...], AT_LEAST_ONE]
    # Not `save`: whoever imported nnsight first has an attribute of that name on every object, a default to pydantic.
    tensors: Annotated[AnySites, Field(description="sites whose values are written to tensors.safetensors")] = ()
    seed: Annotated[int, Field(ge=0, description="of resampling and of the intervals")] = 0
    sweep: Annotated[
        dict[str, list[Any]],
        Field(default_factory=dict, description="keys, or words in braces, and the values of each: all combinations"),
    ]
    figure: Figures = ("bars",)

    @classmethod
    def task_fields(cls, task: Task) -> Fields:
        """Keys whose choices or words are the task's, as `create_model` takes them."""
        return {}

    def runs(self, lowering: Lowering) -> list[Run]:
        """The runs beside the clean one. What does not fit the model is noted as a fault in `lowering.names`."""
        raise NotImplementedError

    @property
    def clean_name(self) -> str:
        """What the clean run is called in this recipe."""
        return self.clean_condition

    @property
    def own_condition(self) -> str:
        """The condition in which the examples' own prompts are answered, nothing changed."""
        return self.clean_name

    @property
    def changed_variable(self) -> str | None:
        """The variable that it changes: only examples whose answer this changes are of use to it."""
        return self.ablation.variable if self.ablates else None

    @property
    def foretells(self) -> bool:
        """Is there an answer to be expected under the intervention?"""
        return self.predicts or self.changed_variable is not None

    @property
    def keeps_length(self) -> bool:
        """Has the predicted answer always as many tokens?"""
        return self.changed_variable is None or self.task.keeps_length(self.changed_variable)

    @property
    def into_counterpart(self) -> bool:
        """Is the run on the counterpart the one that is changed, with values of the clean one?"""
        return False

    @property
    def counts_places(self) -> bool:
        """Do its runs depend on how many places the examples have?"""
        return False

    @property
    def shown(self) -> str:
        """The condition that figures show, where they show one alone."""
        return ""

    @property
    def files(self) -> tuple[str, ...]:
        """Files of directions that it names: what they hold is part of the question."""
        return ()

    @property
    def depends_on_batches(self) -> bool:
        """Do its numbers follow from which examples share a batch, and so from the memory that batches may take?"""
        return self.ablation.value == "resample" or self.ablation.over == "padded"

    @property
    def varies(self) -> bool:
        """Is there something to draw a dose of?"""
        return bool(self.sweep)

    @property
    def caution(self) -> str:
        """What must be said about every number of it."""
        return ""

    @property
    def learning(self) -> Learning | None:
        """How the subspaces that its runs name are learnt."""
        return None

    @property
    def twins(self) -> tuple[Twin, ...]:
        """Controls that no run of its own plan can be: on other weights, or with other counterparts."""
        return ()

    def counterparts(self, examples: Sequence[Example]) -> list[Example | None]:
        """For each example the one that runs take values from (`Of("counterpart")`), if there are such runs."""
        variable = self.ablation.variable if self.ablates else None
        return [self.task.lender(example, variable) for example in examples] if variable else []

    def counterfactual(self, examples: Sequence[Example]) -> list[Example]:
        """The same examples with the answers that are expected under the intervention, where it `foretells` any."""
        others = self.counterparts(examples)
        return [example.answering(o.answer) for example, o in zip(examples, others, strict=True) if o is not None]


@dataclass(frozen=True)
class Twin:
    """A recipe that is run beside another one, as its control."""

    name: str
    recipe: Recipe
    random_weights: bool = False
    shuffled: bool = False  # each example has the counterpart of another one, and must give its own one's answer


class OnScale(Recipe):
    """Kinds whose conditions lie between nothing ablated, which is the clean run, and everything ablated."""

    clean_condition: ClassVar[str] = NOTHING
    clean_end: ClassVar[End] = "nothing"
