"""Which head plays which role: how often it looks where its role says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch
from handmade import empty
from tokens import TASK, VOCABULARY

from steer.anatomy.nodes import Node, Site
from steer.discover.roles import Score, role_scores
from steer.discover.search import BestRoles
from steer.engine.session import RunOnBatch
from steer.models.plain.model import PlainModel
from steer.models.protocol import Batch, Reading
from steer.plan.plan import CLEAN, Run
from steer.results.tally import Tally
from steer.tasks.compositional.episode import Episode

HEAD = Node("enc-self", 0, 0)


def score(role: str, value: float, chance: float, head: Node = HEAD) -> Score:
    return Score(head, role, value, chance, Tally(1, 1))


def test_a_role_is_played_from_half_way_between_chance_and_always():
    assert BestRoles([score("primitive-pairing", 0.61, 0.2)]).role(HEAD) == "primitive-pairing"
    assert BestRoles([score("primitive-pairing", 0.59, 0.2)]).role(HEAD) is None
    assert BestRoles([score("primitive-pairing", 0.51, 0.0)]).role(HEAD) == "primitive-pairing"
    assert BestRoles([score("primitive-pairing", 0.70, 0.5)]).role(HEAD) is None  # often right, and so is chance


@pytest.mark.parametrize("turn", [1, -1])
def test_a_head_plays_the_role_that_it_fits_best_above_chance(turn: int):
    scores = [score("primitive-retrieval", 0.80, 0.5), score("function-retrieval", 0.75, 0.1)][::turn]
    assert BestRoles(scores).role(HEAD) == "function-retrieval"


# The paper's example: which place looks at which, written down from its Table of roles. Places count from 0:
#  0 1 2 3 4 5  6  7 8 9  10  11 12 13 14 15 16   17  18
#  B S A | A = red | B = blue  |  A  S  B  =  blue red EOS
EPISODE = replace(Episode.parse("B S A | A = red | B = blue | A S B = blue red"), answer=("red", "blue"))
LOOKS = {
    "primitive-pairing": {6: {4}, 10: {8}},
    "question-broadcast": {4: {2}, 8: {0}, 12: {2}, 13: {1}, 14: {0}},
    "primitive-retrieval": {16: {14}, 17: {12}},
    "function-retrieval": {16: {13}, 17: {13}},
    "rhs-scanner": {0: {16}, 1: {17}},
    "output": {0: {6, 17}, 1: {10, 16}},
}


class Looking:
    """A lab whose heads look where they are told to."""

    task, pad = TASK, VOCABULARY.pad

    def __init__(self, looks: dict[str, dict[int, int]], examples: list[Episode]) -> None:
        self.looks, self.model, self.episodes = looks, PlainModel(empty(1), VOCABULARY), examples
        self.layout = self.model.layout
        self.batches = [self.model.encode(examples, list(range(len(examples))))]

    def reading(self, sites: Iterable[Site]) -> Iterator[RunOnBatch]:
        for batch in self.batches:
            yield RunOnBatch(batch, Run(CLEAN), self.patterns(batch))

    def patterns(self, batch: Batch) -> Reading:
        prompt, output = (batch.tokens[name].shape[1] for name in ("prompt", "answer"))
        found: dict[str, torch.Tensor] = {}
        for node in self.layout.heads:
            hook = f"{node.kind[:3]}.0.{node.kind[4:]}_attn.pattern"
            size = prompt if node.kind == "enc-self" else output
            pattern = found.setdefault(hook, torch.zeros(len(batch.rows), 2, size, prompt))
            pattern[:, node.head, :, -1] = 0.1  # else at the end
            for place, at in self.looks.get(str(node), {}).items():
                pattern[:, node.head, place, at] = 0.9
        return Reading(self.model, found)


@pytest.mark.parametrize("role", LOOKS)
def test_a_head_scores_as_often_as_it_looks_where_its_role_says(role: str):
    wanted = LOOKS[role]
    kind = "dec-cross" if role in ("output", "rhs-scanner") else "enc-self"
    always, half = ({place: min(right) for place, right in wanted.items()} for _ in range(2))
    half[max(half)] = 3  # a bar is never right
    lab = Looking({f"{kind}-0.0": always, f"{kind}-0.1": half}, [EPISODE])
    found = {(str(s.head), s.role): s for s in role_scores(lab)}
    assert found[f"{kind}-0.0", role].value == 1.0
    assert found[f"{kind}-0.1", role].value == pytest.approx(1 - 1 / len(wanted))
    chance = np.mean([len(right) / 19 for right in wanted.values()])
    assert found[f"{kind}-0.0", role].chance == pytest.approx(chance)
