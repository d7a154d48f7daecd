"""ablate-set: some nodes ablated in the whole forward pass."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from steer.anatomy.named import Nodes
from steer.plan.plan import Run
from steer.recipe.lowering import Lowering
from steer.recipe.schema import OnScale


class AblateSet(OnScale):
    """These nodes are ablated in the whole forward pass."""

    kind: Literal["ablate-set"]
    nodes: Annotated[Nodes, Field(description="heads or MLPs; globs allowed")]

    def runs(self, lowering: Lowering) -> list[Run]:
        nodes = lowering.changing(("nodes",), self.nodes)
        lowering.names.wanted(("nodes",), nodes)
        return [] if lowering.names.faults else [lowering.ablation("set ablated", nodes)]
