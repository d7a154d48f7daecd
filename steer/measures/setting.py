"""What all measures of one experiment share: the engine, the episodes and the answers they are held against."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from steer.anatomy.names import Node, Site
from steer.engine.engine import Engine, Part, Values
from steer.engine.values import site_value
from steer.models.batch import collate
from steer.recipe.schema import Recipe
from steer.results.tally import Floats, Tally
from steer.tasks.compositional.episode import Episode
from steer.tasks.compositional.selection import counterfactual

Row = dict[str, Any]
Details = dict[str, list[dict[str, Any]]]


class Collector(Protocol):
    """One measure in every condition. Rows are tidy numbers; details are what a figure needs beyond them."""

    def add(self, part: Part, condition: str, values: Values) -> None: ...
    def rows(self, weights: Floats) -> list[Row]: ...
    def details(self) -> Details: ...


class Setting:
    def __init__(
        self, recipe: Recipe, engine: Engine, episodes: Sequence[Episode], warnings: Mapping[str, str] | None = None
    ) -> None:
        self.recipe, self.engine, self.episodes = recipe, engine, episodes
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
            self._targets[key] = torch.from_numpy(collate(episodes).target).to(self.engine.device)
        return self._targets[key]

    def warned(self, row: Row, arrived: str = "") -> Row:
        """The row with what must be said about its condition."""
        said = [text for text in (arrived, self.warnings.get(row["condition"]), row.get("warning")) if text]
        return row | {"warning": "; ".join(said)} if said else row

    def value(self, values: Values, site: Site) -> Tensor:
        return site_value(self.engine.model, values, site)

    def heads(self, names: Sequence[str]) -> list[Node]:
        return list(dict.fromkeys(node for text in names for node in self.engine.shape.expand_heads(text)))


class TallyBook:
    """Tallies by their labels, made when they are first needed."""

    def __init__(self, episodes: int) -> None:
        self.episodes = episodes
        self.found: dict[tuple[str, ...], Tally] = {}

    def put(self, part: Part, positions: int, values: Tensor, counted: Tensor, hits: bool, **labels: str) -> None:
        tally = self.found.setdefault(tuple(labels.values()), Tally(self.episodes, positions, hits, **labels))
        tally.put_tensors(part.rows, values, counted)

    def rows(self, weights: Floats) -> list[Row]:
        return [row for tally in self.found.values() for row in tally.table(weights)]


def row_labels(condition: str, measure: str, head: str, against: str, decoding: str = "forced") -> dict[str, str]:
    """The names by which a row is found, the same for every measure."""
    return {"condition": condition, "measure": measure, "head": head, "against": against, "decoding": decoding}
