"""Names: parse and print are inverses, and the shape agrees with the model itself."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokens import ROLES

from steer.anatomy.names import Node, Shape, Site
from steer.base.errors import SteerError
from steer.models.plain.config import ModelConfig
from steer.models.plain.transformer import Hook, Transformer

shapes = st.builds(Shape, st.integers(1, 12), st.integers(1, 12), st.integers(1, 12))
SHAPE = Shape(2, 2, 8, role_words=ROLES)


@given(shapes, st.data())
def test_parse_and_print_are_inverses(shape: Shape, data: st.DataObject):
    site = data.draw(st.sampled_from(shape.sites))
    assert shape.site(str(site)) == site
    assert shape.site(str(site).upper()) == site


@pytest.mark.parametrize("sizes", [(2, 2, 8), (1, 3, 2), (3, 1, 4)])
def test_the_shape_is_the_models(sizes: tuple[int, int, int]):
    encoder, decoder, heads = sizes
    model = Transformer(ModelConfig(encoder_layers=encoder, decoder_layers=decoder, heads=heads))
    shape = Shape(*sizes)
    assert list(model.steps()) == shape.steps
    hooks = {name for name, module in model.named_modules() if isinstance(module, Hook)}
    known = {site.path for site in shape.sites}
    # A block's whole output has a hook but no name of its own: its heads have.
    assert hooks - known == {name for name in hooks if name.endswith("attn.out")}
    assert known <= hooks


def test_layer_ten_is_not_layer_one():
    shape = Shape(12, 2, 12)
    assert shape.site("enc-self-10.11.k") == Site(Node("enc-self", 10, 11), "k")
    assert shape.expand_nodes("enc-self-1.*") == shape.block("enc-self", 1)


def test_globs():
    assert SHAPE.expand_nodes("enc-self-*.*") == [*SHAPE.block("enc-self", 0), *SHAPE.block("enc-self", 1)]
    assert SHAPE.expand_nodes("ENC-mlp-?") == [Node("enc-mlp", 0), Node("enc-mlp", 1)]
    assert SHAPE.expand_heads("dec-*-1.3") == [Node("dec-self", 1, 3), Node("dec-cross", 1, 3)]


@pytest.mark.parametrize("text", ["dec-cros-1.5", "dec-cross-1.8", "dec-cross-2.5"])
def test_a_wrong_head_is_answered_with_the_nearest(text: str):
    with pytest.raises(SteerError, match=r"did you mean dec-cross-1\.\d"):
        SHAPE.one_head(text)


@pytest.mark.parametrize(
    "text", ["", "enc", "dec-cross", "dec-cross-1", "enc-resid-0.cross", "enc-self-0.1.x", "x" * 999]
)
def test_what_is_no_name_is_refused(text: str):
    with pytest.raises(SteerError):
        SHAPE.site(text)


def test_sources():
    assert [str(n) for n in SHAPE.sources(SHAPE.site("enc-self-0.1.q"))] == ["enc.tok", "enc.pos"]
    into_k = [str(n) for n in SHAPE.sources(SHAPE.site("dec-cross-1.5.k"))]
    assert into_k[:2] == ["enc.tok", "enc.pos"]
    assert into_k[-1] == "enc-mlp-1"
    assert len(into_k) == 2 + 16 + 2
    into_q = [str(n) for n in SHAPE.sources(SHAPE.site("dec-cross-0.5.q"))]
    assert into_q == ["dec.tok", "dec.pos", *(f"dec-self-0.{h}" for h in range(8))]


@given(shapes)
def test_sources_come_before_their_target(shape: Shape):
    for node in shape.all_heads[:: max(1, len(shape.all_heads) // 7)]:
        for port in ("q", "k", "v"):
            for source in shape.sources(Site(node, port)):
                wrote = Site(source, "z" if source.is_head else None)
                assert shape.order(wrote) < shape.order(Site(node, port))


OUTPUTS = (Node("dec-cross", 1, 4), Node("dec-cross", 1, 0))
CAST = Shape(2, 2, 8, (("output", OUTPUTS), ("rhs-scanner", (Node("dec-cross", 0, 0),))), ROLES)


def test_a_role_stands_for_its_lead_head_or_for_all_of_them():
    assert CAST.one_head("$Output") == Node("dec-cross", 1, 4)
    assert CAST.expand_heads("$output:all") == [Node("dec-cross", 1, 4), Node("dec-cross", 1, 0)]
    assert CAST.site("$output.k") == Site(Node("dec-cross", 1, 4), "k")
    assert [str(site) for site in CAST.expand_sites("$output:all.q")] == ["dec-cross-1.4.q", "dec-cross-1.0.q"]


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
        CAST.expand_heads(text)


def test_a_role_that_may_be_missing_stands_for_nothing():
    assert CAST.expand_heads("$primitive-pairing:any") == []
    assert CAST.expand_heads("$output:any") == list(OUTPUTS)
    assert CAST.expand_heads("$output:block") == CAST.block("dec-cross", OUTPUTS[0].layer)
    assert CAST.expand_sites("$output:block.z") == [Site(head, "z") for head in CAST.expand_heads("$output:block")]
    with pytest.raises(SteerError, match="stands for 0 heads"):
        CAST.one_head("$primitive-pairing:any")


def test_roles_of_an_unknown_circuit_ask_for_discovery():
    with pytest.raises(SteerError, match="steer discover"):
        SHAPE.one_head("$output")
