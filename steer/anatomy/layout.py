"""A model's layout: a table of blocks in the order of computation. It answers every question about data flow.

A block adds what it writes to a *stream*, the running sum of what was written before. It reads its own stream at some
point, or the end of another stream. A stream belongs to a *sequence* of tokens. No architecture is known here: each
family of models states its own table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import or_

from steer.anatomy.nodes import BEFORE_ROTATION, INPUT_PORTS, PORTS, Node, Site

INPUT = "in"  # the port of a block without heads; its site is the node's own output


@dataclass(frozen=True)
class Block:
    """One thing that writes: an embedding, a block of attention heads, an MLP."""

    kind: str
    writes: str  # the stream that it adds to
    reads: tuple[tuple[str, str], ...] = ()  # port -> stream
    layer: int | None = None
    heads: int = 0
    at: Site | None = None  # the point of its own stream that it reads
    then: Site | None = None  # a point of its own stream right after it
    beside: bool = False  # reads the point that the block before it reads (parallel attention and MLP)
    fixed: bool = False  # writes the same for every example: position embeddings
    ports: tuple[str, ...] = PORTS  # the sites of each of its heads

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        return tuple(Node(self.kind, self.layer, head) for head in range(self.heads)) or (Node(self.kind, self.layer),)


@dataclass(frozen=True)
class Stream:
    name: str
    sequence: str  # whose tokens its values belong to
    read_as: Site  # its end, normed: what other streams or the logits read
    is_sum: bool = True  # of what was written, plainly; else there are norms between the writes


@dataclass(frozen=True)
class Layout:
    blocks: tuple[Block, ...]
    streams: tuple[Stream, ...]  # the logits read the last one
    logits: Site
    prompt: str = "prompt"  # the sequence that holds a task's prompt
    answer: str = "answer"  # the sequence that holds what was said so far
    absent: tuple[tuple[str, str], ...] = ()  # (name that other models have, why this one does not)
    aliases: tuple[tuple[str, str], ...] = ()  # other spellings of names: (regular expression, the name it stands for)

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """Every node that writes into a stream, in the order of computation."""
        return tuple(node for block in self.blocks for node in block.nodes)

    @cached_property
    def heads(self) -> tuple[Node, ...]:
        return tuple(node for node in self.nodes if node.is_head)

    @cached_property
    def mlps(self) -> tuple[Node, ...]:
        """The nodes without heads that read a stream."""
        return tuple(node for block in self.blocks if block.reads and not block.heads for node in block.nodes)

    @cached_property
    def points(self) -> dict[Site, str]:
        """Each named point of a stream, with the stream."""
        return {point: b.writes for b in self.blocks for point in (b.at, b.then) if point is not None}

    @cached_property
    def sites(self) -> tuple[Site, ...]:
        ports = [Site(node, port) for node in self.heads for port in self.block(node).ports]
        others = [Site(node) for node in self.nodes if not node.is_head]
        return (*ports, *others, *self.points, *(stream.read_as for stream in self.streams), self.logits)

    @cached_property
    def _number(self) -> dict[Node, int]:
        return {node: number for number, block in enumerate(self.blocks) for node in block.nodes}

    @cached_property
    def _stream(self) -> dict[str, Stream]:
        return {stream.name: stream for stream in self.streams}

    def block(self, node: Node) -> Block:
        return self.blocks[self._number[node]]

    def siblings(self, node: Node) -> tuple[Node, ...]:
        """The nodes of its block, itself among them."""
        return self.block(node).nodes

    def reads(self, port: Site) -> str:
        """The stream that a head's port (or an MLP, or the logits) reads."""
        if port == self.logits:
            return self.streams[-1].name
        return dict(self.block(port.node).reads)[port.port or INPUT]

    def is_sum(self, port: Site) -> bool:
        """Is what a port reads simply the sum of its sources' writes?"""
        return self._stream[self.reads(port)].is_sum

    def sources(self, port: Site) -> tuple[Node, ...]:
        """The nodes whose writes sum to what a head's port (or an MLP, or the logits) reads: its direct sources."""
        stream, end = self.reads(port), self.read_until(port)
        return tuple(node for block in self.blocks[:end] if block.writes == stream for node in block.nodes)

    def read_until(self, port: Site) -> int:
        """The number of blocks, counted from the first, that come before a port reads."""
        if port != self.logits and self.reads(port) == self.block(port.node).writes:
            return self._reading(self._number[port.node])
        return len(self.blocks)

    def _reading(self, number: int) -> int:
        """The number of the block whose point this one reads: its own, or that of the block beside it."""
        return self._reading(number - 1) if self.blocks[number].beside else number

    def inputs(self, node: Node) -> tuple[Site, ...]:
        """Where a path can enter a node; nowhere, for an embedding."""
        return tuple(Site(node, None if port == INPUT else port) for port, _ in self.block(node).reads)

    def write(self, node: Node) -> Site:
        """The site from which a node's write into its stream is computed."""
        return Site(node, "z" if node.is_head else None)

    def written(self, node: Node) -> Site:
        """The site that is a node's write itself."""
        return Site(node, "out" if node.is_head else None)

    def stream(self, port: Site) -> Site:
        """The point that a head's port (or an MLP) reads, before any norm."""
        stream = self.reads(port)
        if port == self.logits or stream != self.block(port.node).writes:
            return self.end(stream)
        at = self.blocks[self._reading(self._number[port.node])].at
        assert at is not None
        return at

    def end(self, stream: str) -> Site:
        """The last point of a stream."""
        return [point for point, its in self.points.items() if its == stream][-1]

    def sequence(self, site: Site) -> str:
        """The sequence of tokens at which a site has its values."""
        return self._stream[self._home(site)].sequence

    def _home(self, site: Site) -> str:
        """The stream at whose tokens a site has its values."""
        if site in self.points:
            return self.points[site]
        if site.node in self._number:
            own = self.block(site.node)
            port = BEFORE_ROTATION.get(site.port or "", site.port)
            return dict(own.reads)[port] if port in INPUT_PORTS else own.writes
        return next((stream.name for stream in self.streams if stream.read_as == site), self.streams[-1].name)

    def holds(self, sequence: str) -> str:
        """The model's sequence that contains one of the task's: the prompt, or the answer."""
        return {"prompt": self.prompt, "answer": self.answer}[sequence]

    def computed_over(self, site: Site) -> str:
        """The sequence of the stream that a site's block writes into. (Keys may have their values at another one.)"""
        block = self.block(site.node).writes if site.node in self._number else self._home(site)
        return self._stream[block].sequence

    def looks_at(self, head: Node) -> str:
        """The sequence of a head's keys."""
        return self.sequence(Site(head, "k"))

    def reaches_logits(self, node: Node) -> bool:
        """Does it write into the stream that the logits read?"""
        return self.block(node).writes == self.streams[-1].name

    @cached_property
    def scales(self) -> tuple[Site, ...]:
        """What decides the scale of every norm on the way from a write to the logits."""
        if self.is_sum(self.logits):
            return (self.stream(self.logits),)
        return tuple(self.written(node) for node in self.sources(self.logits))

    def is_fixed(self, node: Node) -> bool:
        return self.block(node).fixed

    def is_fixed_at(self, site: Site) -> bool:
        """The same for a site, which may be a point of a stream."""
        return site.node in self._number and self.is_fixed(site.node)

    def positions(self, port: Site) -> Node | None:
        """The position embedding that a port reads; None where positions enter in another way."""
        return next((node for node in self.sources(port) if self.is_fixed(node)), None)

    def is_rotated(self, port: Site) -> bool:
        """Is it a query or key that is rotated by its token's position?"""
        return f"{port.port}-pre" in self.block(port.node).ports

    def is_biased(self, port: Site) -> bool:
        """Is it a query or key whose position enters as a bias of the scores?"""
        return port.port in ("q", "k") and "bias" in self.block(port.node).ports

    @cached_property
    def flow(self) -> tuple[tuple[Site, tuple[Site, ...]], ...]:
        """Each site that is computed from others, with those others, in the order of the forward pass."""
        return tuple(_flow(self))

    @cached_property
    def bits(self) -> dict[Site, int]:
        """A bit for each site of the flow: a set of sites is then one whole number, and flow is quick to follow."""
        sites = dict.fromkeys(site for one, inputs in self.flow for site in (one, *inputs))
        return {site: 1 << number for number, site in enumerate(sites)}

    def as_bits(self, sites: Iterable[Site]) -> int:
        return reduce(or_, (self.bits.get(site, 0) for site in sites), 0)

    @cached_property
    def flow_of_bits(self) -> tuple[tuple[int, int], ...]:
        """The flow, as each site's bit and those of what it is computed from."""
        return tuple((self.bits[site], self.as_bits(inputs)) for site, inputs in self.flow)

    @cached_property
    def outs(self) -> dict[Site, Site]:
        """Each head's own write by its `z`."""
        return {site: Site(site.node, "out") for site in self.bits if site.port == "z"}


Flow = Iterator[tuple[Site, tuple[Site, ...]]]


def _flow(layout: Layout) -> Flow:
    summed: dict[str, tuple[Site, ...]] = {stream.name: () for stream in layout.streams}  # what a stream is the sum of
    for number, block in enumerate(layout.blocks):
        if block.at is not None:
            yield block.at, summed[block.writes]
            summed[block.writes] = (block.at,)
        for node in block.nodes:
            yield from _computed(layout, node)
        summed[block.writes] += tuple(layout.write(node) for node in block.nodes)
        if block.then is not None:
            yield block.then, summed[block.writes]
            summed[block.writes] = (block.then,)
        if all(later.writes != block.writes for later in layout.blocks[number + 1 :]):
            yield layout._stream[block.writes].read_as, summed[block.writes]
    yield layout.logits, (layout.streams[-1].read_as,)


def _computed(layout: Layout, node: Node) -> Flow:
    """A node's own sites: an MLP from what it reads, a head from port to port, an embedding from nothing."""
    own = layout.block(node).writes
    for site in layout.inputs(node):
        stream = layout.reads(site)
        point = layout.stream(site) if stream == own else layout._stream[stream].read_as
        before = Site(node, f"{site.port}-pre")
        if before.port in layout.block(node).ports:
            yield before, (point,)
            point = before
        yield site, (point,)
    if node.is_head:
        q, k, v, scores, pattern, z = (Site(node, port) for port in ("q", "k", "v", "scores", "pattern", "z"))
        biases = (Site(node, "bias"),) if "bias" in layout.block(node).ports else ()
        yield from ((scores, (q, k, *biases)), (pattern, (scores,)), (z, (pattern, v)))


def touched(layout: Layout, edited: Iterable[Site], frozen: Iterable[Site] = ()) -> frozenset[Site]:
    """Every site whose value may differ from the clean run when some sites are edited and others are frozen."""
    fixed = {carrier(site) for site in frozen}
    start = {carrier(site) for site in edited} - fixed
    moved, still = layout.as_bits(start), layout.as_bits(fixed)
    for bit, inputs in layout.flow_of_bits:
        if moved & inputs and not still & bit:
            moved |= bit
    changed = start | {site for site, bit in layout.bits.items() if moved & bit}
    return frozenset(changed | {layout.outs[site] for site in changed if site.port == "z"})


def carrier(site: Site) -> Site:
    """A head's `out` is its `z` seen through W_O: to edit one is to edit the other."""
    return Site(site.node, "z") if site.port == "out" else site
