"""From a checkpoint to its circuit: logits -> output heads -> what feeds them -> … -> embeddings, each step measured.

The order of events; the steps themselves are in the other files of this room.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from steer.circuit import Circuit, Described, Edge, Estimate, Member
from steer.discover.abstraction import interchange
from steer.discover.gradients import opinions
from steer.discover.lab import Lab
from steer.discover.prune import Pruned, judge, prune
from steer.discover.roles import Score, role_scores
from steer.discover.trace import THRESHOLD, trace
from steer.measure.tally import Tally
from steer.model.checkpoint import Checkpoint
from steer.names import ROLES, Node, Role
from steer.task.episode import Episode
from steer.version import __version__

EPISODES = 250  # of each kind
ABLE = 0.1  # exact match: below it there is nothing of the task to be faithful to
MAJORITY = 0.5  # of the way from chance to always, for a head to play a role
Tell = Callable[[float, str], None]  # how far, and a word on what is done


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

    def keep_outputs(self, outputs: Sequence[Node]) -> None:
        """To look at the next token is not enough for an output head: it writes it, too."""
        self.best = {node: s for node, s in self.best.items() if s.role != "output" or node in outputs}


def discover(
    checkpoint: Checkpoint, searched: Sequence[Episode], judged: Sequence[Episode], count: int = EPISODES,
    threshold: float = THRESHOLD, tell: Tell = lambda done, text: None,
) -> Circuit:  # fmt: skip
    """Search on some episodes (so many of each kind), judge on others (twice as many)."""
    lab = Lab(checkpoint, searched[:count])
    choosing = Lab(checkpoint, choices(searched)[:count])
    tell(0.02, "roles")
    cast = Cast(role_scores(lab.engine, lab.episodes, lab.parts))
    shares = logit_shares(lab)
    outputs = output_heads(lab, cast, shares, threshold)
    look_alikes = dict(cast.best)
    cast.keep_outputs(outputs)
    traces = [trace(choosing, head, threshold, creeping(tell, 0.05, 0.35)) for head in outputs]
    edges = [edge for found in traces for edge in found.edges]
    able = lab.mean(lab.clean(lab.exact()[0], 1)) >= ABLE
    pruned = prune(lab, tell=creeping(tell, 0.35, 0.7)) if outputs and able else Pruned([], [])
    direct = [node for node, share in shares.items() if share.low > threshold]
    members = cast_members(lab, cast, outputs, edges, direct, pruned.core)
    circuit = Circuit(
        checkpoint=Described(name=checkpoint.name, sha256=checkpoint.record.weights_sha256),
        roles=players(members, edges, shares),
        members=tuple(members),
        edges=tuple(edges),
        groups=tuple(group for found in traces for group in found.groups),
        evidence={
            "steer": __version__,
            "searched_on": f"{len(lab.episodes)} episodes; paths on {len(choosing.episodes)} where an index is chosen",
            "ablation": "mean by position over the episodes at hand (searched, or judged)",
            "threshold": threshold,
            "scale": "0: everything ablated at the output head's port; 1: nothing ablated",
            "majority": MAJORITY,
            "logit_shares": {str(n): share.model_dump() for n, share in shares.items() if share.low > threshold / 2},
            "look_alikes": {
                str(head): score.role
                for head, score in look_alikes.items()
                if cast.role(head) is None or str(head) not in {member.node for member in members}
            },
            "curve": [list(point) for point in pruned.curve],
        },
    )
    if pruned.core:
        evidence = verify(checkpoint, circuit, judged[: 2 * count], tell)
        circuit = circuit.model_copy(update={"evidence": circuit.evidence | evidence})
    return circuit


def creeping(tell: Tell, start: float, end: float) -> Callable[[str], None]:
    """Progress where nobody knows how many steps there are: each takes a share of what is left."""
    left = [end - start]

    def step(text: str) -> None:
        left[0] *= 0.93
        tell(end - left[0], text)

    return step


def verify(checkpoint: Checkpoint, circuit: Circuit, episodes: Sequence[Episode], tell: Tell) -> dict[str, Any]:
    """Is it right? On other episodes: what the circuit does alone, what gradients say, what interchanges do."""
    tell(0.7, "judging")
    lab = Lab(checkpoint, episodes)
    core = [lab.shape.one_head(member.node) for member in circuit.members if member.core]
    outputs = [lab.shape.one_head(name) for name in circuit.roles["output"]]
    lead = next((head for head in outputs if head in core), outputs[0])
    drawn = {edge.source for edge in circuit.edges} | {*circuit.roles["output"]}
    traced = [head for head in lab.shape.all_heads if str(head) in drawn]
    tell(0.8, "second opinions")
    some = Lab(checkpoint, choices(episodes)[: len(episodes) // 4])
    ports = [lab.shape.site(name) for name in dict.fromkeys(edge.target for edge in circuit.edges)]
    said = opinions(some, ports) if ports else None
    tell(0.9, "interchanges")
    known = Checkpoint(checkpoint.model, checkpoint.record, checkpoint.name, circuit)
    return {
        "judged_on": f"{len(episodes)} other episodes",
        "traced_heads": {"heads": len(traced), "faithfulness": kept_accuracy(lab, traced).model_dump()},
        "smallest_circuit": judge(lab, core) | {"output_attention": kept_attention(lab, lead, core)},
        "second_opinions": {"paths": len(said.paths), "rank_correlation_with_exact": said.agreement()}
        | {"approximation": "linear after the port; exact effects are measured by running each path"}
        if said
        else None,
        "interchange": interchange(known, episodes),
    }


def kept_accuracy(lab: Lab, heads: Sequence[Node]) -> Estimate:
    """Exact match with every other head ablated, as a share of the clean model's."""
    clean = lab.clean(lab.exact()[0], 1)
    outside = [node for node in lab.shape.all_heads if node not in heads]
    (found,) = lab.accuracy_without({"": outside}).values()
    return lab.interval(lambda mean: mean(found) / mean(clean))


def kept_attention(lab: Lab, head: Node, core: Sequence[Node]) -> dict[str, Any]:
    """An output head's attention accuracy with everything outside the circuit ablated."""
    measure, reads = lab.attention(head)
    outside = [node for node in lab.shape.all_heads if node not in core]
    (found,) = lab.measure([lab.ablating("circuit", outside, reads)], measure).values()
    return {
        "head": str(head),
        "clean": lab.estimate(lab.clean(measure)).model_dump(),
        "circuit": lab.estimate(found).model_dump(),
    }


def choices(episodes: Sequence[Episode]) -> list[Episode]:
    """Those in which an index has to be chosen: with one argument there is nothing to choose."""
    return [episode for episode in episodes if len(episode.question.arguments) == 2] or list(episodes)


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
    """The heads of each role that were found to matter, the one that matters most first (then: that fits best)."""
    written = {str(node): share.value for node, share in shares.items()}
    effect: dict[str, float] = {}
    for edge in edges:
        effect[edge.source] = max(edge.sufficiency.value, edge.necessity.value, effect.get(edge.source, 0.0))
    fit = {member.node: member.score.value for member in members if member.score}
    roles: dict[Role, tuple[str, ...]] = {}
    for role in ROLES:
        names = [member.node for member in members if member.role == role]
        weight = written if role == "output" else effect
        if names:
            roles[role] = tuple(sorted(names, key=lambda name: (-weight.get(name, 0.0), -fit.get(name, 0.0))))
    return roles
