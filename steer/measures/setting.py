"""What all measures of one experiment share: the model, the episodes and the answers they are compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from torch import Tensor

from steer.anatomy.nodes import Node
from steer.models.checkpoint import Checkpoint
from steer.models.protocol import Batch, Reading
from steer.recipe.predicted import counterfactual
from steer.recipe.schema import Recipe
from steer.results.details import Detail
from steer.results.rows import Labels, Row
from steer.results.tally import Floats, Tally
from steer.tasks.task import Example


class Collector(Protocol):
    """One measure in every condition. Rows are tidy numbers; details are what a figure needs beyond them."""

    def add(self, batch: Batch, condition: str, values: Reading) -> None: ...
    def rows(self, weights: Floats) -> list[Row]: ...
    def details(self) -> Sequence[Detail]: ...


class Setting:
    def __init__(
        self, recipe: Recipe, checkpoint: Checkpoint, episodes: Sequence[Example],
        warnings: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        self.recipe, self.names, self.model, self.episodes = recipe, checkpoint.names, checkpoint.plain, episodes
        self.task, self.vocabulary, self.scoring = checkpoint.task, checkpoint.vocabulary, checkpoint.scoring
        self.warnings = warnings or {}  # condition -> what its numbers must not be read without
        self.answers = {"answer": list(episodes)}
        if any(measure.against != "answer" for measure in recipe.measures):
            self.answers["counterfactual"] = counterfactual(episodes, recipe)
        self._targets: dict[tuple[int, str], Tensor] = {}

    def target(self, batch: Batch, against: str) -> Tensor:
        """The tokens that each step should say: B T."""
        key = (batch.number, against)
        if key not in self._targets:
            self._targets[key] = self.model.encode(self.answers[against], batch.rows).target
        return self._targets[key]

    def alternatives(self, batch: Batch) -> list[tuple[int, ...]]:
        """For each example of a batch the tokens whose mean logit a logit is compared with."""
        return self.scoring.alternatives([self.episodes[row] for row in batch.rows])

    def warned(self, row: Row, arrived: str = "") -> Row:
        """The row with what must be said about its condition."""
        texts = (arrived, self.warnings.get(row.condition), row.warning)
        return replace(row, warning="; ".join(text for text in texts if text))

    def heads(self, texts: Sequence[str]) -> list[Node]:
        return list(dict.fromkeys(node for text in texts for node in self.names.heads(text)))


class TallyBook:
    """Tallies by their labels, made when they are first needed."""

    def __init__(self, episodes: int) -> None:
        self.episodes = episodes
        self.tallies: dict[Labels, Tally] = {}

    def put(self, batch: Batch, positions: int, values: Tensor, counted: Tensor, hits: bool, labels: Labels) -> None:
        tally = self.tallies.setdefault(labels, Tally(self.episodes, positions, hits, labels))
        tally.put_tensors(batch.rows, values, counted)

    def rows(self, weights: Floats) -> list[Row]:
        return [row for tally in self.tallies.values() for row in tally.table(weights)]
