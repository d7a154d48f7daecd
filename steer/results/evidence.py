"""How a circuit was found and how far it can be trusted: the evidence in a `circuit.yaml`.

Shares are of the clean model's exact match, unless a field says otherwise.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AliasChoices, Field

from steer.base.yaml import Strict


class Estimate(Strict):
    """A number with its 95 % interval."""

    value: float
    low: float
    high: float


class Kept(Estimate):
    """The share of the accuracy that is left: on all examples, and on each group of them."""

    groups: Annotated[dict[str, Estimate], Field(default_factory=dict)]


class Spread(Strict):
    """Several shares, such as those of random sets of heads."""

    mean: float
    min: float
    max: float


class GroupedSpread(Spread):
    groups: Annotated[dict[str, Spread], Field(default_factory=dict)]


class SearchSettings(Strict):
    """The settings of a search. A search with the same settings on the same weights is not repeated."""

    episodes: int
    threshold: float


class HeadSet(Strict):
    """Heads kept alone, all others ablated."""

    heads: int
    faithfulness: Kept


class Completeness(Strict):
    """The circuit and the whole model without the same small sets of heads: how far apart are they?"""

    subsets: int
    mean_gap: float
    max_gap: float
    model_keeps: float


class KeptAttention(Strict):
    """An output head's attention accuracy in the whole model, and in the circuit alone."""

    head: str
    clean: Estimate
    circuit: Estimate


class SmallestSet(HeadSet):
    """The smallest set of heads that does the task by itself."""

    clean: Annotated[Estimate, Field(description="exact match of the whole model")]
    random_circuits: GroupedSpread
    everything_ablated: Estimate
    model_without_circuit: Estimate
    model_without_random: Spread
    completeness: Completeness | None = None
    minimality: Annotated[dict[str, float], Field(description="head -> what is lost without it", default_factory=dict)]
    output_attention: KeptAttention | None = None


class Ablation(Strict):
    """A number in the whole model, and with some heads ablated."""

    clean: Estimate
    ablated: Estimate


class Choice(Strict):
    """How often the right token is said, and how often its rival: in the clean model, and without some heads."""

    without: tuple[str, ...]
    right: Ablation
    # The second name is that of older files.
    rival: Annotated[Ablation, Field(validation_alias=AliasChoices("rival", "other_argument"))]


class GradientAgreement(Strict):
    """Rank correlation of gradient scores with exact effects, over the paths of a circuit."""

    paths: int
    eap: float | None
    eap_ig: float | None
    approximation: str = "linear after the port; exact effects are measured by running each path"


class Interchange(Strict):
    """How often the answer changes as predicted when some sites take their values from a counterpart."""

    variable: str
    sites: str
    heads: tuple[str, ...]
    accuracy: Annotated[Estimate, Field(description="answers as predicted")]
    null: Annotated[float | None, Field(description="the same at as many other heads; none: too few of them")] = None
    without: Annotated[Estimate, Field(description="the same with nothing changed")]
    ceiling: Annotated[Estimate, Field(description="the model's own answers to the counterpart")]
    examples: int


class Check(Strict):
    """The circuit judged on examples that the search did not use."""

    judged_on: str
    traced_heads: HeadSet
    smallest_circuit: SmallestSet
    model_without: Annotated[dict[str, Kept], Field(description="MLP -> what the whole model keeps without it")]
    choice: Choice
    gradients: GradientAgreement | None = None
    interchange: tuple[Interchange, ...] = ()


class Evidence(Strict):
    """How the circuit was searched, what else the search saw, and the check."""

    settings: SearchSettings | None = None
    prompts: Annotated[str, Field(description="SHA-256 of the file of prompts, if the examples stand in one")] = ""
    steer: str
    searched_on: str
    traced_from: tuple[str, ...]
    read_by: Literal["attention", "writing"]
    ablation: str
    threshold: float
    scale: str
    majority: float
    logit_shares: Annotated[dict[str, Estimate], Field(description="who writes the choice", default_factory=dict)]
    without_writer: Annotated[
        dict[str, Estimate],
        Field(description="who of them is needed: the accuracy kept without each alone", default_factory=dict),
    ]
    look_alikes: Annotated[dict[str, str], Field(description="head -> role that it fits", default_factory=dict)]
    curve: Annotated[tuple[tuple[int, float], ...], Field(description="heads kept, exact match")] = ()
    check: Annotated[Check | None, Field(description="none: the model does not do the task")] = None
