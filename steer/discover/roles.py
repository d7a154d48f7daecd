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

from steer.anatomy.layout import Layout
from steer.anatomy.nodes import Node, Site
from steer.discover.lab import Lab
from steer.results.tally import Tally
from steer.tasks.task import ANSWER, PROMPT, Gaze, Look


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


def look(layout: Layout, head: Node) -> Look:
    """The sequence that a head attends from, and the one that it attends to."""
    words = {layout.prompt: PROMPT, layout.answer: ANSWER}
    return Look(words[layout.sequence(Site(head, "q"))], words[layout.looks_at(head)])


def role_scores(lab: Lab) -> list[Score]:
    """Every head in every role that it can play: it looks from the role's sequence into the role's sequence."""
    task, layout, count = lab.task, lab.layout, len(lab.episodes)
    if not task.roles:
        return []
    heads = {role: [h for h in layout.heads if look(layout, h) == its] for role, its in task.roles.items()}
    tallies = {(head, role): Tally(count, 1) for role, some in heads.items() for head in some}
    chances: dict[str, Tally] = {role: Tally(count, 1) for role in heads}
    patterns = {head: Site(head, "pattern") for some in heads.values() for head in some}
    for ran in lab.reading(patterns.values()):
        batch = ran.batch
        for role in heads:
            gazes = [task.gaze(lab.episodes[row], role) for row in batch.rows]
            table = Table(gazes, batch.tokens[layout.prompt], lab.pad)
            chances[role].put(batch.rows, table.mean(table.chance), table.counted)
            for head in heads[role]:
                hits = table.hits(ran.values[patterns[head]])  # of B T S
                tallies[head, role].put(batch.rows, table.mean(hits), table.counted)
    by_role = {role: _mean(tally) for role, tally in chances.items()}
    return [Score(head, role, _mean(tally), by_role[role], tally) for (head, role), tally in tallies.items()]


class Table:
    """Which places of a batch should look where, as arrays: one entry for each place that looks."""

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
