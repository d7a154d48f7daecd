"""What the engine and the measures ask of a model, whatever it is made of.

Every site passes through a hook: an identity module that holds the values of all heads of a block at once. Its axes are
example, token, head, feature; between tokens (scores, patterns) they are example, head, query, key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from torch import Tensor, nn

from steer.anatomy.layout import Layout
from steer.anatomy.nodes import BETWEEN_TOKENS, Node, Site
from steer.models.steps import Steps


@dataclass(frozen=True, eq=False)
class Batch:
    """Some examples as the model takes them. Two batches are never equal: each has activations of its own."""

    number: int
    rows: list[int]  # numbers of the examples in the caller's list
    tokens: Mapping[str, Tensor]  # by sequence: B T
    real: Mapping[str, Tensor]  # by sequence: B T, False at padding
    target: Tensor  # B T, along the logits: what should be said at each step


@dataclass(frozen=True)
class Readout:
    """How logits are read out of the last stream, behind its norm: a row for each token."""

    rows: Tensor  # V D
    bias: Tensor  # V


@dataclass(frozen=True)
class Directions:
    """Where a direction in the logits lies in what was written, every norm held at its clean scale: a write's share of
    the logit is its product with its node's direction."""

    of: Mapping[Node, Tensor]  # B T D
    constant: Tensor  # B T: the share of biases, which are nobody's write


Writes: TypeAlias = Callable[[Node], Tensor]  # what a node writes into its stream: B T D


class Model(Protocol):
    @property
    def layout(self) -> Layout: ...
    @property
    def steps(self) -> Steps: ...
    @property
    def module(self) -> nn.Module: ...  # what a backend wraps; its `run(state, start, stop)` takes the steps
    @property
    def like(self) -> Tensor: ...  # a tensor of the model's device and dtype
    @property
    def max_length(self) -> int: ...
    @property
    def pad(self) -> int: ...  # the token that fills a shorter row
    @property
    def end(self) -> int: ...  # the token that closes an answer
    @property
    def readout(self) -> Readout: ...
    def size(self, hook: str) -> tuple[int, ...]: ...  # of a hook's values behind example and token
    def encode(self, examples: Sequence[Any], rows: list[int], number: int = 0) -> Batch: ...
    def state(self, batch: Batch, given: Mapping[str, Tensor]) -> Any: ...  # what a pass carries from step to step
    def unanswered(self, batch: Batch) -> Batch: ...  # with nothing said yet
    def answered(self, batch: Batch, said: Tensor) -> Batch: ...  # with these tokens (B) said after the others
    def written(self, node: Node, value: Tensor) -> Tensor: ...  # its own write into the stream, from its hook's value
    def folded(self, port: Site, writes: Writes) -> Tensor: ...  # the stream that a port reads, from all writes
    def read(self, port: Site, stream: Tensor, batch: Batch) -> Tensor: ...  # what a port (or an MLP) makes of a stream
    def directions(self, values: Mapping[Site, Tensor], direction: Tensor) -> Directions: ...  # behind the last norm
    def copied(self, head: Node, normed: Tensor) -> Tensor: ...  # what it writes of a token that it attends to alone
    def constant(self, port: Site) -> Tensor: ...  # biases in the stream that a port reads: nobody's write


def head_axis(site: Site) -> int:
    return 1 if site.port in BETWEEN_TOKENS else 2


def token_axis(site: Site) -> int:
    """The axis of a site's own tokens (the queries, between tokens)."""
    return 2 if site.port in BETWEEN_TOKENS else 1


class Reading(Mapping[Site, Tensor]):
    """What a run read, by site: one head's part of what a hook holds."""

    def __init__(self, model: Model, hooks: Mapping[str, Tensor], sites: Sequence[Site] = ()) -> None:
        self.model, self.hooks, self.sites = model, hooks, sites

    def __getitem__(self, site: Site) -> Tensor:
        value = self.hooks[self.model.steps.hook(site)]
        if site.port == "out":
            return self.model.written(site.node, value)
        return value.select(head_axis(site), site.node.head or 0) if site.node.is_head else value

    def __iter__(self) -> Iterator[Site]:
        return iter(self.sites)

    def __len__(self) -> int:
        return len(self.sites)
