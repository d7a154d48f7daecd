"""How well each head's attention fits each role of Algorithm 1.

A head's score in a role is how often its most attended place is a right one, over the places to which the role
applies; chance is what a place drawn at random among the prompt's tokens would reach.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from steer.anatomy.names import Node, Role, Site
from steer.engine.engine import Engine, Part
from steer.results.tally import Tally
from steer.tasks.compositional.episode import Episode
from steer.tasks.compositional.roles import ATTENDED, Wanted


@dataclass(frozen=True)
class Score:
    """One head in one role; `tally` has the values by episode."""

    head: Node
    role: Role
    value: float
    chance: float
    tally: Tally

    @property
    def above_chance(self) -> float:
        """0: no better than chance, 1: always right."""
        return (self.value - self.chance) / (1 - self.chance)


@torch.no_grad()
def role_scores(engine: Engine, episodes: Sequence[Episode], parts: Sequence[Part]) -> list[Score]:
    """Every head in every role that its kind can play."""
    cast = {
        role: [head for head in engine.shape.all_heads if head.kind == kind] for role, (kind, _) in ATTENDED.items()
    }
    tallies = {(head, role): Tally(len(episodes), 1) for role, heads in cast.items() for head in heads}
    chances: dict[Role, Tally] = {role: Tally(len(episodes), 1) for role in cast}
    for part in parts:
        values = engine.clean(part, {Site(head, "pattern").path for some in cast.values() for head in some})
        for role, (_, wanted) in ATTENDED.items():
            table = Table([wanted(episodes[row]) for row in part.rows], part.prompt)
            chances[role].put(part.rows, table.mean(table.chance), table.counted)
            for head in cast[role]:
                pattern = values[Site(head, "pattern").path][:, head.head or 0]  # B T S
                tallies[head, role].put(part.rows, table.mean(table.hits(pattern)), table.counted)
    by_role = {role: _mean(tally) for role, tally in chances.items()}
    return [Score(head, role, _mean(tally), by_role[role], tally) for (head, role), tally in tallies.items()]


class Table:
    """Who should look where in a batch, as arrays: one entry for each place that looks."""

    def __init__(self, wanted: Sequence[Wanted], prompt: Tensor) -> None:
        self.episodes = len(wanted)
        pairs = [(row, place, right) for row, list_ in enumerate(wanted) for place, right in list_]
        self.row = torch.tensor([row for row, _, _ in pairs], dtype=torch.long, device=prompt.device)
        self.place = torch.tensor([place for _, place, _ in pairs], dtype=torch.long, device=prompt.device)
        self.right = torch.zeros(len(pairs), prompt.shape[1], dtype=torch.bool)
        for number, (_, _, right) in enumerate(pairs):
            self.right[number, list(right)] = True
        self.right = self.right.to(prompt.device)
        lengths = (prompt != 0).sum(1)
        self.chance = self.right.sum(1) / lengths[self.row]
        self.counted = np.bincount(self.row.cpu().numpy(), minlength=self.episodes).astype(np.float64)[:, None]

    def hits(self, pattern: Tensor) -> Tensor:
        looked_at = pattern[self.row, self.place].argmax(-1)
        return self.right.gather(1, looked_at[:, None])[:, 0].double()

    def mean(self, values: Tensor) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        """The mean over each episode's entries: episodes, 1."""
        sums = np.bincount(self.row.cpu().numpy(), values.double().cpu().numpy(), minlength=self.episodes)
        return (sums / np.maximum(self.counted[:, 0], 1))[:, None]


def _mean(tally: Tally) -> float:
    total = tally.counts.sum()
    return float(tally.values.sum() / total) if total else 0.0
