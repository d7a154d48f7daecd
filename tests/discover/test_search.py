"""The search's steps on made-up models: a function says what is left when only some components are kept.

So every sufficiency, necessity, faithfulness and gap is known in closed form, and the episodes can differ as much as a
test wants: a mean above a line says nothing as long as its interval holds the line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import pytest
from handmade import chain, copier, two_outputs
from handmade import episodes as simple
from tokens import TASK, answers

from steer.anatomy.nodes import Node, Site
from steer.discover.lab import Lab
from steer.discover.prune import judge, prune
from steer.discover.search import discover
from steer.discover.trace import Question
from steer.models.plain.config import ModelConfig
from steer.models.plain.layout import plain_layout
from steer.plan.plan import Mean, Rebuilt, Run
from steer.results.tally import Tally, bootstrap_weights

COUNT = 100
LAYOUT = plain_layout(ModelConfig(encoder_layers=2, decoder_layers=1, heads=2))
UNSURE = np.where(np.arange(COUNT) % 2, 0.65, -0.35)  # 0.15 on average, from 0.05 to 0.25
Kept = frozenset[str]
Made = Callable[[Kept], object]  # a number, or one for each episode


class MadeUp(Lab):
    """A lab without a model: `value` of the components that are kept, of those that there are."""

    def __init__(self, value: Made, components: Iterable[Node | str]) -> None:
        self.layout, self.value, self.components = LAYOUT, value, frozenset(map(str, components))
        self.episodes, self.seed, self.task = simple(COUNT, (1, 1)), 0, TASK
        self.weights = bootstrap_weights(COUNT, 0, 400)

    def tally(self, kept: Kept) -> Tally:
        found = Tally(COUNT, 1)
        found.put(list(range(COUNT)), np.zeros((COUNT, 1)) + np.reshape(self.value(kept), (-1, 1)), np.ones((COUNT, 1)))
        return found

    def clean(self, measure, positions: int = 1) -> Tally:
        return self.tally(self.components)

    def measure(self, runs: Iterable[Run], measure, positions: int = 1) -> dict[str, Tally]:
        return {run.condition: self.tally(self.left(run)) for run in runs}

    def left(self, run: Run) -> Kept:
        """What a run keeps, by the meaning of its edits."""
        edits = list(run.edits)
        if len(edits) == 1 and isinstance(edits[0].value, Rebuilt):
            value = edits[0].value
            changed = frozenset(str(node) for node, _ in value.changes)
            return changed if isinstance(value.rest, Mean) else self.components - changed
        return self.components - {str(edit.site.node) for edit in edits}


# Paths into a port


PORT = Site(Node("dec-cross", 0, 0), "k")
SOURCES = LAYOUT.sources(PORT)
A, B, C, D = (f"enc-self-{layer}.{head}" for layer in (0, 1) for head in (0, 1))
TOK, POS = "enc.tok", "enc.pos"


def asked(value: Made, threshold: float = 0.1):
    lab = MadeUp(value, [*SOURCES, "beside"])  # beside: what reaches the head by other ports
    question = Question(lab, (PORT,), lambda batch, values: None, [Site(PORT.node, "pattern")], threshold)
    edges, groups = question.answer()
    return {str(node): edge for node, edge in edges.items()}, groups


def test_a_path_is_an_edge_when_its_whole_interval_is_above_the_threshold():
    def value(kept: Kept):
        parts = {A: 0.65, B: 0.15, C: 0.05, TOK: 0.15}
        alone = UNSURE if D in kept and A not in kept else 0.0  # as much as B on average, and perhaps nothing
        return alone + sum(amount for name, amount in parts.items() if name in kept)

    edges, groups = asked(value)
    assert set(edges) == {A, B, TOK}
    assert (edges[A].sufficiency.value, edges[A].necessity.value) == pytest.approx((0.65, 0.5))
    assert edges[B].sufficiency.low <= 0.15 <= edges[B].sufficiency.high
    assert not groups
    stricter, _ = asked(value, threshold=0.2)
    assert {name for name, edge in stricter.items() if edge.in_company is None} == {A}


def test_sufficient_is_alone_kept_and_necessary_is_alone_ablated():
    def value(kept: Kept) -> float:
        together = 0.5 * (A in kept and B in kept) + 0.3 * (C in kept or D in kept)
        return 0.1 + together + 0.3 * (TOK in kept)  # nothing kept: 0.1, everything: 1.2

    edges, _ = asked(value)
    told = {name: (edge.sufficiency.value, edge.necessity.value) for name, edge in edges.items()}
    share = {n: pytest.approx(n / 1.1, abs=1e-4) for n in (0, 0.3, 0.5)}
    assert told == {A: (share[0], share[0.5]), B: (share[0], share[0.5]), C: (share[0.3], share[0]),
                    D: (share[0.3], share[0]), TOK: (share[0.3], share[0.3])}  # fmt: skip
    assert {edge.target for edge in edges.values()} == {str(PORT)}


def test_what_is_lost_is_lost_from_the_clean_run():
    """Other ports pass something on as well: there when a source is ablated, gone when it alone is kept."""
    edges, _ = asked(lambda kept: 0.3 * ("beside" in kept) + 0.5 * (A in kept) + 0.2 * (TOK in kept))
    told = {name: (edge.sufficiency.value, edge.necessity.value) for name, edge in edges.items()}
    assert told == {A: (0.5, 0.5), TOK: (0.2, 0.2)}


def test_heads_that_stand_in_for_one_another_are_a_group():
    edges, groups = asked(lambda kept: 0.8 * bool(kept & {A, C}) + 0.2 * (TOK in kept))
    assert set(edges) == {A, C, TOK}
    (group,) = groups
    assert set(group.heads) == {A, C}
    assert group.target == str(PORT)
    assert (group.alone.value, group.together.value) == pytest.approx((0, 0.8))


@pytest.mark.parametrize(
    "value",
    [
        lambda kept: 0.4 * (A in kept) + 0.4 * (C in kept) + 0.2 * (TOK in kept),  # each does its own part
        lambda kept: 0.8 * bool(kept & {A, TOK}) + 0.2 * (C in kept),  # an embedding is no head
        lambda kept: UNSURE * bool(kept & {A, C}) + 0.85 * (TOK in kept),  # perhaps nothing at all
    ],
)
def test_heads_that_add_up_or_may_do_nothing_are_no_group(value: Made):
    assert not asked(value)[1]


def test_a_source_that_shows_only_in_company_is_found():
    """B adds to what A passes on; alone it passes on nothing, and D stands in for it when it is gone."""
    edges, _ = asked(lambda kept: 0.6 * (A in kept) + 0.4 * (A in kept and bool(kept & {B, D})))
    (joined,) = [edge for name, edge in edges.items() if name != A]
    assert joined.source in (B, D)
    assert joined.in_company is not None
    assert joined.in_company.value == pytest.approx(0.4)
    assert edges[A].in_company is None


def test_company_that_adds_next_to_nothing_is_not_wanted():
    edges, _ = asked(lambda kept: 0.8 * (A in kept) + sum(0.04 for name in (B, C, D, TOK, POS) if name in kept))
    assert set(edges) == {A}
    wild = 0.15 + 3 * (UNSURE - 0.15)  # may as well take away
    edges, _ = asked(lambda kept: 0.8 * (A in kept) + wild * (A in kept and B in kept))
    assert set(edges) == {A}


@pytest.mark.parametrize(("threshold", "found"), [(0.1, set()), (0.01, {A})])
def test_a_port_is_asked_in_units_of_the_output_heads_own_scale(threshold: float, found: set[str]):
    """Of a scale from 0 to 1 this port passes on 0.02, whatever share of its own that is."""
    lab = MadeUp(lambda kept: 0.98 + 0.02 * (A in kept), SOURCES)
    nothing = Tally(COUNT, 1)
    nothing.counts[:] = 1
    ends = (lab.tally(lab.components), nothing)
    question = Question(lab, (PORT,), lambda batch, values: None, [Site(PORT.node, "pattern")], threshold, ends)
    edges, _ = question.answer()
    assert {str(node) for node in edges} == found
    assert all(edge.sufficiency.value == pytest.approx(0.02) for edge in edges.values())


# Whole circuits


HEADS = LAYOUT.heads
NEED = {"enc-self-0.1", "enc-self-1.0", "dec-cross-0.0"}


def test_pruning_leaves_what_is_needed():
    lab = MadeUp(lambda kept: 0.8 * (kept >= NEED) + 0.01 * len(kept), HEADS)
    pruned = prune(lab)
    assert {str(head) for head in pruned.core} == NEED
    for size, exact in pruned.curve:
        assert exact == pytest.approx(0.01 * size + 0.8 * (size >= 3))


@pytest.mark.parametrize(("keep", "left"), [(0.92, 8), (0.85, 7), (0.6, 5), (0.2, 2)])
def test_pruning_stops_where_too_little_is_kept(keep: float, left: int):
    pruned = prune(MadeUp(lambda kept: 0.9 * len(kept) / 8, HEADS), keep)
    assert len(pruned.core) == left
    assert all(exact == pytest.approx(0.9 * size / 8) for size, exact in pruned.curve)
    assert pruned.curve[0][0] == 8
    assert pruned.curve[-1][0] == 0


@pytest.mark.parametrize("size", [2, 3, 6])
def test_random_circuits_are_as_large_as_the_circuit(size: int):
    """What is kept depends on how many heads are, and on nothing else."""
    told = judge(MadeUp(lambda kept: 0.8 * len(kept) / 8, HEADS), HEADS[:size])
    for number in ("mean", "min", "max"):
        assert getattr(told.random_circuits, number) == pytest.approx(size / 8)
        assert getattr(told.model_without_random, number) == pytest.approx(1 - size / 8)
    assert told.heads == size
    assert told.clean.value == pytest.approx(0.8)
    assert told.faithfulness.value == pytest.approx(size / 8)
    assert told.model_without_circuit.value == pytest.approx(1 - size / 8)
    assert told.everything_ablated.value == 0
    assert set(told.minimality.values()) == {0.125}
    assert told.completeness.max_gap == pytest.approx(1 - size / 8)


def test_random_circuits_are_drawn_and_differ():
    found = judge(MadeUp(lambda kept: float("dec-cross-0.0" in kept), HEADS), HEADS[:4]).random_circuits
    assert (found.min, found.max) == (0, 1)
    assert 0.2 < found.mean < 0.8


def test_a_circuit_is_judged_by_what_it_keeps_without_the_rest():
    core = [head for head in HEADS if str(head) in NEED]
    told = judge(MadeUp(lambda kept: 0.6 * (kept >= NEED) + 0.1 * ("dec-cross-0.1" in kept) + 0.1, HEADS), core)
    assert told.faithfulness.value == pytest.approx(0.7 / 0.8)
    assert told.model_without_circuit.value == pytest.approx(0.2 / 0.8)
    assert told.minimality == pytest.approx(dict.fromkeys(map(str, core), 0.6 / 0.8))
    assert told.completeness.mean_gap == pytest.approx(0.1 / 0.8)
    assert told.completeness.model_keeps == pytest.approx(0.2 / 0.8)


def test_a_circuits_interval_is_told_with_the_episodes_it_was_judged_on():
    """Half of the episodes are done by the circuit, for sure; of 100 that is 0.5 ± 0.1."""
    told = judge(MadeUp(lambda kept: np.arange(COUNT) % 2 if len(kept) < 8 else 1.0, HEADS), HEADS[:4])
    found = told.faithfulness
    assert found.value == 0.5
    assert (found.low, found.high) == pytest.approx((0.4, 0.6), abs=0.03)


# Whole searches


@pytest.mark.parametrize(("first", "second"), [(1.0, 3.0), (3.0, 1.0)])
def test_the_output_head_that_writes_most_leads(first: float, second: float):
    found = discover(two_outputs(first, second), simple(40, (1, 1), 1), simple(40, (1, 1), 2), 40)
    heads = ["dec-cross-0.0", "dec-cross-0.1"]
    assert found.roles["output"] == tuple(heads if first > second else heads[::-1])
    shares = [found.evidence.logit_shares[head].value for head in heads]
    assert shares[0] / shares[1] == pytest.approx(first / second, rel=1e-3)
    assert 0.9 < sum(shares) <= 1.1


def test_a_head_that_looks_and_writes_next_to_nothing_is_no_output_head():
    found = discover(two_outputs(0.05, 3.0), simple(40, (1, 1), 1), simple(40, (1, 1), 2), 40)
    assert found.roles["output"] == ("dec-cross-0.1",)


@pytest.mark.parametrize(("first", "second"), [(0.4, 1.0), (1.0, 0.4)])
def test_the_head_of_a_role_that_matters_most_leads(first: float, second: float):
    made = chain(2)
    block = made.transformer.enc[0]["self_attn"]
    block.W_O.weight[:, :32] *= first
    block.W_O.weight[:, 32:] *= second
    found = discover(made, simple(60, (2, 4), 1), simple(60, (2, 4), 2), 60)
    assert found.roles["question-broadcast"][0] == f"enc-self-0.{int(second > first)}"


def test_a_circuit_is_judged_on_other_episodes_than_it_was_chosen_on():
    """With one primitive the output head does it alone; with several it needs the chain that nobody searched for."""
    easy, hard = simple(60, (1, 1), 1), simple(60, (3, 4), 2)
    found = discover(chain(), easy, hard, 60)
    assert "dec-cross-0.0" in found.roles["output"]
    told = found.evidence.check.smallest_circuit
    assert told.clean.value == 1.0
    assert told.faithfulness.value < 0.6
    gaze = told.output_attention
    assert gaze.clean.value == 1.0
    assert gaze.circuit.value < 0.6  # the keys are not told any more which colour is asked for
    assert "60" in found.evidence.check.judged_on
    again = discover(chain(), easy, easy, 60)
    assert again.evidence.check.smallest_circuit.faithfulness.value == 1.0


def test_a_model_that_answers_little_is_judged_by_what_it_answers():
    """The copier among several colours: it is right by luck, and that is its whole scale."""
    made, easy, hard = copier(), simple(60, (1, 1), 1), simple(120, (3, 4), 2)
    found = discover(made, easy, hard, 60).evidence.check.smallest_circuit
    lucky = np.mean(
        [given == episode.answer for given, episode in zip(answers(made.transformer, hard), hard, strict=True)]
    )
    assert 0.05 < lucky < 0.7
    assert found.clean.value == pytest.approx(lucky, abs=1e-4)
    assert found.clean.low < lucky < found.clean.high
    assert found.faithfulness.value == pytest.approx(1.0)
