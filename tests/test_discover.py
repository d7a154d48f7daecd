"""Discovery on models whose circuit is known by construction, and on one that has none."""

from __future__ import annotations

import pytest
import torch
from handmade import chain, checkpoint, copier, episodes

from steer.circuit import Circuit
from steer.discover.search import discover
from steer.model.checkpoint import Checkpoint
from steer.model.config import ModelConfig
from steer.model.evaluate import answers
from steer.model.transformer import Transformer, initialise


def heads_of(circuit: Circuit) -> set[str]:
    return {member.node for member in circuit.members if "self" in member.node or "cross" in member.node}


def paths_of(circuit: Circuit) -> set[tuple[str, str]]:
    return {(edge.source, edge.target) for edge in circuit.edges}


def found_in(made: Checkpoint, primitives: tuple[int, int]) -> Circuit:
    searched, judged = episodes(60, primitives, seed=1), episodes(60, primitives, seed=2)
    return discover(made, searched, judged, 60).circuit


@pytest.mark.parametrize(("made", "primitives"), [(copier, (1, 1)), (chain, (2, 4)), (lambda: chain(2), (2, 4))])
def test_the_handmade_models_do_their_task(made, primitives: tuple[int, int]):
    shown = episodes(40, primitives)
    assert list(answers(made().model, shown)) == [episode.answer for episode in shown]


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
    assert circuit.evidence["smallest_circuit"]["faithfulness"]["value"] == 1.0
    assert circuit.evidence["smallest_circuit"]["heads"] == 3


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
