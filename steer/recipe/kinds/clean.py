"""clean: no intervention."""

from __future__ import annotations

from typing import ClassVar, Literal

from steer.plan.plan import Run
from steer.recipe.lowering import Lowering
from steer.recipe.schema import Recipe


class CleanRun(Recipe):
    """No intervention: measure only."""

    ablates: ClassVar[bool] = False
    edits: ClassVar[bool] = False
    takes_places: ClassVar[bool] = False
    kind: Literal["clean"]

    def runs(self, lowering: Lowering) -> list[Run]:
        return []
