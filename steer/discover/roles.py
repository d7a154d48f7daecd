"""How well each head's attention fits each role of the task.

A head's score in a role is how often its most attended place is a right one, over the places to which the role
applies; chance is what a place drawn at random among the prompt's tokens would reach.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from steer.anatomy.names import Node, Site
from steer.engine.engine import Engine, Part
from steer.results.tally import Tally
from steer.tasks.task import ANSWER, PROMPT, Example, Gaze, Look


@dataclass(frozen=True)
class Score:
    """One head in one role; `tally` has the values by episode."""

    head: Node
    role: str
    value: float
    chance: float
    tally: Tally

    @property
    def above_chance(self) -> float:
        """0: no better than chance, 1: always right."""
        return (self.value - self.chance) / (1 - self.chance)


def look(head: Node) -> Look:
    """The sequence that a head attends from, and the one that it attends to."""
    own = PROMPT if head.stack == "enc" else ANSWER
    return Look(own, PROMPT if head.kind == "dec-cross" else own)


@torch.no_grad()
def role_scores(engine: Engine, episodes: Sequence[Example], parts: Sequence[Part]) -> list[Score]:
    """Every head in every role that it can play: it looks from the role's sequence into the role's sequence."""
    task = engine.task
    cast = {role: [head for head in engine.shape.all_heads if look(head) == its] for role, its in task.roles.items()}
    tallies = {(head, role): Tally(len(episodes), 1) for role, heads in cast.items() for head in heads}
    chances: dict[str, Tally] = {role: Tally(len(episodes), 1) for role in cast}
    for part in parts:
        values = engine.clean(part, {Site(head, "pattern").path for some in cast.values() for head in some})
        for role in cast:
            table = Table([task.gaze(episodes[row], role) for row in part.rows], part.prompt, engine.vocabulary.pad)
            chances[role].put(part.rows, table.mean(table.chance), table.counted)
            for head in cast[role]:
                pattern = values[Site(head, "pattern").path][:, head.head or 0]  # B T S
                tallies[head, role].put(part.rows, table.mean(table.hits(pattern)), table.counted)
    by_role = {role: _mean(tally) for role, tally in chances.items()}
    return [Score(head, role, _mean(tally), by_role[role], tally) for (head, role), tally in tallies.items()]


class Table:
    """Who should look where in a batch, as arrays: one entry for each place that looks."""

    def __init__(self, gazes: Sequence[Sequence[Gaze]], prompt: Tensor, pad: int) -> None:
        self.episodes = len(gazes)
        pairs = [(row, gaze.looks[1], [p for _, p in gaze.right]) for row, some in enumerate(gazes) for gaze in some]
        self.row = torch.tensor([row for row, _, _ in pairs], dtype=torch.long, device=prompt.device)
        self.place = torch.tensor([place for _, place, _ in pairs], dtype=torch.long, device=prompt.device)
        self.right = torch.zeros(len(pairs), prompt.shape[1], dtype=torch.bool)
        for number, (_, _, right) in enumerate(pairs):
            self.right[number, right] = True
        self.right = self.right.to(prompt.device)
        lengths = (prompt != pad).sum(1)
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
