"""What a recipe may say: one closed schema, a class for each kind of experiment.

Unknown keys are refused, every choice is spelled out, and no value names Python code. What is the task's to say (which
examples, variables and labels there are) is a plain word here; `recipe_schema` makes the schema of one task of it.
Whether the names in a recipe exist in a given model is checked later, by `lower`.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, TypeAlias

from pydantic import BeforeValidator, Field, model_validator
from typing_extensions import Self

from steer.base.shipped import DEFAULT
from steer.base.yaml import AT_LEAST_ONE, Strict
from steer.plan.plan import ENDS
from steer.tasks.task import Selection, Task

OWN = "episodes"  # the recipe's own


def _listed(value: object) -> object:
    """One name may be written without brackets."""
    return [value] if isinstance(value, str) else value


Names = Annotated[tuple[str, ...], BeforeValidator(_listed, json_schema_input_type=str | list[str])]
SomeNames = Annotated[tuple[str, ...], AT_LEAST_ONE, BeforeValidator(_listed, json_schema_input_type=str | list[str])]


class Ablation(Strict):
    """What stands in for a value that is ablated."""

    value: Literal["mean", "zero", "resample"] = "mean"
    over: Annotated[
        Literal["position", "token"], Field(description="mean at each position, or one mean over all tokens")
    ] = "position"
    reference: Annotated[str, Field(description="episodes that give the mean: the recipe's own, or a split")] = OWN

    @model_validator(mode="after")
    def _from_its_own(self) -> Self:
        if self.value == "resample" and self.reference != OWN:
            raise ValueError("resample takes values of the recipe's own episodes (reference: episodes)")
        return self


class AttentionMeasure(Strict):
    """`accuracy`: the most attended token is the right next one. `mass`: how much attention right tokens get."""

    name: Literal["attention-accuracy", "attention-mass"]
    heads: Annotated[SomeNames, Field(description="heads to measure")]
    against: Annotated[
        Literal["answer", "counterfactual"], Field(description="the right answer, or {program}'s under the swap")
    ] = "answer"


class AnswerMeasure(Strict):
    """`exact-match`: the whole answer is right. `token-accuracy`: each next token is, given those before it."""

    name: Literal["exact-match", "token-accuracy"]
    against: Annotated[
        Literal["answer", "counterfactual", "neither"], Field(description="neither: any answer but those two")
    ] = "answer"
    decoding: Annotated[
        Literal["greedy", "forced"], Field(description="the model's own tokens are fed back, or the right ones")
    ] = "forced"


class AttributionMeasure(Strict):
    """How much of the right token's logit (above the mean {token}'s) each decoder component writes."""

    name: Literal["logit-attribution"]
    components: Annotated[SomeNames, Field(description="decoder heads, MLPs, embeddings; globs allowed")] = ("dec*",)
    against: Literal["answer"] = "answer"


class RSquaredMeasure(Strict):
    """How much of an activation's variance a label explains, with its first two principal components."""

    name: Literal["r-squared"]
    site: Annotated[str, Field(description="whose activations: a head's port, a stream, an MLP")]
    label: str
    tokens: str  # which tokens carry the label
    against: Literal["answer"] = "answer"


class PatternMeasure(Strict):
    """Attention from token to token on one episode."""

    name: Literal["attention-pattern"]
    heads: Annotated[SomeNames, Field(description="heads to show")]
    episode: Annotated[int, Field(ge=0, description="which of the recipe's episodes, from 0")] = 0
    against: Literal["answer"] = "answer"


class AlignmentMeasure(Strict):
    """What a head would copy from a {token} token, times the unembedding rows of that {token} and of the others."""

    name: Literal["ov-alignment"]
    heads: Annotated[SomeNames, Field(description="dec-cross heads to measure")]
    against: Literal["answer"] = "answer"


Measure: TypeAlias = Annotated[
    AttentionMeasure | AnswerMeasure | AttributionMeasure | RSquaredMeasure | PatternMeasure | AlignmentMeasure,
    Field(discriminator="name"),
]
FigureName: TypeAlias = Literal["bars", "positions", "scatter", "patterns", "histogram", "rates", "none"]
Figures = Annotated[
    tuple[FigureName, ...],
    AT_LEAST_ONE,
    Field(description="one figure, or several"),
    BeforeValidator(_listed, json_schema_input_type=FigureName | list[FigureName]),
]


class Common(Strict):
    version: Annotated[Literal[1], Field(description="of the recipe's format")] = 1
    description: str = ""
    checkpoint: Annotated[str, Field(description="a shipped checkpoint by name, or a folder")] = DEFAULT
    task: ClassVar[Task]  # set by `recipe_schema`
    episodes: Selection = Selection()
    ablation: Ablation = Ablation()
    freeze: Annotated[Names, Field(description="sites held at their clean values")] = ()
    places: Annotated[
        tuple[Annotated[int, Field(ge=1, le=4096)], ...],
        Field(description="edit only these places of the sequence, counted from 1 (default: all of them)"),
    ] = ()
    measures: Annotated[tuple[Measure, ...], AT_LEAST_ONE]
    # Not `save`: whoever imported nnsight first has an attribute of that name on every object, a default to pydantic.
    tensors: Annotated[Names, Field(description="sites whose values are written to tensors.safetensors")] = ()
    seed: Annotated[int, Field(ge=0, description="of resampling and of the intervals")] = 0
    figure: Figures = ("bars",)


class KeepOnlyOne(Common):
    """All direct sources of the target are ablated but one: is that one sufficient?"""

    kind: Literal["keep-only-one"]
    target: Annotated[SomeNames, Field(description="a head's q, k or v")]
    sources: Annotated[SomeNames, Field(description="heads, MLPs, embeddings; globs allowed")]


class AblateOnlyOne(Common):
    """One direct source of the target is ablated: is it necessary?"""

    kind: Literal["ablate-only-one"]
    target: Annotated[SomeNames, Field(description="a head's q, k or v")]
    sources: Annotated[SomeNames, Field(description="heads, MLPs, embeddings; globs allowed")]


class ChainedPatch(Common):
    """source -> chain[0] -> chain[1] …: what reaches the last port through this chain alone."""

    kind: Literal["chained-patch"]
    sources: Annotated[SomeNames, Field(description="swept at the chain's start; globs allowed")]
    chain: Annotated[tuple[str, ...], Field(min_length=1, description="ports, in order: each head feeds the next port")]
    mode: Literal["keep-only-one", "ablate-only-one"] = "keep-only-one"
    others: Annotated[
        Literal["ablated", "clean"], Field(description="the other direct paths into the later ports of the chain")
    ] = "ablated"


class PositionSwap(Common):
    """Two question tokens exchange their position embeddings, as seen by these ports alone."""

    kind: Literal["position-swap"]
    ports: Annotated[SomeNames, Field(description="a head's q, k or v; globs allowed for the head")]
    tokens: Annotated[tuple[int, int], Field(description="places in the question, counted from 1")] = (1, 2)


class SteeredSet(Strict):
    """Sites that are changed together."""

    name: Annotated[str, Field(min_length=1)]
    sites: SomeNames


class Steer(Common):
    """One variable of {program} is changed at some sites: does the answer become the one that the algorithm gives?

    `counterpart`: the sites take their values from the run on a prompt that differs in this variable alone.
    `positions`: {exchanged}' position embeddings are exchanged, as seen by these ports.
    """

    kind: Literal["steer"]
    variable: Annotated[str, Field(description="what is changed")]
    by: Annotated[Literal["counterpart", "positions"], Field(description="how it is changed")] = "counterpart"
    sets: Annotated[tuple[SteeredSet, ...], AT_LEAST_ONE, Field(description="each a condition of its own")]
    control: Annotated[
        str | None, Field(description="name of a set: as many other heads of the same blocks are changed instead")
    ] = None


class AblateSet(Common):
    """These nodes are ablated in the whole forward pass."""

    kind: Literal["ablate-set"]
    nodes: Annotated[SomeNames, Field(description="heads or MLPs; globs allowed")]


class KeepSet(Common):
    """Everything outside this set is ablated in the whole forward pass."""

    kind: Literal["keep-set"]
    nodes: Annotated[SomeNames, Field(description="heads or MLPs; globs allowed")]
    within: Annotated[Literal["heads", "heads-and-mlps"], Field(description="what is ablated if not kept")] = "heads"


class Condition(Strict):
    """One intervention among several that are compared: `ablate` these, or ablate all `among` these but `keep`."""

    name: Annotated[str, Field(min_length=1, description="what its rows and panels are called")]
    ablate: Annotated[Names, Field(description="heads or MLPs; globs allowed")] = ()
    keep: Annotated[Names, Field(description="heads or MLPs; globs allowed")] = ()
    among: Annotated[Names, Field(description="what is ablated if not kept; globs allowed")] = ()

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if bool(self.ablate) == bool(self.among):
            raise ValueError("give either ablate, or keep with among")
        if self.keep and not self.among:
            raise ValueError("keep needs among: what is ablated if not kept")
        return self


class Compare(Common):
    """Several interventions on the whole forward pass, side by side with the clean run."""

    kind: Literal["compare"]
    conditions: Annotated[tuple[Condition, ...], AT_LEAST_ONE]

    @model_validator(mode="after")
    def _different_names(self) -> Self:
        names = ["clean", *ENDS, *(condition.name for condition in self.conditions)]
        if len(set(names)) < len(names):
            raise ValueError(f"conditions: each needs a name of its own, and {', '.join(names[:4])} are taken")
        return self


class CleanRun(Common):
    """No intervention: measure only."""

    kind: Literal["clean"]


Recipe: TypeAlias = (
    KeepOnlyOne | AblateOnlyOne | ChainedPatch | PositionSwap | Steer | AblateSet | KeepSet | Compare | CleanRun
)
