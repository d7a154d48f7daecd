"""What kinds have in common in which two tokens of the prompt exchange their positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from pydantic import Field

from steer.anatomy.named import Ports
from steer.base.fields import Fields, refined
from steer.recipe.lowering import Lowering
from steer.recipe.schema import BEFORE, Recipe, TwoSpots
from steer.tasks.task import Example, Task

AFTER = "after"


class Swap(Recipe):
    """Two tokens of the prompt exchange their positions, as seen by some ports."""

    clean_condition: ClassVar[str] = BEFORE
    ablates: ClassVar[bool] = False
    predicts: ClassVar[bool] = True
    place_key: ClassVar[str] = "tokens"
    ports: Annotated[Ports, Field(description="a head's q, k or v; globs allowed for the head")]
    tokens: TwoSpots = (1, 2)

    @classmethod
    def task_fields(cls, task: Task) -> Fields:
        return {} if task.exchange is None else {"tokens": refined(cls, "tokens", default=task.exchange.places)}

    def check_exchange(self, lowering: Lowering) -> None:
        """The task must know what an exchange of these two places does."""
        known = self.task.exchange
        if known is None and self.task.source:
            self._check_brought(lowering)
        elif known is None:
            text = f"the task {self.task.name!r} has no two tokens whose positions can be exchanged"
            lowering.names.fault(("kind",), text)
        elif set(self.tokens) != set(known.places):
            places = " and ".join(map(str, known.places))
            lowering.names.fault(("tokens",), f"must be {places}: {known.reason}")

    def _check_brought(self, lowering: Lowering) -> None:
        """Of a file of prompts any two places may be exchanged; nobody foresees the answer to that."""
        lowering.check_exchanged(("tokens",), self.tokens)
        for number, measure in enumerate(self.measures):
            if measure.foresees:
                text = "a file of prompts does not say which answer exchanged positions give"
                lowering.names.fault(("measures", number, "against"), text)

    @property
    def changed_variable(self) -> str | None:
        return self.task.exchange.variable if self.task.exchange is not None else None

    def counterfactual(self, examples: Sequence[Example]) -> list[Example]:
        known = self.task.exchange
        return [] if known is None else [self.task.exchanged(example, known.places) for example in examples]
