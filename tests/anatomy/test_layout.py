"""A layout's answers about data flow, by hand, by another rule, and against real forward passes."""

from __future__ import annotations

import random

import pytest
import torch
from spelled import named, sites
from tokens import VOCABULARY
from torch import Tensor

from steer.anatomy.layout import Layout, carrier, touched
from steer.anatomy.names import Names
from steer.anatomy.nodes import BETWEEN_TOKENS, INPUT_PORTS, PORTS, Node, Site, parse_node, parse_site
from steer.models.plain.config import ModelConfig
from steer.models.plain.layout import plain_layout
from steer.models.plain.model import PlainModel
from steer.models.plain.transformer import Transformer
from steer.models.protocol import Batch, Reading, head_axis, token_axis
from steer.tasks.compositional.splits import make_splits

DEPTHS = [(1, 1), (2, 3), (3, 1)]  # encoder, decoder


def config(encoder: int, decoder: int) -> ModelConfig:
    return ModelConfig(encoder_layers=encoder, decoder_layers=decoder, heads=2, d_model=12, d_head=5, d_ff=9)


@pytest.fixture(params=DEPTHS, ids=str)
def layout(request: pytest.FixtureRequest) -> Layout:
    return plain_layout(config(*request.param))


@pytest.fixture(params=DEPTHS, ids=str)
def model(request: pytest.FixtureRequest) -> PlainModel:
    module = Transformer(config(*request.param)).double().eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64) * 0.6)
    return PlainModel(module.requires_grad_(False), VOCABULARY)


# The plain layout by hand: two encoder layers, one decoder layer, two heads.

ENCODER = "enc.tok enc.pos enc-self-0.0 enc-self-0.1 enc-mlp-0 enc-self-1.0 enc-self-1.1 enc-mlp-1"
DECODER = "dec.tok dec.pos dec-self-0.0 dec-self-0.1 dec-cross-0.0 dec-cross-0.1 dec-mlp-0"
SMALL = plain_layout(config(2, 1))


@pytest.mark.parametrize(
    ("port", "point", "sources"),
    [
        *((f"enc-self-0.1.{port}", "enc-resid-0.pre", "enc.tok enc.pos") for port in INPUT_PORTS),
        ("enc-mlp-0", "enc-resid-0.mid", "enc.tok enc.pos enc-self-0.0 enc-self-0.1"),
        ("enc-self-1.0.q", "enc-resid-1.pre", "enc.tok enc.pos enc-self-0.0 enc-self-0.1 enc-mlp-0"),
        ("enc-mlp-1", "enc-resid-1.mid", ENCODER.removesuffix(" enc-mlp-1")),
        *((f"dec-self-0.0.{port}", "dec-resid-0.pre", "dec.tok dec.pos") for port in INPUT_PORTS),
        ("dec-cross-0.1.q", "dec-resid-0.mid", "dec.tok dec.pos dec-self-0.0 dec-self-0.1"),
        *((f"dec-cross-0.1.{port}", "enc-resid-1.post", ENCODER) for port in ("k", "v")),
        ("dec-mlp-0", "dec-resid-0.cross", DECODER.removesuffix(" dec-mlp-0")),
        ("logits", "dec-resid-0.post", DECODER),
    ],
)
def test_sources_by_hand(port: str, point: str, sources: str):
    site = parse_site(port)
    assert named(SMALL.sources(site)) == sources
    assert str(SMALL.stream(site)) == point
    fixed = {"enc": "enc.pos", "dec": "dec.pos"}[sources[:3]]
    assert str(SMALL.positions(site)) == fixed


def test_the_nodes_and_what_they_are():
    assert named(SMALL.nodes) == f"{ENCODER} {DECODER}"
    assert named(SMALL.mlps) == "enc-mlp-0 enc-mlp-1 dec-mlp-0"
    assert [str(n) for n in SMALL.nodes if SMALL.is_fixed(n)] == ["enc.pos", "dec.pos"]
    assert named(n for n in SMALL.nodes if SMALL.reaches_logits(n)) == DECODER
    assert named(SMALL.siblings(parse_node("dec-cross-0.1"))) == "dec-cross-0.0 dec-cross-0.1"
    assert SMALL.siblings(parse_node("enc-mlp-1")) == (parse_node("enc-mlp-1"),)
    for name, ports, write, written in (
        ("enc.tok", "", "enc.tok", "enc.tok"),
        ("enc-mlp-1", "enc-mlp-1", "enc-mlp-1", "enc-mlp-1"),
        ("dec-cross-0.1", "dec-cross-0.1.q dec-cross-0.1.k dec-cross-0.1.v", "dec-cross-0.1.z", "dec-cross-0.1.out"),
    ):
        node = parse_node(name)
        assert (named(SMALL.inputs(node)), str(SMALL.write(node)), str(SMALL.written(node))) == (ports, write, written)


@pytest.mark.parametrize(
    ("names", "sequence", "over"),
    [
        ("enc.tok enc.pos enc.memory enc-mlp-0 enc-resid-1.pre enc-resid-1.mid enc-resid-1.post", "prompt", "prompt"),
        (" ".join(f"enc-self-1.1.{port}" for port in PORTS), "prompt", "prompt"),
        ("dec.tok dec.pos dec.final logits dec-mlp-0 dec-resid-0.mid dec-resid-0.cross", "answer", "answer"),
        (" ".join(f"dec-self-0.1.{port}" for port in PORTS), "answer", "answer"),
        (" ".join(f"dec-cross-0.1.{port}" for port in PORTS if port not in "kv"), "answer", "answer"),
        ("dec-cross-0.0.k dec-cross-0.0.v", "prompt", "answer"),  # at the prompt's tokens, in the decoder's pass
    ],
)
def test_sequences_by_hand(names: str, sequence: str, over: str):
    for site in sites(*names.split()):
        assert (SMALL.sequence(site), SMALL.computed_over(site)) == (sequence, over), site


def test_what_heads_look_at():
    looked = {head.kind: SMALL.looks_at(head) for head in SMALL.heads}
    assert looked == {"enc-self": "prompt", "dec-self": "answer", "dec-cross": "prompt"}


# Any depth.


def place(node: Node) -> tuple[str, int, int]:
    """Stack, layer and rank within a layer, by the name alone."""
    stack, _, what = node.kind.replace(".", "-").partition("-")
    return stack, -1 if node.layer is None else node.layer, {"self": 0, "cross": 1, "mlp": 2}.get(what, 0)


def test_a_port_reads_what_its_stack_wrote_before_or_all_of_the_other(layout: Layout):
    for node in layout.nodes:
        for port in layout.inputs(node):
            wanted = [n for n in layout.nodes if place(n)[0] == place(node)[0] and place(n)[1:] < place(node)[1:]]
            if node.kind == "dec-cross" and port.port != "q":
                wanted = [n for n in layout.nodes if place(n)[0] == "enc"]
            assert list(layout.sources(port)) == wanted, port
    assert list(layout.sources(layout.logits)) == [n for n in layout.nodes if place(n)[0] == "dec"]


def test_parse_and_print_are_inverses(layout: Layout):
    names = Names(layout)
    assert len({str(site) for site in layout.sites}) == len(set(layout.sites)) == len(layout.sites)
    for site in layout.sites:
        assert parse_site(str(site)) == site
        assert names.site(str(site)) == names.site(f" {str(site).upper()} ") == site
    for node in layout.nodes:
        assert parse_node(str(node)) == node
        assert names.nodes(str(node)) == [node]


def test_the_flow_goes_forward_and_meets_every_site_once(layout: Layout):
    known = {layout.write(node) for node in layout.nodes if not layout.inputs(node)}
    for site, inputs in layout.flow:
        assert inputs
        assert known.issuperset(inputs), site
        assert site not in known
        known.add(site)
    assert known == {carrier(site) for site in layout.sites}


# Against a real forward pass.


def some_batch(model: PlainModel) -> Batch:
    batch = model.encode(make_splits(0).test[:3], [0, 1, 2])
    assert batch.tokens["prompt"].shape[1] != batch.tokens["answer"].shape[1]
    return batch


def forward(model: PlainModel, edited: tuple[Site, ...] = (), held: tuple[Site, ...] = (), clean=None) -> Reading:
    """Every site of one pass by plain hooks: noise added at some of them, others set to what they were."""
    seen: dict[str, Tensor] = {}
    generator = torch.Generator().manual_seed(2)
    batch = some_batch(model)

    def part(value: Tensor, site: Site) -> Tensor:
        return value.select(head_axis(site), site.node.head) if site.node.is_head else value

    def watch(name: str):
        def act(module, given, value):
            value = value.clone()
            for site in {carrier(s): None for s in edited if model.steps.hook(s) == name}:
                mine = part(value, site)
                mine.add_(torch.rand(mine.shape, generator=generator, dtype=torch.float64))
            for site in {carrier(s): None for s in held if model.steps.hook(s) == name}:
                part(value, site).copy_(clean[site])
            seen[name] = value
            return value

        return act

    hooks = {model.steps.hook(site) for site in model.layout.sites}
    handles = [model.module.get_submodule(hook).register_forward_hook(watch(hook)) for hook in hooks]
    model.module(batch.tokens["prompt"], batch.tokens["answer"])
    for handle in handles:
        handle.remove()
    return Reading(model, seen)


def changed(model: PlainModel, one: Reading, other: Reading) -> set[Site]:
    return {site for site in model.layout.sites if not torch.equal(one[site], other[site])}


def test_what_an_edit_touches_is_what_changes(model: PlainModel):
    clean = forward(model)
    for edited in model.layout.sites:
        assert touched(model.layout, [edited]) == changed(model, forward(model, (edited,)), clean), edited


def test_nothing_passes_what_is_held(model: PlainModel):
    clean, dice = forward(model), random.Random(3)
    for _ in range(40):
        chosen = dice.sample(model.layout.sites, 6)
        edited, held = tuple(chosen[:2]), tuple(s for s in chosen[2:] if carrier(s) not in map(carrier, chosen[:2]))
        found = changed(model, forward(model, edited, held, clean), clean)
        assert touched(model.layout, edited, held) == found, (edited, held)
    some = model.layout.sites[5]
    assert touched(model.layout, [some], [some]) == frozenset()  # held, so not edited


def test_the_stream_that_a_port_reads_is_the_sum_of_its_sources(model: PlainModel):
    clean, layout = forward(model), model.layout
    for port in (*(site for node in layout.nodes for site in layout.inputs(node)), layout.logits):
        writes = [clean[layout.written(node)] for node in layout.sources(port)]
        stream = sum(writes, start=model.constant(port))
        torch.testing.assert_close(stream, clean[layout.stream(port)], rtol=0, atol=1e-10)
        if port != layout.logits:
            torch.testing.assert_close(model.read(port, stream, some_batch(model)), clean[port], rtol=0, atol=1e-10)


def test_a_site_has_its_values_at_the_tokens_of_its_sequence(model: PlainModel):
    clean, tokens, layout = forward(model), some_batch(model).tokens, model.layout
    for site in layout.sites:
        value = clean[site]
        axis = token_axis(site) - (site.node.is_head and site.port in BETWEEN_TOKENS)  # one head: its axis is gone
        assert value.shape[axis] == tokens[layout.sequence(site)].shape[1], site
        if site.port in BETWEEN_TOKENS:
            assert value.shape[-1] == tokens[layout.looks_at(site.node)].shape[1], site
