"""What the engine and the measures ask of a model, whatever it is made of.

Every site passes through a hook: an identity module that holds the values of all heads of a block at once. Its axes are
example, token, head, feature; between tokens (scores, patterns) they are example, head, query, key.

Task and model meet in the `Batch`. A task speaks of two sequences, the prompt and the answer, and of places in them,
counted from 0: ("prompt", 4), ("answer", 0). A model has sequences of its own, which its layout names: an
encoder-decoder has just these two, a decoder-only model has one in which the answer follows the prompt, perhaps behind
a start token. `encode` says in `places` in which column of the model's sequence each place of the task's is found.
("answer", i) is always where the logits of step i are read: what stands there was said *before* that step. So in one
sequence ("answer", 0) is the column of the prompt's last token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import torch
from torch import Tensor, nn

from steer.anatomy.layout import Layout
from steer.anatomy.nodes import BETWEEN_TOKENS, Node, Site
from steer.models.steps import Steps


@dataclass(frozen=True, eq=False)
class Batch:
    """Some examples as the model takes them. Two batches are never equal: each has activations of its own."""

    number: int
    rows: list[int]  # numbers of the examples in the caller's list
    tokens: Mapping[str, Tensor]  # by the layout's sequences: B T; padding stands behind a row's own tokens
    real: Mapping[str, Tensor]  # by the layout's sequences: B T, False at padding
    target: Tensor  # B T: what should be said at each step of the answer; the model's `pad` behind its last
    # By the task's sequences: B N, the column of each place. One that is not named has its places where the task does.
    # Behind a row's last place come columns of padding; the last of all is the sequence's last, so that two batches of
    # the same prompts' lengths in which as much is said are of one width.
    places: Mapping[str, Tensor] = field(default_factory=dict)

    def at(self, sequence: str, value: Tensor) -> Tensor:
        """Of a value along the model's sequence (B T …) what it is at each place of the task's: B N …"""
        columns = self.places.get(sequence)
        return value if columns is None else value[_numbered(columns), columns]

    def columns(self, sequence: str, rows: Sequence[int], places: Sequence[int]) -> list[int]:
        """The columns of some places of the task's sequence, each in a row of this batch."""
        there = self.places.get(sequence)
        return list(places) if there is None else there[list(rows), list(places)].tolist()


def _numbered(columns: Tensor) -> Tensor:
    """B 1: the number of each row."""
    return torch.arange(len(columns), device=columns.device)[:, None]


@dataclass(frozen=True)
class Readout:
    """How logits are read out of the last stream, behind its norm: a row for each token."""

    rows: Tensor  # V D
    bias: Tensor  # V
    gain: Tensor | None = None  # D: of the last LayerNorm, where that is what stands before


@dataclass(frozen=True)
class Directions:
    """Where a direction in the logits lies in what was written, every norm held at its clean scale: a write's share of
    the logit is its product with its node's direction."""

    of: Mapping[Node, Tensor]  # B T D
    constant: Tensor  # B T: the share of biases, which are nobody's write


Exchange: TypeAlias = tuple[list[int], list[int], list[int]]  # rows of a batch, and in each two columns
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
    def max_length(self) -> int: ...  # the most tokens that a sequence may have
    @property
    def pad(self) -> int: ...  # fills a shorter row, and the target behind an answer: a number that no answer holds
    @property
    def end(self) -> int | None: ...  # the token that closes an answer; None: an answer is right if its tokens are said
    @property
    def readout(self) -> Readout: ...
    def size(self, hook: str) -> tuple[int, ...]: ...  # of a hook, behind example and token; () between tokens
    def encode(self, examples: Sequence[Any], rows: list[int], number: int = 0) -> Batch: ...
    def state(self, batch: Batch, given: Mapping[str, Tensor]) -> Any: ...  # what a pass carries from step to step
    def unanswered(self, batch: Batch) -> Batch: ...  # with nothing said yet: ("answer", 0) is its only step
    def answered(self, batch: Batch, said: Tensor) -> Batch: ...  # with these tokens (B) said too: a step more
    def written(self, node: Node, value: Tensor) -> Tensor: ...  # its own write into the stream, from its hook's value
    def folded(self, port: Site, writes: Writes) -> Tensor: ...  # the stream that a port reads, from all writes
    def read(self, port: Site, stream: Tensor, batch: Batch) -> Tensor: ...  # what a port (or an MLP) makes of a stream
    def directions(self, values: Mapping[Site, Tensor], direction: Tensor) -> Directions: ...  # behind the last norm
    def copied(self, head: Node, normed: Tensor) -> Tensor: ...  # what it writes of a token that it attends to alone
    def lens(self, stream: Tensor) -> Tensor: ...  # the logits of a point of the last stream, as if it ended there
    def constant(self, port: Site) -> Tensor: ...  # biases in the stream that a port reads: nobody's write


class Rotating(Protocol):
    """Models that rotate queries and keys by their positions."""

    def turned(self, port: Site, before: Tensor, batch: Batch, exchanged: Exchange) -> Tensor:
        """One head's query or key, from what it is before rotation, pairs of columns having each other's position."""
        ...


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
