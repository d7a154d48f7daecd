"""keep-set: everything outside a set ablated in the whole forward pass."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from steer.anatomy.named import Nodes
from steer.plan.plan import Run
from steer.recipe.lowering import ALL_KEPT, Lowering
from steer.recipe.schema import EVERYTHING, OnScale


class KeepSet(OnScale):
    """Everything outside this set is ablated in the whole forward pass."""

    kind: Literal["keep-set"]
    nodes: Annotated[Nodes, Field(description="heads or MLPs; globs allowed")]
    within: Annotated[Literal["heads", "heads-and-mlps"], Field(description="what is ablated if not kept")] = "heads"

    def runs(self, lowering: Lowering) -> list[Run]:
        names, layout = lowering.names, lowering.layout
        named = names.nodes(("nodes",), self.nodes)
        names.wanted(("nodes",), named)
        universe = [*layout.heads, *(layout.mlps if self.within == "heads-and-mlps" else ())]
        for node in named:
            if node not in universe:
                names.fault(("nodes",), f"{node} is never ablated within {self.within}, so it cannot be kept", node)
        ablated = lowering.arriving([node for node in universe if node not in named])
        if not ablated and not names.faults:
            names.fault(("nodes",), ALL_KEPT)
        if names.faults:
            return []
        return [lowering.ablation("only the set kept", ablated), lowering.ablation(EVERYTHING, universe, "everything")]
