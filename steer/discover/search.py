"""From a checkpoint to its circuit: logits -> output heads -> what feeds them -> … -> embeddings, each step measured.

The order of events; the steps themselves are in the other files of this room.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from steer.circuit import Circuit, Described, Edge, Estimate, Group, Member
from steer.discover.lab import Lab
from steer.discover.prune import Pruned, judge, prune
from steer.discover.roles import Score, role_scores
from steer.discover.trace import THRESHOLD, trace
from steer.measure.tally import Tally
from steer.model.checkpoint import Checkpoint
from steer.names import ROLES, Node, Role
from steer.task.splits import make_splits
from steer.version import __version__

MAJORITY = (
    0.5  # of the way from chance to always: a head plays a role if it attends as the role says more often than not
)
Tell = Callable[[str], None]


@dataclass
class Discovery:
    """A circuit, and what was seen on the way to it."""

    circuit: Circuit
    report: dict[str, Any]
    pruned: Pruned | None = None


@dataclass
class Cast:
    """Who plays what: every head's best role, if it reaches the majority."""

    scores: list[Score]
    best: dict[Node, Score] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for score in self.scores:
            if score.above_chance >= MAJORITY and score.above_chance > self._so_far(score.head):
                self.best[score.head] = score

    def _so_far(self, head: Node) -> float:
        return self.best[head].above_chance if head in self.best else 0.0

    def role(self, node: Node) -> Role | None:
        return self.best[node].role if node in self.best else None


def discover(
    checkpoint: Checkpoint, episodes: int = 300, threshold: float = THRESHOLD, tell: Tell = lambda text: None
) -> Discovery:
    """Search on the validation episodes, judge on the test episodes."""
    splits = make_splits(checkpoint.record.data_seed)
    lab = Lab(checkpoint, splits["validation"][:episodes])
    tell("roles")
    cast = Cast(role_scores(lab.engine, lab.episodes, lab.parts))
    shares = logit_shares(lab)
    outputs = output_heads(lab, cast, shares, threshold)
    edges: list[Edge] = []
    groups: list[Group] = []
    for head in outputs:
        found = trace(lab, head, threshold, tell)
        edges, groups = edges + found.edges, groups + found.groups
    direct = [node for node, share in shares.items() if share.low > threshold]
    pruned = prune(lab, tell=tell) if outputs else None
    tell("judging")
    core = pruned.core if pruned else []
    members = cast_members(lab, cast, outputs, edges, direct, core)
    judged = judge(Lab(checkpoint, splits["test"][: 2 * episodes]), core) if outputs else None
    evidence = {
        "steer": __version__,
        "searched_on": f"{len(lab.episodes)} validation episodes",
        "judged_on": f"{2 * episodes} test episodes",
        "ablation": "mean by position over the searched episodes",
        "threshold": threshold,
        "scale": "0: everything ablated at the output head's port; 1: nothing ablated",
        "majority": MAJORITY,
        "logit_shares": {str(node): share.model_dump() for node, share in shares.items() if share.value > threshold},
        "heads_that_look_the_part": look_alikes(cast, members),
        "curve": [list(point) for point in pruned.curve] if pruned else [],
        "smallest_circuit": judged,
        "runs": lab.runs_made,
    }
    circuit = Circuit(
        checkpoint=Described(name=checkpoint.name, sha256=checkpoint.record.weights_sha256),
        roles=players(members, edges, shares),
        members=tuple(members), edges=tuple(edges), groups=tuple(groups), evidence=evidence,
    )  # fmt: skip
    return Discovery(circuit, evidence, pruned)


@torch.no_grad()
def logit_shares(lab: Lab) -> dict[Node, Estimate]:
    """Each decoder component's part of the right token's logit, as a share of all of it."""
    writers = [node for node in lab.shape.writers if node.stack == "dec"]
    tallies = {node: lab.clean(lab.share(node)[0]) for node in writers}
    total = Tally(len(lab.episodes), 1)
    total.values = sum((tally.values.sum(1, keepdims=True) for tally in tallies.values()), start=total.values)
    total.counts = next(iter(tallies.values())).counts.sum(1, keepdims=True)
    if lab.estimate(total).low <= 0:  # the model does not favour the right token: no share of it means anything
        return {}
    return {node: lab.interval(lambda mean, t=t: mean(t) / mean(total)) for node, t in tallies.items()}  # type: ignore[misc]


def output_heads(lab: Lab, cast: Cast, shares: dict[Node, Estimate], threshold: float) -> list[Node]:
    """Heads that look at the next token and write it, by how much they write."""
    found = [
        head
        for head in lab.shape.all_heads
        if cast.role(head) == "output" and head in shares and shares[head].low > threshold / 2
    ]
    return sorted(found, key=lambda head: -shares[head].value)


def cast_members(
    lab: Lab, cast: Cast, outputs: list[Node], edges: list[Edge], direct: list[Node], core: list[Node]
) -> list[Member]:
    traced = {edge.source for edge in edges} | {str(node) for node in (*outputs, *direct)}
    members = []
    for node in lab.shape.writers:
        if str(node) not in traced and node not in core:
            continue
        score = cast.best.get(node)
        members.append(
            Member(
                node=str(node),
                role=score.role if score else None,
                score=lab.estimate(score.tally) if score else None,
                chance=round(score.chance, 4) if score else None,
                core=node in core,
            )
        )
    return members


def players(members: list[Member], edges: list[Edge], shares: dict[Node, Estimate]) -> dict[Role, tuple[str, ...]]:
    """The heads of each role that were found to matter, the one that matters most first."""
    written = {str(node): share.value for node, share in shares.items()}
    effect: dict[str, float] = {}
    for edge in edges:
        effect[edge.source] = max(edge.sufficiency.value, edge.necessity.value, effect.get(edge.source, 0.0))
    roles: dict[Role, tuple[str, ...]] = {}
    for role in ROLES:
        names = [member.node for member in members if member.role == role]
        weight = written if role == "output" else effect
        if names:
            roles[role] = tuple(sorted(names, key=lambda name: -weight.get(name, 0.0)))
    return roles


def look_alikes(cast: Cast, members: list[Member]) -> dict[str, str]:
    """Heads that attend as a role says but were not found to matter."""
    inside = {member.node for member in members}
    return {str(head): score.role for head, score in cast.best.items() if str(head) not in inside}
