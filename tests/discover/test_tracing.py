"""From a search to its circuit: along which chain a node is asked, who counts as what, and what is told of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from handmade import chain, copier, episodes, two_outputs
from small import TWO, checkpoint
from tokens import ROLES

from steer.anatomy.nodes import Node, Site
from steer.discover import trace as tracing
from steer.discover.interchange import interchange
from steer.discover.keep import find_circuit
from steer.discover.lab import Lab
from steer.discover.prune import Pruned
from steer.discover.search import discover, heads_in_role, verify
from steer.engine.engine import Engine
from steer.models.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from steer.plan.plan import Run
from steer.results.circuit import Circuit, Described, Edge, Member
from steer.results.evidence import Estimate, SearchSettings


def about(value: float) -> Estimate:
    return Estimate(value=value, low=value, high=value)


# Two ways lead from enc-mlp-0 to the head: a weak one through enc-mlp-1, a strong one through enc-self-1.0.
FEEDS = {
    "dec-cross-0.0.k": {Node("enc-mlp", 1): 0.3, Node("enc-self", 1, 0): 0.9},
    "enc-mlp-1": {Node("enc-mlp", 0): 0.2},
    "enc-self-1.0.v": {Node("enc-mlp", 0): 0.8},
}


class Stub:
    """A question whose answer is written down."""

    asked: list[tuple[str, ...]]

    def __init__(self, lab: Lab, chain: Sequence[Site], *rest: object) -> None:
        self.chain = tuple(map(str, chain))

    def scale(self) -> Estimate:
        return about(1.0)

    def about(self, chain: Sequence[Site]) -> Stub:
        return Stub(None, chain)

    def answer(self) -> tuple[dict[Node, Edge], list]:
        self.asked.append(self.chain)
        port, end = self.chain[0], self.chain[-1]
        return {
            node: Edge(
                source=str(node), target=port, sufficiency=about(size), necessity=about(0), measured_at=end
            )
            for node, size in FEEDS.get(port, {}).items()
        }, []  # fmt: skip


def test_a_node_is_asked_along_the_strongest_chain_that_leads_to_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tracing, "Question", Stub)
    monkeypatch.setattr(Stub, "asked", [], raising=False)
    tracing.trace(Lab(chain(), episodes(4, (1, 1))), Node("dec-cross", 0, 0))
    assert [way for way in Stub.asked if way[0] == "enc-mlp-0"] == [("enc-mlp-0", "enc-self-1.0.v", "dec-cross-0.0.k")]


def test_a_head_that_looks_is_no_output_head_even_where_it_is_needed(monkeypatch: pytest.MonkeyPatch):
    """It is part of the circuit, then, without the role: `$output` must not mean it."""
    monkeypatch.setattr("steer.discover.search.prune", lambda lab, **given: Pruned([(4, 1.0)], list(lab.layout.heads)))
    found = discover(two_outputs(0.05, 3.0), episodes(40, (1, 1), 1), episodes(40, (1, 1), 2), 40)
    assert found.roles["output"] == ("dec-cross-0.1",)
    roles = {member.node: member.role for member in found.members}
    assert (roles["dec-cross-0.0"], roles["dec-cross-0.1"]) == (None, "output")
    assert found.evidence.look_alikes == {"dec-cross-0.0": "output"}
    assert found.evidence.check.smallest_circuit.faithfulness.value == 1.0  # nothing is outside: as the model itself


def test_the_attention_that_a_circuit_keeps_is_of_a_head_in_it():
    """Of two output heads the one that writes more is ablated with everything else outside the smallest set."""
    made, judged = two_outputs(3.0, 1.0), episodes(40, (1, 1), 2)
    found = discover(made, episodes(40, (1, 1), 1), judged, 40)
    assert found.evidence.traced_from == ("dec-cross-0.0", "dec-cross-0.1")
    for name in found.evidence.traced_from:
        members = tuple(member.model_copy(update={"core": member.node == name}) for member in found.members)
        other = found.model_copy(update={"members": members})
        told = verify(made, other, found.evidence, judged, Engine(made.model), lambda done, text: None)
        assert told.smallest_circuit.output_attention.head == name


def test_without_heads_that_look_paths_are_judged_by_what_is_written(monkeypatch: pytest.MonkeyPatch):
    given = two_outputs(1.0, 3.0), episodes(40, (1, 1), 1), episodes(40, (1, 1), 2), 40
    assert discover(*given).evidence.read_by == "attention"
    monkeypatch.setattr("steer.discover.search.role_scores", lambda lab: [])
    found = discover(*given)
    assert found.evidence.read_by == "writing"
    assert found.evidence.traced_from == ("dec-cross-0.1", "dec-cross-0.0")
    assert found.evidence.check.smallest_circuit.output_attention is None
    assert not found.roles


@pytest.mark.parametrize("turn", [1, -1])
def test_a_head_matters_as_much_as_its_strongest_path(turn: int):
    """Whichever of its paths was found last."""
    sizes = [("enc-self-0.0", 0.9), ("enc-self-0.1", 0.5), ("enc-self-0.0", 0.2)][::turn]
    edges = [
        Edge(source=name, target="enc-self-1.0.v", sufficiency=about(size), necessity=about(0), measured_at="x")
        for name, size in sizes
    ]
    members = [
        Member(node=f"enc-self-0.{n}", block="enc-self-0", role="question-broadcast", score=about(score))
        for n, score in enumerate((0.6, 0.9))
    ]
    assert heads_in_role(ROLES, members, edges, {}) == {"question-broadcast": ("enc-self-0.0", "enc-self-0.1")}


@pytest.mark.parametrize(("made", "primitives", "heads"), [(copier, (1, 1), 1), (chain, (2, 4), 3)])
def test_the_heads_on_traced_paths_are_their_sources_and_where_they_lead(made, primitives: tuple[int, int], heads: int):
    """By construction each of them is needed and they are enough."""
    found = discover(made(), episodes(60, primitives, 1), episodes(60, primitives, 2), 60)
    told = found.evidence.check.traced_heads
    assert told.heads == heads
    assert told.faithfulness.value == 1.0


def test_other_heads_are_drawn_again_for_every_null(monkeypatch: pytest.MonkeyPatch):
    drawn: dict[str, set[tuple[str, ...]]] = {}
    measure = Lab.measure

    def look(self: Lab, runs: Iterable[Run], *given: object) -> dict:
        for run in (runs := list(runs)):
            name, null, _ = str(run.condition).partition(" null ")
            if null:
                drawn.setdefault(name, set()).add(tuple(str(edit.site) for edit in run.edits))
        return measure(self, runs, *given)

    monkeypatch.setattr(Lab, "measure", look)
    rows = interchange(checkpoint(), TWO)
    assert drawn.keys() == {row.sites for row in rows if row.null is not None}
    assert all(len(sets) > 1 for sets in drawn.values())


@pytest.mark.parametrize("same", [True, False])
def test_a_forced_search_says_when_recipes_go_by_other_roles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, same):
    """A shipped checkpoint keeps the circuit that it came with, whatever a new search finds."""
    shipped = load_checkpoint("seed1").circuit
    other = shipped.model_copy(update={"roles": {"output": ("dec-cross-0.0",)}})

    def found(bare: Checkpoint, *given: object) -> Circuit:
        assert bare.circuit is None  # what is known is not looked at
        return shipped if same else other

    monkeypatch.setattr("steer.discover.sought.discover", found)
    monkeypatch.setattr("steer.discover.keep.draw_all", lambda *given: [])
    told = find_circuit("seed1", tmp_path, SearchSettings(episodes=20, threshold=0.1), force=True)
    assert (told.known, told.differs) == (False, not same)
    assert load_checkpoint("seed1").circuit == shipped


def test_a_search_uses_the_episodes_that_were_held_out_from_the_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    tiny, given = load_checkpoint("tiny"), []
    record = tiny.record.model_copy(update={"protocol": tiny.record.protocol | {"data_seed": 7}})
    save_checkpoint(tmp_path / "mine", tiny.transformer, record)

    def found(checkpoint: Checkpoint, searched: object, judged: object, *rest: object) -> Circuit:
        given.extend((searched, judged))
        return Circuit(checkpoint=Described(name="mine", sha256=checkpoint.record.weights_sha256))

    sets = {seed: {name: f"{name} of {seed}" for name in ("train", "validation", "test")} for seed in (0, 7)}
    monkeypatch.setattr("steer.discover.sought.discover", found)
    monkeypatch.setattr("steer.tasks.compositional.task.make_splits", lambda seed=0: sets[seed])
    find_circuit(str(tmp_path / "mine"), tmp_path / "out", SearchSettings(episodes=20, threshold=0.1))
    assert given == ["validation of 7", "test of 7"]
