"""Small models whose weights are written by hand, so that the circuit is known by construction.

The task is the simplest of the grammar: the question is one symbol, the answer its colour. `A | C = blue | A = red`.

- copier: one output head looks at any colour (a support of one primitive has only the right one).
- chain: enc-self-0.0 tells each support symbol whether it is the question's, enc-self-1.0 hands that on to its colour,
  and the output head looks at the colour that has been told so.
- pair: the same with enc-self-0.0 twice (0.0 and 0.1).

Each stream has a feature for every token, four frequencies of the position, and two flags.
"""

from __future__ import annotations

import math

import torch
from tokens import COLOUR_IDS, EOS_ID, ID
from torch import Tensor

from steer.base.dice import Dice
from steer.discover.search import discover
from steer.models.checkpoint import Checkpoint, Record
from steer.models.plain.config import ModelConfig
from steer.models.plain.transformer import Transformer
from steer.results.circuit import Circuit
from steer.tasks.compositional.episode import Episode
from steer.tasks.compositional.grammar import Grammar, draw
from steer.tasks.compositional.vocabulary import BAR, TOKENS

D = 64
FREQUENCIES = [math.exp(-2 * n / D * math.log(1e4)) for n in range(4)]  # features 2n (sine) and 2n + 1 (cosine)
WORDS = 16  # the first of the features of tokens
ANSWER = 40  # the first of six features: what the output head says
IN_QUESTION, PAIRED = 60, 61  # flags
SIZE = 20.0  # of a token's feature: far above the sinusoids, so that LayerNorm's scale is nearly the same everywhere


def episodes(count: int, primitives: tuple[int, int], seed: int = 0) -> list[Episode]:
    grammar = Grammar(primitives=primitives, functions=(1, 1), demonstrations=(0, 0), arities=(1,))
    return [draw(grammar, Dice(seed, number)) for number in range(count)]


def words(positions: Tensor) -> Tensor:
    """Token embeddings: one feature each, and ballast elsewhere so that LayerNorm finds a mean near zero."""
    table = torch.zeros(len(TOKENS), D)
    unused = [*range(8, 16), *range(36, 40), *range(46, 60), 62, 63]
    table[:, unused] = -(SIZE + positions[:20].sum(1).mean()) / len(unused)
    for number in range(len(TOKENS)):
        table[number, WORDS + number] = SIZE
    return table


def empty(encoder_layers: int) -> Transformer:
    """Every matrix zero: nothing is written anywhere."""
    sizes = {"encoder_layers": encoder_layers, "decoder_layers": 1, "heads": 2, "d_model": D, "d_head": 32, "d_ff": 4}
    model = Transformer(ModelConfig(**sizes, dropout=0.0)).requires_grad_(False).eval()
    for module in model.modules():
        if isinstance(module, torch.nn.Linear):
            module.weight.zero_()
            module.bias.zero_()
    model.enc_embed.table.weight.copy_(words(model.enc_embed.positions))
    model.dec_embed.table.weight.copy_(words(model.dec_embed.positions))
    return model


def add_output(model: Transformer, told: bool) -> None:
    """dec-cross-0.0 looks at the token that is told to be the answer (or at any colour), and writes which it is."""
    block = model.dec[0]["cross_attn"]
    block.W_Q.bias[0] = 42.0
    block.W_K.weight[0, PAIRED] = float(told)
    for slot, colour in enumerate(COLOUR_IDS):
        block.W_K.weight[0, WORDS + colour] = float(not told)
        block.W_V.weight[slot, WORDS + colour] = 1.0
        block.W_O.weight[ANSWER + slot, slot] = 3.2
        model.unembed.weight[colour, ANSWER + slot] = 1.0
        model.unembed.weight[EOS_ID, WORDS + colour] = 3.0  # a colour has been said: enough


def add_broadcast(model: Transformer, head: int, strength: float) -> None:
    """enc-self-0.H: every token looks at a copy of itself, best the prompt's first token, and is told if it is that."""
    block, start = model.enc[0]["self_attn"], head * 32
    for number in range(len(TOKENS)):
        block.W_Q.weight[start + number, WORDS + number] = 4.0
        block.W_K.weight[start + number, WORDS + number] = 4.0
    for n in range(len(FREQUENCIES)):
        block.W_Q.bias[start + 20 + n] = 70.0  # towards the first place …
        block.W_K.weight[start + 20 + n, 2 * n + 1] = 1.0
        for offset in (0, 1):  # … and away from its own: the first token must look elsewhere
            block.W_Q.weight[start + 24 + 2 * n + offset, 2 * n + offset] = -300.0
            block.W_K.weight[start + 24 + 2 * n + offset, 2 * n + offset] = 1.0
        block.W_V.weight[start, 2 * n + 1] = 1.0
    block.W_V.weight[start, WORDS + ID[BAR]] = -0.2  # a bar's first copy stands next to it
    block.W_O.weight[IN_QUESTION, start] = strength  # small: LayerNorm must not dim the positions


def add_pairing(model: Transformer) -> None:
    """enc-self-1.0: every token looks two places back and takes over what was told there."""
    block = model.enc[1]["self_attn"]
    for n, frequency in enumerate(FREQUENCIES):
        sine, cosine = 2 * n, 2 * n + 1
        turn = 2 * frequency
        block.W_Q.weight[sine, sine], block.W_Q.weight[sine, cosine] = 30 * math.cos(turn), -30 * math.sin(turn)
        block.W_Q.weight[cosine, cosine], block.W_Q.weight[cosine, sine] = 30 * math.cos(turn), 30 * math.sin(turn)
        block.W_K.weight[sine, sine] = block.W_K.weight[cosine, cosine] = 30.0
        block.W_Q.bias[cosine] = 1.2  # the first two tokens have nothing two places back: they look at the first
    block.W_V.weight[0, IN_QUESTION] = 1.0
    block.W_O.weight[PAIRED, 0] = 16.0


def copier() -> Checkpoint:
    model = empty(1)
    add_output(model, told=False)
    return checkpoint(model)


def chain(broadcasters: int = 1) -> Checkpoint:
    model = empty(2)
    for head in range(broadcasters):
        add_broadcast(model, head, strength=1.0)
    add_pairing(model)
    add_output(model, told=True)
    return checkpoint(model)


def checkpoint(model: Transformer) -> Checkpoint:
    return Checkpoint(model, Record(config=model.config, seed=0, protocol={}, history=[]), "handmade")


@torch.no_grad()
def two_outputs(first: float, second: float) -> Checkpoint:
    """The copier with two output heads that look at the same and write it with different force."""
    model = empty(1)
    add_output(model, told=False)
    block = model.dec[0]["cross_attn"]
    for weight in (block.W_Q.weight, block.W_K.weight, block.W_V.weight):
        weight[32:] = weight[:32]
    block.W_Q.bias[32:] = block.W_Q.bias[:32]
    for head, force in enumerate((first, second)):
        for slot in range(6):
            block.W_O.weight[ANSWER + slot, 32 * head + slot] = force
    return checkpoint(model)


def found_in(made: Checkpoint, primitives: tuple[int, int]) -> Circuit:
    """Its circuit, searched on one set of episodes and checked on another."""
    searched, judged = episodes(60, primitives, seed=1), episodes(60, primitives, seed=2)
    return discover(made, searched, judged, 60)
