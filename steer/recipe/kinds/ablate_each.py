"""ablate-each: who is needed? Every node alone ablated in the whole forward pass."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from steer.anatomy.named import Nodes
from steer.plan.plan import Run
from steer.recipe.lowering import Lowering
from steer.recipe.schema import OnScale


class AblateEach(OnScale):
    """Each of these nodes alone is ablated in the whole forward pass: what is left without it?"""

    goes_from_site_to_site: ClassVar[bool] = True
    kind: Literal["ablate-each"]
    nodes: Annotated[Nodes, Field(description="heads or MLPs, one after the other; globs allowed")]

    def runs(self, lowering: Lowering) -> list[Run]:
        nodes = lowering.changing(("nodes",), self.nodes)
        lowering.names.wanted(("nodes",), nodes)
        if lowering.names.faults:
            return []
        runs = [(node, lowering.ablation(f"without {node}", [node])) for node in nodes]
        return [replace(run, site=str(lowering.layout.write(node))) for node, run in runs]
