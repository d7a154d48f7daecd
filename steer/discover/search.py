"""From a checkpoint to its circuit: logits -> heads that write -> what feeds them -> … -> embeddings, all measured.

The order of events; the steps themselves are in the other files of this room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from steer.anatomy.layout import Layout
from steer.anatomy.nodes import Node, Site
from steer.base.version import __version__
from steer.discover.attribution_patching import compare_with_gradients
from steer.discover.choosing import choices
from steer.discover.interchange import interchange
from steer.discover.lab import Helpers, Lab
from steer.discover.prune import Pruned, judge, needed_mlps, prune
from steer.discover.roles import Score, role_scores
from steer.discover.trace import THRESHOLD, Trace, trace
from steer.discover.writers import chosen, logit_shares, without_each, writing_heads
from steer.engine.engine import Engine
from steer.models.subject import Subject
from steer.results.circuit import Circuit, Described, Edge, Member
from steer.results.evidence import Check, Estimate, Evidence, HeadSet, Kept, KeptAttention, SearchSettings
from steer.results.provenance import Weights
from steer.tasks.task import Example

EPISODES = 250  # of each kind
ABLE = 0.1  # exact match: below it the model does not do the task, and nothing is pruned
MAJORITY = 0.5  # of the way from chance to always, for a head to play a role
Tell = Callable[[float, str], None]  # progress from 0 to 1, and what is being done


@dataclass
class BestRoles:
    """Every head's best role, if it reaches the majority."""

    scores: list[Score]
    best: dict[Node, Score] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for score in self.scores:
            if score.above_chance >= MAJORITY and score.above_chance > self._so_far(score.head):
                self.best[score.head] = score

    def _so_far(self, head: Node) -> float:
        return self.best[head].above_chance if head in self.best else 0.0

    def role(self, node: Node) -> str | None:
        return self.best[node].role if node in self.best else None

    def keep_outputs(self, outputs: Sequence[Node], role: str) -> None:
        """Keep only those output heads that also write the token they look at."""
        self.best = {node: s for node, s in self.best.items() if s.role != role or node in outputs}


@dataclass(frozen=True)
class Searched:
    """Everything that a search has measured, on the episodes of `lab` and on those of them that choose."""

    lab: Lab
    choosing: Lab
    threshold: float
    roles: BestRoles
    look_alikes: Mapping[Node, Score]  # heads that fit a role, whether they matter or not
    shares: Mapping[Node, Estimate]
    outputs: Sequence[Node]  # heads that look at the next token and write it
    writers: Sequence[Node]  # heads that paths are traced from
    traces: Sequence[Trace]
    pruned: Pruned

    @property
    def edges(self) -> list[Edge]:
        return [edge for one in self.traces for edge in one.edges]

    @property
    def writing(self) -> dict[Node, Estimate]:
        """What writes a part of the right token's logit that is worth mentioning, and which part."""
        return {node: share for node, share in self.shares.items() if share.low > self.threshold / 2}


def discover(
    checkpoint: Subject, searched: Sequence[Example], judged: Sequence[Example], count: int = EPISODES,
    threshold: float = THRESHOLD, tell: Tell = lambda done, text: None, engine: Engine | None = None,
    helpers: Helpers | None = None,
) -> Circuit:  # fmt: skip
    """Search on some episodes (`count` of each kind), judge on others (twice as many)."""
    engine = engine or Engine(checkpoint.model)
    lab = Lab(checkpoint, searched[:count], engine=engine, helpers=helpers)
    choosing = Lab(checkpoint, choices(checkpoint.task, searched)[:count], engine=engine, helpers=helpers)
    result = search(lab, choosing, threshold, tell)
    circuit = circuit_of(result, SearchSettings(episodes=count, threshold=threshold))
    return verified(checkpoint, circuit, judged[: 2 * count], engine, tell, helpers) if result.pruned.core else circuit


def search(lab: Lab, choosing: Lab, threshold: float, tell: Tell) -> Searched:
    """Roles, heads that write the choice, the paths into them, and the smallest set of heads."""
    tell(0.02, "roles")
    roles = BestRoles(role_scores(choosing))
    shares = logit_shares(choosing)
    output = lab.task.output_role
    outputs = writing_heads([h for h in lab.layout.heads if roles.role(h) == output], shares, threshold)
    look_alikes = dict(roles.best)
    roles.keep_outputs(outputs, output)
    # Without heads that look at what they write, paths are traced from all heads that write.
    writers = outputs or writing_heads(lab.layout.heads, shares, threshold)
    traces = [trace(choosing, head, threshold, shrinking_steps(tell, 0.05, 0.35), bool(outputs)) for head in writers]
    able = lab.mean(lab.clean(lab.exact(), 1)) >= ABLE
    pruned = prune(lab, tell=shrinking_steps(tell, 0.35, 0.7)) if writers and able else Pruned([], [])
    return Searched(lab, choosing, threshold, roles, look_alikes, shares, outputs, writers, traces, pruned)


def circuit_of(result: Searched, settings: SearchSettings) -> Circuit:
    """What a search has measured, as a circuit that is not checked yet."""
    checkpoint, edges, threshold = result.lab.checkpoint, result.edges, result.threshold
    direct = [node for node, share in result.shares.items() if share.low > threshold]
    members = members_of(result.choosing, result.roles, result.writers, edges, direct, result.pruned.core)
    weights = checkpoint.weights
    written = {str(head): result.shares[head].value for head in result.writers}
    return Circuit(
        task=checkpoint.task.name,
        checkpoint=Described(name=weights.name, sha256=weights_id(weights), numbering=weights.numbering),
        roles=heads_in_role(checkpoint.task.roles, members, edges, written),
        members=tuple(members),
        edges=tuple(edges),
        groups=tuple(group for one in result.traces for group in one.groups),
        evidence=evidence_of(result, settings, members),
    )


def weights_id(weights: Weights) -> str:
    """What a circuit's weights are told apart by: the hash of a file, or a commit of the Hub."""
    return weights.sha256 or weights.commit


def evidence_of(result: Searched, settings: SearchSettings, members: Sequence[Member]) -> Evidence:
    count, choosing = len(result.lab.episodes), len(result.choosing.episodes)
    named = {member.node for member in members}
    return Evidence(
        settings=settings,
        prompts=result.lab.task.fingerprint,
        steer=__version__,
        searched_on=f"{count} episodes; roles and paths on {choosing} that choose",
        traced_from=tuple(map(str, result.writers)),
        read_by="attention" if result.outputs else "writing",
        ablation="mean by position over the episodes at hand (searched, or judged)",
        threshold=result.threshold,
        scale="0: everything ablated at the port of the head that writes; 1: nothing ablated",
        majority=MAJORITY,
        logit_shares={str(node): share for node, share in result.writing.items()},
        without_writer=without_each(result.lab, list(result.writing)),
        look_alikes={
            str(head): score.role
            for head, score in result.look_alikes.items()
            if result.roles.role(head) is None or str(head) not in named
        },
        curve=tuple(result.pruned.curve),
    )


def verified(
    checkpoint: Subject, circuit: Circuit, judged: Sequence[Example], engine: Engine, tell: Tell,
    helpers: Helpers | None = None,
) -> Circuit:  # fmt: skip
    """The circuit with its check on other episodes."""
    assert circuit.evidence is not None
    check = verify(checkpoint, circuit, circuit.evidence, judged, engine, tell, helpers)
    return circuit.model_copy(update={"evidence": circuit.evidence.model_copy(update={"check": check})})


def shrinking_steps(tell: Tell, start: float, end: float) -> Callable[[str], None]:
    """Progress when the number of steps is unknown: each step takes a share of what is left."""
    left = [end - start]

    def step(text: str) -> None:
        left[0] *= 0.93
        tell(end - left[0], text)

    return step


def verify(
    checkpoint: Subject, circuit: Circuit, evidence: Evidence, episodes: Sequence[Example], engine: Engine,
    tell: Tell, helpers: Helpers | None = None,
) -> Check:  # fmt: skip
    """Check a circuit on other episodes: what it does alone, what gradients say, what interchanges do."""
    tell(0.7, "judging")
    lab = Lab(checkpoint, episodes, engine=engine, helpers=helpers)
    core = [lab.names.head(member.node) for member in circuit.members if member.core]
    writers = [lab.names.head(name) for name in evidence.traced_from]
    lead = next((head for head in writers if head in core), writers[0])
    drawn = {edge.source for edge in circuit.edges} | {*map(str, writers)}
    traced = [head for head in lab.layout.heads if str(head) in drawn]
    choosing = Lab(checkpoint, choices(checkpoint.task, episodes), engine=engine, helpers=helpers)
    attention = kept_attention(choosing, lead, core) if evidence.read_by == "attention" else None
    tell(0.8, "second opinions")
    some = Lab(checkpoint, choosing.episodes[: len(episodes) // 4], engine=engine, helpers=helpers)
    ports = [lab.names.site(name) for name in dict.fromkeys(edge.target for edge in circuit.edges)]
    agreement = compare_with_gradients(some, ports).agreement() if ports else None
    tell(0.9, "interchanges")
    known = replace(lab.names, roles={role: tuple(map(lab.names.head, heads)) for role, heads in circuit.roles.items()})
    return Check(
        judged_on=f"{len(episodes)} other episodes",
        traced_heads=HeadSet(heads=len(traced), faithfulness=kept_accuracy(lab, traced)),
        smallest_circuit=judge(lab, core, attention=attention),
        model_without=needed_mlps(lab),
        choice=chosen(choosing, writers),
        gradients=agreement,
        interchange=tuple(interchange(checkpoint, episodes, engine=engine, names=known, helpers=helpers)),
    )


def kept_accuracy(lab: Lab, heads: Sequence[Node]) -> Kept:
    """Exact match with every other head ablated, as a share of the clean model's."""
    outside = [node for node in lab.layout.heads if node not in heads]
    (ablated,) = lab.accuracy_without({"": outside}).values()
    return lab.kept(ablated, lab.clean(lab.exact(), 1))


def kept_attention(lab: Lab, head: Node, core: Sequence[Node]) -> KeptAttention:
    """An output head's attention accuracy with everything outside the circuit ablated."""
    measured = measure, reads = lab.attention(head)
    outside = [node for node in lab.layout.heads if node not in core]
    (ablated,) = lab.measure([lab.ablating("circuit", outside, reads)], measure).values()
    return KeptAttention(head=str(head), clean=lab.estimate(lab.clean(measured)), circuit=lab.estimate(ablated))


def members_of(
    lab: Lab, roles: BestRoles, writers: Sequence[Node], edges: list[Edge], direct: list[Node], core: list[Node]
) -> list[Member]:
    """The nodes on traced paths, those that write much of the choice, and the smallest set of heads."""
    traced = {edge.source for edge in edges} | {str(node) for node in (*writers, *direct)}
    members = []
    for node in lab.layout.nodes:
        if str(node) not in traced and node not in core:
            continue
        score = roles.best.get(node)
        members.append(
            Member(
                node=str(node),
                block=block_of(node, lab.layout),
                role=score.role if score else None,
                score=lab.estimate(score.tally) if score else None,
                chance=round(score.chance, 4) if score else None,
                core=node in core,
            )
        )
    return members


def block_of(node: Node, layout: Layout) -> str:
    """Where a picture of the circuit puts a node."""
    if node.layer is not None:
        return str(replace(node, head=None))
    return "prompt" if layout.sequence(Site(node)) == layout.prompt else "answer so far"


def heads_in_role(
    roles: Iterable[str], members: list[Member], edges: list[Edge], written: dict[str, float]
) -> dict[str, tuple[str, ...]]:
    """The heads of each role that matter, in order: by how much they write, then by effect, then by fit."""
    effect: dict[str, float] = {}
    for edge in edges:
        effect[edge.source] = max(edge.sufficiency.value, edge.necessity.value, effect.get(edge.source, 0.0))
    fit = {member.node: member.score.value for member in members if member.score}

    def weight(name: str) -> tuple[float, ...]:
        return tuple(-values.get(name, 0.0) for values in (written, effect, fit))

    heads = {role: [member.node for member in members if member.role == role] for role in roles}
    return {role: tuple(sorted(names, key=weight)) for role, names in heads.items() if names}
