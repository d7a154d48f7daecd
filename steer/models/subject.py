"""What an experiment needs besides the recipe: a model with its names, and a task for it.

A family gives such an object for each of its checkpoints; the plain family's is `Checkpoint`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from typing_extensions import Self

from steer.anatomy.names import Names
from steer.models.protocol import Model
from steer.models.scoring import Scoring
from steer.results.provenance import Weights
from steer.tasks.task import Example, Task


class Subject(Protocol):
    @property
    def name(self) -> str: ...  # as the user gave it
    @property
    def names(self) -> Names: ...  # the model's parts, with the heads that are known to play a role
    @property
    def model(self) -> Model: ...
    @property
    def task(self) -> Task: ...
    @property
    def scoring(self) -> Scoring: ...  # what that task says about this model's tokens
    @property
    def weights(self) -> Weights: ...  # which weights these are, for provenance
    @property
    def data_seed(self) -> int: ...  # of the sets of examples that the model was trained and held out on
    def examine(self, examples: Sequence[Example]) -> None: ...  # raise unless it is fit to be studied on these
    def about(self, task: Task) -> Self: ...  # the same model with another task put to it
