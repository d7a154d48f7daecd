"""Discovery on models whose circuit is known by construction, and on one that has none."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from handmade import chain, checkpoint, copier, episodes, found_in
from oracle import hooked_forward
from tokens import answers, collate

from steer.anatomy.nodes import Node
from steer.discover import trace as tracing
from steer.discover.attribution_patching import exact_effects, gradient_scores
from steer.discover.interchange import interchange
from steer.discover.lab import Lab
from steer.discover.roles import Score, role_scores
from steer.discover.search import BestRoles
from steer.discover.table import describe
from steer.engine.engine import Engine
from steer.measures.probability import answer_likelihood
from steer.models.checkpoint import load_checkpoint
from steer.models.plain.config import ModelConfig
from steer.models.plain.transformer import Transformer, initialise
from steer.plan.plan import CLEAN, Edit, Mean, Of, Rebuilt, Run
from steer.results.circuit import Circuit, Edge
from steer.results.evidence import Estimate
from steer.results.tally import Tally
from steer.tasks.compositional.counterparts import counterpart
from steer.tasks.compositional.splits import make_splits

pytestmark = pytest.mark.usefixtures("png_only")


def heads_of(circuit: Circuit) -> set[str]:
    return {member.node for member in circuit.members if "self" in member.node or "cross" in member.node}


def paths_of(circuit: Circuit) -> set[tuple[str, str]]:
    return {(edge.source, edge.target) for edge in circuit.edges}


@pytest.mark.parametrize(("made", "primitives"), [(copier, (1, 1)), (chain, (2, 4)), (lambda: chain(2), (2, 4))])
def test_the_handmade_models_do_their_task(made, primitives: tuple[int, int]):
    shown = episodes(40, primitives)
    assert list(answers(made().transformer, shown)) == [episode.answer for episode in shown]


def test_a_copier_is_one_head():
    circuit = found_in(copier(), (1, 1))
    assert heads_of(circuit) == {"dec-cross-0.0"}
    assert circuit.roles == {"output": ("dec-cross-0.0",)}
    # Its colour always stands at the same place, so that keys have nothing to tell: a mean by position keeps them.
    assert paths_of(circuit) == {("enc.tok", "dec-cross-0.0.v")}
    assert [member.node for member in circuit.members if member.core] == ["dec-cross-0.0"]


def test_a_chain_is_found_link_by_link():
    circuit = found_in(chain(), (2, 4))
    assert heads_of(circuit) == {"enc-self-0.0", "enc-self-1.0", "dec-cross-0.0"}
    assert circuit.roles == {
        "output": ("dec-cross-0.0",),
        "primitive-pairing": ("enc-self-1.0",),
        "question-broadcast": ("enc-self-0.0",),
    }
    paths = paths_of(circuit)
    assert {path for path in paths if path[0] != "enc.tok"} == {
        ("enc-self-1.0", "dec-cross-0.0.k"),
        ("enc-self-0.0", "enc-self-1.0.v"),
    }
    words = {target for source, target in paths if source == "enc.tok"}
    assert {"enc-self-0.0.q", "enc-self-0.0.k", "dec-cross-0.0.v"} <= words
    # Tokens also set the scale of the LayerNorm before the pairing head; nothing else may be found.
    assert words <= {"enc-self-0.0.q", "enc-self-0.0.k", "dec-cross-0.0.v", "enc-self-1.0.q", "enc-self-1.0.k"}
    assert not circuit.groups
    assert circuit.evidence.check.smallest_circuit.faithfulness.value == 1.0
    assert circuit.evidence.check.smallest_circuit.heads == 3


def test_a_redundant_pair_is_a_group():
    circuit = found_in(chain(2), (2, 4))
    assert circuit.roles["question-broadcast"] in (
        ("enc-self-0.0", "enc-self-0.1"),
        ("enc-self-0.1", "enc-self-0.0"),
    )
    (group,) = circuit.groups
    assert group.target == "enc-self-1.0.v"
    assert set(group.heads) == {"enc-self-0.0", "enc-self-0.1"}
    assert group.alone.high < 0.1 < 0.5 < group.together.low


def test_random_weights_have_no_circuit():
    model = Transformer(ModelConfig(encoder_layers=2, decoder_layers=1, heads=2, d_model=32, d_head=16, d_ff=32))
    initialise(model, torch.Generator().manual_seed(0))
    circuit = found_in(checkpoint(model.requires_grad_(False).eval()), (2, 4))
    assert not circuit.roles
    assert not circuit.edges
    assert not heads_of(circuit)


def paper_tasks(count: int) -> list:
    return [episode for episode in make_splits(0).test if len(episode.question.arguments) == 2][:count]


def test_role_scores_are_what_plain_loops_count(paper_model: Transformer):
    """The output head's role in words: at each step, any token of the prompt that is the colour to come."""
    made = checkpoint(paper_model.requires_grad_(False))
    shown = make_splits(0).test[:6]
    lab = Lab(made, shown)
    scores = {(str(s.head), s.role): s for s in role_scores(lab)}
    found = []
    for head in (node for node in lab.layout.heads if node.kind == "dec-cross"):
        hits, chances = [], []
        for episode in shown:
            batch = collate([episode])
            seen = hooked_forward(paper_model, torch.from_numpy(batch.prompt), torch.from_numpy(batch.output), {})
            pattern = seen[f"dec.{head.layer}.cross_attn.pattern"][0, head.head]
            for step, colour in enumerate(episode.answer):
                hits.append(episode.prompt[int(pattern[step].argmax())] == colour)
                chances.append(episode.prompt.count(colour) / len(episode.prompt))
        found.append(sum(hits) / len(hits))
        assert scores[str(head), "output"].value == pytest.approx(found[-1])
        assert scores[str(head), "output"].chance == pytest.approx(sum(chances) / len(chances))
    assert len(set(found)) > 3  # heads that differ


def test_gradient_scores_do_not_depend_on_what_fits_into_the_budget(paper_model: Transformer):
    model = paper_model.double().requires_grad_(False)
    asked = checkpoint(model)
    labs = [Lab(asked, paper_tasks(5), engine=Engine(asked.model, budget)) for budget in (0, 1 << 30)]
    path = (labs[0].names.head("enc-self-1.2"), labs[0].names.site("dec-cross-1.4.k"))
    without, kept = (gradient_scores(lab, [path], 2) for lab in labs)
    assert labs[0].engine.store.bytes == 0 < labs[1].engine.store.bytes
    assert without == pytest.approx(kept, rel=1e-9)
    assert kept[0] != 0


def test_gradient_scores_are_the_slope_of_the_likelihood(paper_model: Transformer):
    """The first step of ablating a path, by a finite difference through plain hooks."""
    model = paper_model.double().requires_grad_(False)
    lab = Lab(checkpoint(model), paper_tasks(5))
    (batch,) = lab.batches
    prompt, output = (batch.tokens[name] for name in ("prompt", "answer"))
    for source, port in (
        ("enc-self-1.2", "dec-cross-1.4.k"),
        ("dec-cross-0.1", "dec-mlp-0"),
        ("enc.tok", "enc-self-0.2.q"),
    ):
        path = (lab.names.nodes(source)[0], lab.names.site(port))
        (score,), (exact,) = gradient_scores(lab, [path], 1), exact_effects(lab, [path])
        hook = lab.engine.steps.hook(path[1])
        edit = Edit(path[1], Rebuilt(Of(CLEAN), ((path[0], Mean()),)))
        clean = hooked_forward(model, prompt, output, {})[hook]
        worlds = lab.session([Run("ablated", (edit,), (lab.logits,), "ablated")]).worlds(batch)
        change = worlds.new(edit, clean, {}) - clean

        def likelihood(step: float, change=change, hook=hook) -> float:
            seen = hooked_forward(model, prompt, output, {hook: [lambda value: value + step * change]})
            return float(answer_likelihood(seen["logits"], lab.targets[0], lab.pad).sum())

        slope = (likelihood(1e-4) - likelihood(-1e-4)) / 2e-4
        assert -score * len(lab.episodes) == pytest.approx(slope, rel=1e-5, abs=1e-8)
        assert exact * len(lab.episodes) == pytest.approx(likelihood(0) - likelihood(1), rel=1e-6, abs=1e-8)


def test_interchange_moves_the_answers_and_other_heads_do_not():
    made, shown = load_checkpoint("seed1"), paper_tasks(30)
    rows = interchange(made, shown)
    found = {(row.variable, row.sites): row for row in rows}
    for row in rows:  # the two ends of the scale: as it answers the counterpart, and as it answers the episode itself
        others = [counterpart(episode, row.variable).answer for episode in shown]
        asked = [counterpart(episode, row.variable) for episode in shown]
        as_asked, as_it_is = (list(answers(made.transformer, some)) for some in (asked, shown))
        ends = [np.mean([a == b for a, b in zip(given, others, strict=True)]) for given in (as_asked, as_it_is)]
        assert (row.ceiling.value, row.without.value) == pytest.approx(ends, abs=1e-4)
    pairing = found["index-in-question", "primitive-pairing.z"]
    assert pairing.accuracy.value > 0.8 * pairing.ceiling.value
    assert pairing.null < 0.2
    assert pairing.without.value < 0.2


def test_a_node_is_asked_anew_for_each_port_that_it_reaches(monkeypatch: pytest.MonkeyPatch):
    """What passes through a node on its way to the keys is not what passes through it to the values."""
    asked = []

    class Stub:
        def __init__(self, lab, chain, *rest) -> None:
            self.chain = chain

        def scale(self) -> Estimate:
            return Estimate(value=1, low=1, high=1)

        def about(self, chain) -> Stub:
            return Stub(None, chain)

        def answer(self):
            asked.append(" -> ".join(map(str, self.chain)))
            if len(self.chain) > 1:
                return {}, []
            one = Estimate(value=1, low=1, high=1)
            port = str(self.chain[0])
            return {Node("enc-mlp", 1): Edge(source="enc-mlp-1", target=port, sufficiency=one, necessity=one,
                                             measured_at=port)}, []  # fmt: skip

    monkeypatch.setattr(tracing, "Question", Stub)
    head = Node("dec-cross", 0, 0)
    found = tracing.trace(Lab(chain(), episodes(4, (1, 1))), head)
    assert len(found.edges) == 3
    assert [chain for chain in asked if "->" in chain] == [f"enc-mlp-1 -> dec-cross-0.0.{port}" for port in "kqv"]


def test_heads_that_look_but_do_not_write_are_no_output_heads():
    seen, written = Node("dec-cross", 0, 0), Node("dec-cross", 1, 0)
    scores = [Score(head, "output", 0.9, 0.1, Tally(1, 1)) for head in (seen, written)]
    roles = BestRoles([*scores, Score(Node("enc-self", 0, 0), "primitive-pairing", 0.9, 0.1, Tally(1, 1))])
    roles.keep_outputs([written], "output")
    assert (roles.role(seen), roles.role(written)) == (None, "output")
    assert roles.role(Node("enc-self", 0, 0)) == "primitive-pairing"


def test_a_search_without_paths_ends_well(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("steer.discover.search.trace", lambda *given: tracing.Trace())
    found = found_in(chain(), (2, 4))
    assert found.roles["output"]
    assert found.evidence.check.smallest_circuit
    assert "gradients agree" not in describe(found)
