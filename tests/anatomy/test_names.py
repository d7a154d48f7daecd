"""Names: parse and print are inverses, and the layout agrees with the model itself."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokens import ROLES, VOCABULARY

from steer.anatomy.names import Names, Roles
from steer.anatomy.nodes import Node, Site, parse_node, parse_site
from steer.base.errors import SteerError
from steer.models.plain.config import ModelConfig
from steer.models.plain.layout import PlainSteps, plain_layout
from steer.models.plain.model import PlainModel
from steer.models.plain.transformer import Hook, Transformer


def names(encoder: int, decoder: int, heads: int, roles: Roles | None = None) -> Names:
    config = ModelConfig(encoder_layers=encoder, decoder_layers=decoder, heads=heads)
    return Names(plain_layout(config), roles or {}, ROLES)


sizes = st.tuples(*[st.integers(1, 12)] * 3)
NAMES = names(2, 2, 8)


@given(sizes, st.data())
def test_parse_and_print_are_inverses(sizes: tuple[int, int, int], data: st.DataObject):
    model = names(*sizes)
    site = data.draw(st.sampled_from(model.layout.sites))
    assert model.site(str(site)) == site
    assert model.site(str(site).upper()) == site
    assert parse_site(str(site)) == site
    assert parse_node(str(site.node)) == site.node


@pytest.mark.parametrize("sizes", [(2, 2, 8), (1, 3, 2), (3, 1, 4)])
def test_the_layout_is_the_models(sizes: tuple[int, int, int]):
    encoder, decoder, heads = sizes
    model = Transformer(ModelConfig(encoder_layers=encoder, decoder_layers=decoder, heads=heads))
    plain = PlainModel(model, VOCABULARY)
    assert plain.steps == PlainSteps(encoder, decoder)
    assert tuple(model.steps()) == plain.steps.names
    hooks = {name for name, module in model.named_modules() if isinstance(module, Hook)}
    known = {plain.steps.hook(site) for site in plain.layout.sites}
    # A block's whole output has a hook but no name of its own: its heads have.
    assert hooks - known == {name for name in hooks if name.endswith("attn.out")}
    assert known <= hooks


def test_layer_ten_is_not_layer_one():
    deep = names(12, 2, 12)
    assert deep.site("enc-self-10.11.k") == Site(Node("enc-self", 10, 11), "k")
    assert deep.nodes("enc-self-1.*") == block("enc-self", 1, 12)


def block(kind: str, layer: int, heads: int = 8) -> list[Node]:
    return [Node(kind, layer, head) for head in range(heads)]


def test_globs():
    assert NAMES.nodes("enc-self-*.*") == [*block("enc-self", 0), *block("enc-self", 1)]
    assert NAMES.nodes("ENC-mlp-?") == [Node("enc-mlp", 0), Node("enc-mlp", 1)]
    assert NAMES.heads("dec-*-1.3") == [Node("dec-self", 1, 3), Node("dec-cross", 1, 3)]


@pytest.mark.parametrize("text", ["dec-cros-1.5", "dec-cross-1.8", "dec-cross-2.5"])
def test_a_wrong_head_is_answered_with_the_nearest(text: str):
    with pytest.raises(SteerError, match=r"did you mean dec-cross-1\.\d"):
        NAMES.head(text)


@pytest.mark.parametrize(
    "text", ["", "enc", "dec-cross", "dec-cross-1", "enc-resid-0.cross", "enc-self-0.1.x", "x" * 999]
)
def test_what_is_no_name_is_refused(text: str):
    with pytest.raises(SteerError):
        NAMES.site(text)


def test_sources():
    assert [str(n) for n in NAMES.layout.sources(NAMES.site("enc-self-0.1.q"))] == ["enc.tok", "enc.pos"]
    into_k = [str(n) for n in NAMES.layout.sources(NAMES.site("dec-cross-1.5.k"))]
    assert into_k[:2] == ["enc.tok", "enc.pos"]
    assert into_k[-1] == "enc-mlp-1"
    assert len(into_k) == 2 + 16 + 2
    into_q = [str(n) for n in NAMES.layout.sources(NAMES.site("dec-cross-0.5.q"))]
    assert into_q == ["dec.tok", "dec.pos", *(f"dec-self-0.{h}" for h in range(8))]


@given(sizes)
def test_sources_come_before_their_target(sizes: tuple[int, int, int]):
    layout, steps = names(*sizes).layout, PlainSteps(*sizes[:2])
    for node in layout.heads[:: max(1, len(layout.heads) // 7)]:
        for port in ("q", "k", "v"):
            for source in layout.sources(Site(node, port)):
                assert layout.write(source) == Site(source, "z" if source.is_head else None)
                assert steps.order(layout.write(source)) < steps.order(Site(node, port))


OUTPUTS = (Node("dec-cross", 1, 4), Node("dec-cross", 1, 0))
CAST = names(2, 2, 8, {"output": OUTPUTS, "rhs-scanner": (Node("dec-cross", 0, 0),)})


def test_a_role_stands_for_its_lead_head_or_for_all_of_them():
    assert CAST.head("$Output") == Node("dec-cross", 1, 4)
    assert CAST.heads("$output:all") == [Node("dec-cross", 1, 4), Node("dec-cross", 1, 0)]
    assert CAST.site("$output.k") == Site(Node("dec-cross", 1, 4), "k")
    assert [str(site) for site in CAST.sites("$output:all.q")] == ["dec-cross-1.4.q", "dec-cross-1.0.q"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("$outputs", "did you mean $output"),
        ("$primitive-pairing", "it has $output, $rhs-scanner"),
        ("$output:every", "`$output:all`"),
    ],
)
def test_a_role_that_cannot_be_resolved_says_what_there_is(text: str, says: str):
    with pytest.raises(SteerError, match=re.escape(says)):
        CAST.heads(text)


def test_a_role_that_may_be_missing_stands_for_nothing():
    assert CAST.heads("$primitive-pairing:any") == []
    assert CAST.heads("$output:any") == list(OUTPUTS)
    assert CAST.heads("$output:block") == block("dec-cross", 1)
    assert CAST.sites("$output:block.z") == [Site(head, "z") for head in CAST.heads("$output:block")]
    with pytest.raises(SteerError, match="stands for 0 heads"):
        CAST.head("$primitive-pairing:any")


def test_roles_of_an_unknown_circuit_ask_for_discovery():
    with pytest.raises(SteerError, match="steer discover"):
        NAMES.head("$output")
