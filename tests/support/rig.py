"""An engine around any model, recipes of every kind, and sessions of them on a few episodes."""

from __future__ import annotations

import torch
from tokens import ROLES, TOKENS

from steer.anatomy.names import Names
from steer.anatomy.nodes import Node, Site
from steer.engine.engine import Engine
from steer.engine.session import Inputs, Session
from steer.models.plain.config import ModelConfig
from steer.models.plain.layout import plain_layout
from steer.models.plain.model import PlainModel
from steer.models.plain.transformer import Transformer
from steer.models.vocabulary import Vocabulary
from steer.tasks.compositional.splits import make_splits

NAMES = Names(plain_layout(ModelConfig()), {}, ROLES)
EPISODES = make_splits(0).test[:10]
TWO_ARGUMENTS = [e for e in make_splits(0).test if len(e.question.arguments) == 2][:8]
LOGITS = Site(Node("logits"))

COMMON = {"measures": [{"name": "exact-match"}, {"name": "attention-accuracy", "heads": ["dec-cross-1.*"]}]}
MORE = [
    {"kind": "keep-only-one", "target": "enc-self-1.*.q", "sources": ["enc-self-0.*", "enc.tok", "enc-mlp-0"]},
    {"kind": "ablate-only-one", "target": ["dec-self-1.2.k", "dec-self-1.2.v"], "sources": "dec-cross-0.*"},
    {"kind": "keep-only-one", "target": "dec-cross-0.3.v", "sources": ["enc-*"], "freeze": "dec-cross-1.5.q"},
    {"kind": "ablate-only-one", "target": "dec-cross-1.1.q", "sources": "dec-self-1.*"},
    {
        "kind": "chained-patch", "sources": "enc-self-0.[25]",
        "chain": ["enc-self-1.1.k", "dec-cross-0.6.v", "dec-cross-1.5.q"],
    },
    {
        "kind": "chained-patch", "sources": "enc-self-1.[03]", "chain": ["dec-cross-0.6.v", "dec-cross-1.5.q"],
        "mode": "ablate-only-one", "others": "clean", "freeze": "dec-cross-1.5.k",
    },
    {"kind": "keep-only-one", "target": "enc-mlp-1", "sources": ["enc-self-1.*", "enc-mlp-0", "enc.tok"]},
    {"kind": "ablate-only-one", "target": "dec-mlp-0", "sources": ["dec-cross-0.*", "dec.tok"]},
    {
        "kind": "chained-patch", "sources": "enc-self-0.[25]",
        "chain": ["enc-self-1.1.v", "enc-mlp-1", "dec-cross-0.2.k", "dec-mlp-0", "dec-cross-1.5.q"],
    },
    {"kind": "ablate-set", "nodes": ["enc-self-0.5", "enc-self-1.1", "dec-mlp-0"]},
    {"kind": "keep-set", "nodes": ["enc-self-*.1", "dec-cross-*.*"], "within": "heads-and-mlps"},
    {"kind": "keep-only-one", "target": "enc-self-1.2.k", "sources": "enc-self-0.*", "places": [1, 3]},
    {"kind": "ablate-set", "nodes": ["enc-self-1.*", "enc-mlp-1", "dec-self-0.3"], "places": [1, 2]},
    {
        "kind": "compare", "conditions": [
            {"name": "one", "ablate": ["enc-self-0.5", "dec-mlp-0"]},
            {"name": "rest", "keep": ["enc-self-*.1", "enc-mlp-1"], "among": ["enc-self-*.*", "enc-mlp-*"]},
            {"name": "all", "among": "enc-self-*.*"},
        ],
    },
    {"kind": "clean"},
]  # fmt: skip


@torch.no_grad()
def disturb(model: Transformer) -> Transformer:
    """Random biases and gains: zeros and ones would hide a forgotten bias, or another block's LayerNorm."""
    generator = torch.Generator().manual_seed(1)
    for parameter in model.parameters():
        if parameter.ndim == 1:
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    return model


def make_engine(model: Transformer) -> Engine:
    return Engine(PlainModel(model.requires_grad_(False), Vocabulary(TOKENS)))


def names_in(model: Transformer) -> Names:
    """A model's names, with no head in any role."""
    return Names(plain_layout(model.config), {}, ROLES)


def session(engine: Engine, plan, episodes=EPISODES, counterparts=(), reference=()) -> Session:
    return Session(engine, plan, Inputs(episodes, counterparts, reference, 24))


def named(encoder: int, decoder: int, heads: int, roles: dict[str, tuple[Node, ...]] | None = None) -> Names:
    """The names of a model of these sizes, with these heads in these roles."""
    config = ModelConfig(encoder_layers=encoder, decoder_layers=decoder, heads=heads)
    return Names(plain_layout(config), roles or {}, ROLES)
