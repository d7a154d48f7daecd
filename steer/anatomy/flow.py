"""What can change what: from edited sites, through the model, to the sites that are read.

An edit that comes after everything that is measured, or behind a frozen site, cannot change a number. Such a recipe is
a fault: it would print the clean number under the name of an intervention.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from steer.anatomy.names import Node, Shape, Site


def touched(shape: Shape, edited: Iterable[Site], frozen: Iterable[Site] = ()) -> frozenset[Site]:
    """Every site whose value may differ from the clean run's when these are edited and those held."""
    held = {_written(site) for site in frozen}
    found = {_written(site) for site in edited} - held
    for site, inputs in data_flow(shape):
        if site not in held and not found.isdisjoint(inputs):
            found.add(site)
    return frozenset(found | {Site(site.node, "out") for site in found if site.port == "z"})


def _written(site: Site) -> Site:
    """A head's `out` is its `z` seen through W_O: to edit one is to edit the other."""
    return Site(site.node, "z") if site.port == "out" else site


@lru_cache(maxsize=16)
def data_flow(shape: Shape) -> tuple[tuple[Site, tuple[Site, ...]], ...]:
    """Each site that is computed from others, with those others, in the order of the forward pass."""
    flow: list[tuple[Site, tuple[Site, ...]]] = []
    memory, final, logits = (Site(Node(name)) for name in ("enc.memory", "dec.final", "logits"))
    after: tuple[Site, ...] = (Site(Node("enc.tok")), Site(Node("enc.pos")))
    for layer in range(shape.encoder_layers):
        after = _attention(flow, shape, "enc-self", layer, after, "pre")
        after = _mlp(flow, "enc", layer, after, "mid")
    flow.append((memory, after))
    after = (Site(Node("dec.tok")), Site(Node("dec.pos")))
    for layer in range(shape.decoder_layers):
        after = _attention(flow, shape, "dec-self", layer, after, "pre")
        after = _attention(flow, shape, "dec-cross", layer, after, "mid", memory)
        after = _mlp(flow, "dec", layer, after, "cross")
    return (*flow, (final, after), (logits, (final,)))


Flow = list[tuple[Site, tuple[Site, ...]]]


def _attention(
    flow: Flow, shape: Shape, kind: str, layer: int, before: tuple[Site, ...], point: str, memory: Site | None = None
) -> tuple[Site, ...]:
    """A block of heads that reads the stream at a point; gives what the stream after it is the sum of."""
    stream = Site(Node(f"{kind[:3]}-resid", layer), point)
    flow.append((stream, before))
    heads = shape.block(kind, layer)
    for head in heads:
        q, k, v, scores, pattern, z = (Site(head, port) for port in ("q", "k", "v", "scores", "pattern", "z"))
        looked_at = (memory or stream,)
        flow += [(q, (stream,)), (k, looked_at), (v, looked_at)]
        flow += [(scores, (q, k)), (pattern, (scores,)), (z, (pattern, v))]
    return (stream, *(Site(head, "z") for head in heads))


def _mlp(flow: Flow, stack: str, layer: int, before: tuple[Site, ...], point: str) -> tuple[Site, ...]:
    stream, post = (Site(Node(f"{stack}-resid", layer), name) for name in (point, "post"))
    mlp = Site(Node(f"{stack}-mlp", layer))
    flow += [(stream, before), (mlp, (stream,)), (post, (stream, mlp))]
    return (post,)
