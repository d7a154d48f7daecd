"""What all measures of one experiment share: the engine, the episodes and the answers they are compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import torch
from torch import Tensor

from steer.anatomy.names import Node, Site
from steer.engine.engine import Engine, Part, Values
from steer.engine.values import site_value
from steer.models.batch import collate
from steer.recipe.predicted import counterfactual
from steer.recipe.schema import Recipe
from steer.results.details import Detail
from steer.results.rows import Labels, Row
from steer.results.tally import Floats, Tally
from steer.tasks.task import Example


class Collector(Protocol):
    """One measure in every condition. Rows are tidy numbers; details are what a figure needs beyond them."""

    def add(self, part: Part, condition: str, values: Values) -> None: ...
    def rows(self, weights: Floats) -> list[Row]: ...
    def details(self) -> Sequence[Detail]: ...


class Setting:
    def __init__(
        self, recipe: Recipe, engine: Engine, episodes: Sequence[Example], warnings: Mapping[str, str] | None = None
    ) -> None:
        self.recipe, self.engine, self.episodes = recipe, engine, episodes
        self.task, self.vocabulary, self.scoring = engine.task, engine.vocabulary, engine.scoring
        self.warnings = warnings or {}  # condition -> what its numbers must not be read without
        self.answers = {"answer": list(episodes)}
        if any(measure.against != "answer" for measure in recipe.measures):
            self.answers["counterfactual"] = counterfactual(episodes, recipe)
        self._targets: dict[tuple[int, str], Tensor] = {}

    def target(self, part: Part, against: str) -> Tensor:
        """The tokens that each step should say: B T."""
        key = (part.number, against)
        if key not in self._targets:
            episodes = [self.answers[against][row] for row in part.rows]
            self._targets[key] = torch.from_numpy(collate(episodes, self.engine.vocabulary).target).to(
                self.engine.device
            )
        return self._targets[key]

    def alternatives(self, part: Part) -> list[tuple[int, ...]]:
        """For each example of a batch the tokens whose mean logit a logit is held against."""
        return self.scoring.alternatives([self.episodes[row] for row in part.rows])

    def warned(self, row: Row, arrived: str = "") -> Row:
        """The row with what must be said about its condition."""
        texts = (arrived, self.warnings.get(row.condition), row.warning)
        return replace(row, warning="; ".join(text for text in texts if text))

    def value(self, values: Values, site: Site) -> Tensor:
        return site_value(self.engine.model, values, site)

    def heads(self, names: Sequence[str]) -> list[Node]:
        return list(dict.fromkeys(node for text in names for node in self.engine.shape.expand_heads(text)))


class TallyBook:
    """Tallies by their labels, made when they are first needed."""

    def __init__(self, episodes: int) -> None:
        self.episodes = episodes
        self.tallies: dict[Labels, Tally] = {}

    def put(self, part: Part, positions: int, values: Tensor, counted: Tensor, hits: bool, labels: Labels) -> None:
        tally = self.tallies.setdefault(labels, Tally(self.episodes, positions, hits, labels))
        tally.put_tensors(part.rows, values, counted)

    def rows(self, weights: Floats) -> list[Row]:
        return [row for tally in self.tallies.values() for row in tally.table(weights)]
