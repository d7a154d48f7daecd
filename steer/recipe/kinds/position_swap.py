"""position-swap: two tokens of the prompt exchange their position embeddings, as seen by some ports alone."""

from __future__ import annotations

from typing import Literal

from steer.plan.plan import Run
from steer.recipe.edits import exchange
from steer.recipe.lowering import Lowering
from steer.recipe.swap import AFTER, Swap


class PositionSwap(Swap):
    """Two tokens of the prompt exchange their position embeddings, as seen by these ports alone."""

    kind: Literal["position-swap"]

    def runs(self, lowering: Lowering) -> list[Run]:
        names = lowering.names
        named = names.ports(("ports",), self.ports)
        self.check_exchange(lowering)
        lowering.check_selection("a swap")
        lowering.check_positions(("ports",), named)
        names.wanted(("ports",), named)
        ports = lowering.reach.sites(("ports",), named)
        if names.faults:
            return []
        return [lowering.run(AFTER, exchange(lowering.layout, ports, self.tokens, self.places))]
