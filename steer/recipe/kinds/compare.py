"""compare: several interventions on the whole forward pass, side by side with the clean run."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator
from typing_extensions import Self

from steer.anatomy.named import AnyNodes
from steer.anatomy.nodes import Node
from steer.base.errors import Key
from steer.base.yaml import AT_LEAST_ONE, Strict
from steer.plan.plan import Run
from steer.recipe.lowering import ALL_KEPT, Lowering
from steer.recipe.schema import EVERYTHING, NOTHING, UNCHANGED, Recipe


class Condition(Strict):
    """One intervention among several that are compared: `ablate` these, or ablate all `among` these but `keep`."""

    name: Annotated[str, Field(min_length=1, description="what its rows and panels are called")]
    ablate: Annotated[AnyNodes, Field(description="heads or MLPs; globs allowed")] = ()
    keep: Annotated[AnyNodes, Field(description="heads or MLPs; globs allowed")] = ()
    among: Annotated[AnyNodes, Field(description="what is ablated if not kept; globs allowed")] = ()

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if bool(self.ablate) == bool(self.among):
            raise ValueError("give either ablate, or keep with among")
        if self.keep and not self.among:
            raise ValueError("keep needs among: what is ablated if not kept")
        return self


class Compare(Recipe):
    """Several interventions on the whole forward pass, side by side with the clean run."""

    kind: Literal["compare"]
    conditions: Annotated[tuple[Condition, ...], AT_LEAST_ONE]

    @model_validator(mode="after")
    def _different_names(self) -> Self:
        names = ["clean", NOTHING, UNCHANGED, EVERYTHING, *(condition.name for condition in self.conditions)]
        if len(set(names)) < len(names):
            raise ValueError(f"conditions: each needs a name of its own, and {', '.join(names[:4])} are taken")
        return self

    def runs(self, lowering: Lowering) -> list[Run]:
        chosen = [_chosen(condition, lowering, ("conditions", n)) for n, condition in enumerate(self.conditions)]
        if lowering.names.faults:
            return []
        if all(nodes is None for nodes in chosen):
            lowering.names.fault(("conditions",), "no head of this checkpoint plays these roles: nothing is compared")
        # A condition on roles that this checkpoint may lack (`$…:any`) is left out where it lacks them.
        return [
            lowering.ablation(condition.name, nodes)
            for condition, nodes in zip(self.conditions, chosen, strict=True)
            if nodes is not None
        ]


def _chosen(condition: Condition, lowering: Lowering, key: Key) -> list[Node] | None:
    """The nodes that a condition ablates; None if nothing that it names is there."""
    names = lowering.names
    if condition.ablate:
        return lowering.changing((*key, "ablate"), condition.ablate) or None
    kept, among = names.nodes((*key, "keep"), condition.keep), names.nodes((*key, "among"), condition.among)
    for node in kept:
        if node not in among and not names.faults:
            names.fault((*key, "keep"), f"{node} is not among those that are ablated if not kept", node)
    if condition.keep and not kept:
        return None
    rest = [node for node in lowering.ablatable((*key, "among"), among) if node not in kept]
    ablated = lowering.arriving(rest)
    if not ablated and not names.faults:
        names.fault(key, ALL_KEPT)
    return ablated
