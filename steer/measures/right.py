"""Which steps the clean run says right. The code of the paper's authors looks only at questions that are answered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias

from pydantic import Field

from steer.measures.setting import Setting
from steer.tasks.task import ANSWER

if TYPE_CHECKING:
    from torch import Tensor

    from steer.models.protocol import Batch, Reading

PAPER: Final = "paper"
AUTHORS: Final = "authors"
Definition: TypeAlias = Annotated[
    Literal["paper", "authors"],
    Field(description="as the paper's text defines it, or as its authors' code does (docs/paper.md)"),
]


def by_definition(name: str, definition: str) -> str:
    """What the rows of a measure are called: two definitions give two numbers."""
    return name if definition == PAPER else f"{name} ({definition})"


class RightSteps:
    """The steps of each batch that the clean run says right, the right ones before being fed in."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.known: dict[int, Tensor] = {}

    def of(self, batch: Batch, values: Reading) -> Tensor:
        """B T. The clean run of a batch comes first: what it said is remembered for the other conditions."""
        if batch.number not in self.known:
            logits = batch.at(ANSWER, values[self.setting.model.layout.logits])
            self.known[batch.number] = logits.argmax(-1) == self.setting.target(batch, "answer")
        return self.known[batch.number]

    def whole(self, batch: Batch, values: Reading, steps: Tensor) -> Tensor:
        """B 1: is every one of these steps (B T) right?"""
        return (self.of(batch, values) | ~steps).all(-1, keepdim=True)
