"""The layout of a model that the plain one is not: a decoder alone, its MLP beside the attention or after it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from spelled import named, sites

from steer.anatomy.layout import INPUT, Block, Layout, Stream, touched
from steer.anatomy.names import Names
from steer.anatomy.nodes import INPUT_PORTS, Node, Site, parse_site


def decoder_only(parallel: bool, layers: int = 2) -> Layout:
    def point(layer: int, name: str) -> Site:
        return Site(Node("resid", layer), name)

    blocks = [Block("embed", "main")]
    for n in range(layers):
        reads = tuple((port, "main") for port in INPUT_PORTS)
        mid = None if parallel else point(n, "mid")
        blocks += [Block("attn", "main", reads, n, 2, at=point(n, "pre"))]
        blocks += [
            Block("mlp", "main", ((INPUT, "main"),), n, at=mid, then=point(n, "post"), beside=parallel),
        ]
    stream = Stream("main", "text", Site(Node("final")))
    return Layout(tuple(blocks), (stream,), Site(Node("logits")), prompt="text", answer="text")


BESIDE, AFTER = decoder_only(True), decoder_only(False)
FIRST = "embed attn-0.0 attn-0.1 mlp-0"


@pytest.mark.parametrize(
    ("port", "beside", "after"),
    [
        ("attn-0.1.k", ("resid-0.pre", "embed"), ("resid-0.pre", "embed")),
        ("mlp-0", ("resid-0.pre", "embed"), ("resid-0.mid", "embed attn-0.0 attn-0.1")),
        ("attn-1.0.q", ("resid-1.pre", FIRST), ("resid-1.pre", FIRST)),
        ("mlp-1", ("resid-1.pre", FIRST), ("resid-1.mid", f"{FIRST} attn-1.0 attn-1.1")),
        ("logits", *[("resid-1.post", f"{FIRST} attn-1.0 attn-1.1 mlp-1")] * 2),
    ],
)
def test_sources_of_a_parallel_mlp(port: str, beside: tuple[str, str], after: tuple[str, str]):
    for layout, (point, sources) in ((BESIDE, beside), (AFTER, after)):
        site = parse_site(port)
        assert (str(layout.stream(site)), named(layout.sources(site))) == (point, sources)
        assert layout.positions(site) is None


def layer_by_hand(n: int, before: str, mlp_reads: str) -> list[tuple[str, str]]:
    lines = [(f"resid-{n}.pre", before)]
    for head in (f"attn-{n}.0", f"attn-{n}.1"):
        lines += [(f"{head}.{port}", f"resid-{n}.pre") for port in INPUT_PORTS]
        lines += [(f"{head}.scores", f"{head}.q {head}.k"), (f"{head}.pattern", f"{head}.scores")]
        lines += [(f"{head}.z", f"{head}.pattern {head}.v")]
    heads = f"resid-{n}.pre attn-{n}.0.z attn-{n}.1.z"
    if mlp_reads == "mid":
        return [*lines, (f"resid-{n}.mid", heads), (f"mlp-{n}", f"resid-{n}.mid"),
                (f"resid-{n}.post", f"resid-{n}.mid mlp-{n}")]  # fmt: skip
    return [*lines, (f"mlp-{n}", f"resid-{n}.pre"), (f"resid-{n}.post", f"{heads} mlp-{n}")]


@pytest.mark.parametrize(("layout", "mlp_reads"), [(BESIDE, "pre"), (AFTER, "mid")])
def test_the_flow_of_a_decoder_alone(layout: Layout, mlp_reads: str):
    wanted = [*layer_by_hand(0, "embed", mlp_reads), *layer_by_hand(1, "resid-0.post", mlp_reads)]
    wanted += [("final", "resid-1.post"), ("logits", "final")]
    assert [(str(site), named(inputs)) for site, inputs in layout.flow] == wanted


def test_a_head_does_not_reach_the_mlp_beside_it():
    edited, mlps = sites("attn-0.1.v"), sites("mlp-0", "mlp-1")
    assert {site for site in mlps if site in touched(BESIDE, edited)} == {mlps[1]}
    assert {site for site in mlps if site in touched(AFTER, edited)} == set(mlps)
    found = touched(BESIDE, sites("mlp-0"))
    assert not {site for site in found if site.node.layer == 0} - {*sites("mlp-0", "resid-0.post")}
    assert touched(BESIDE, sites("attn-0.0.z"), sites("resid-0.post")) == {*sites("attn-0.0.z", "attn-0.0.out")}


@pytest.mark.parametrize("layout", [BESIDE, AFTER])
def test_one_sequence_for_all(layout: Layout):
    assert {layout.sequence(site) for site in layout.sites} == {"text"}
    assert {layout.computed_over(site) for site in layout.sites} == {"text"}
    assert {layout.looks_at(head) for head in layout.heads} == {"text"}
    assert all(map(layout.reaches_logits, layout.nodes))
    assert [Names(layout).site(str(site)) for site in layout.sites] == list(layout.sites)
    assert all(parse_site(str(site)) == site for site in layout.sites)


def test_two_blocks_beside_one_another_read_the_same_point():
    adapter = Block("adapter", "main", ((INPUT, "main"),), 0, beside=True, then=parse_site("resid-0.post"))
    embed, attention, mlp, *_ = BESIDE.blocks
    layout = replace(BESIDE, blocks=(embed, attention, replace(mlp, then=None), adapter))
    for port in sites("mlp-0", "adapter-0"):
        assert (named(layout.sources(port)), str(layout.stream(port))) == ("embed", "resid-0.pre")
    assert dict(layout.flow)[parse_site("resid-0.post")] == sites(
        "resid-0.pre", "attn-0.0.z", "attn-0.1.z", "mlp-0", "adapter-0"
    )
