"""What a family's row is made of: where the parts of a model are, as paths, and what is done with them.

A stack's paths start at the model, a layer's parts at the layer, projections at their attention module. An empty path
means that the family has no such part. Sizes, scales, windows and caps are not here: they are read from the config and
from the modules when a model is wired. No torch here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Identity: TypeAlias = Literal["streams", "ports", "heads", "patterns", "readout"]
IDENTITIES: dict[Identity, str] = {
    "streams": "the sources' writes fold to the stream",
    "ports": "each port is its norm and projection of the stream",
    "heads": "the heads' writes and the bias are the block's output",
    "patterns": "attention rows sum to one, with nothing on what is hidden",
    "readout": "the logits are read out of the last norm",
}
# Of a value's own spread. Norms compute in float32 whatever the weights are. Two batches of other sizes are multiplied
# in another order, which few bits do not take lightly: what they may differ by is said apart.
TOLERANCE = {"float64": 1e-5, "float32": 1e-4, "bfloat16": 0.25}
BATCH_TOLERANCE = {"float64": 1e-5, "float32": 1e-3, "bfloat16": 1.0}


@dataclass(frozen=True)
class Attention:
    path: str
    q: str
    k: str
    v: str
    o: str
    fused: Literal["", "3hd", "h3d"] = ""  # one projection makes q|k|v: for all heads in turn, or head by head
    q_norm: str = ""  # of each head's q and k
    k_norm: str = ""
    pre: str = ""  # the norm of what the block reads
    out: str = ""  # the norm of what it writes
    post: str = ""  # the norm of the stream after it wrote


@dataclass(frozen=True)
class Feedforward:
    chain: tuple[str, ...]  # the modules that make the MLP, in order
    pre: str = ""
    out: str = ""
    post: str = ""


@dataclass(frozen=True)
class Keys:
    """Where a config says how large a stack is: the first key that is there counts."""

    layers: tuple[str, ...] = ("num_hidden_layers",)
    heads: tuple[str, ...] = ("num_attention_heads",)


@dataclass(frozen=True)
class Stack:
    path: str
    layers: str
    tokens: str
    self_attention: Attention
    mlp: Feedforward
    cross_attention: Attention | None = None
    keys: Keys = field(default_factory=Keys)
    positions: str = ""  # a table of position embeddings
    positions_take: Literal["ids", "tokens", "shape"] = "ids"  # what its module is called with
    scale: str = ""  # an attribute by which token embeddings are multiplied outside their module
    embedding_norm: str = ""  # the norm of the embeddings' sum
    final: str = ""  # the norm at the end of the stack
    bias: str = ""  # below the first layer: the attention module that makes the relative bias of all layers

    @property
    def is_sum(self) -> bool:
        """Is the stream the plain sum of what was written, with no norm between the writes?"""
        parts = (self.self_attention, self.mlp, self.cross_attention)
        return not self.embedding_norm and not any(part and (part.out or part.post) for part in parts)


@dataclass(frozen=True)
class Refusal:
    """A setting under which the model does something that the row does not say."""

    key: str
    values: tuple[object, ...]
    why: str


@dataclass(frozen=True)
class Row:
    classes: tuple[str, ...]  # the model classes that it describes, as `architectures` names them
    decoder: Stack
    encoder: Stack | None = None
    head: str = "lm_head"
    head_bias: str = ""  # a buffer of the model that is added to the logits
    head_scale: str = ""  # a flag of the config: the last stream is divided by the root of its width
    logit_cap: str = ""  # a key of the config: logits are capped softly
    score_cap: str = ""  # an attribute of the attention module: scores are capped softly
    rotary: str = ""  # the module that makes the angles
    window: Literal["", "config", "module"] = ""  # who says how far back a decoder's token may look
    parallel: str = ""  # a flag of the config: the MLP reads what the attention beside it reads
    softmax32: bool = False  # patterns are computed in float32 whatever the weights are
    lengths: tuple[str, ...] = ("max_position_embeddings",)  # keys that say how many tokens fit
    refused: tuple[Refusal, ...] = ()
    identities: tuple[Identity, ...] = tuple(IDENTITIES)

    @property
    def stacks(self) -> dict[str, Stack]:
        """In the order of computation, by the name that nodes begin with."""
        return {"dec": self.decoder} if self.encoder is None else {"enc": self.encoder, "dec": self.decoder}

    @property
    def no_positions(self) -> str:
        """Why there is no position embedding, where there is none."""
        if self.decoder.positions:
            return ""
        way = "the keys and queries are rotated" if self.rotary else "each head adds a bias to its scores"
        return f"this family has no position embeddings: {way} instead"
