"""The encoder-decoder transformer of the paper's appendix, in plain PyTorch.

Pre-LayerNorm sublayers, a final LayerNorm at the end of each stack, sinusoidal positions kept apart from the token
embeddings. Attention is written out, head by head, and every place that an experiment may read or edit passes
through a `Hook`: an identity module whose output is that site. Shapes stand at line ends:
B episodes, S prompt tokens, T output tokens, H heads, D d_model, d d_head.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from steer.model.config import ModelConfig
from steer.model.dropout import Dropout
from steer.task.vocabulary import PAD_ID


class Hook(nn.Module):
    """A named place in the forward pass: gives back what it is given."""

    def forward(self, x: Tensor) -> Tensor:
        return x


class Attention(nn.Module):
    """Multi-head attention with the heads kept apart from projection to z."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        width = config.heads * config.d_head
        self.heads = config.heads
        self.W_Q = nn.Linear(config.d_model, width)
        self.W_K = nn.Linear(config.d_model, width)
        self.W_V = nn.Linear(config.d_model, width)
        self.W_O = nn.Linear(width, config.d_model)
        self.q, self.k, self.v, self.z = Hook(), Hook(), Hook(), Hook()
        self.scores, self.pattern, self.out = Hook(), Hook(), Hook()
        self.dropout = Dropout(config.dropout)

    def forward(self, x: Tensor, memory: Tensor, blocked: Tensor) -> Tensor:
        q = self.q(self.split(self.W_Q(x)))  # B T H d
        k = self.k(self.split(self.W_K(memory)))  # B S H d
        v = self.v(self.split(self.W_V(memory)))  # B S H d
        scores = q.transpose(1, 2) @ k.permute(0, 2, 3, 1) / math.sqrt(q.shape[-1])  # B H T S
        scores = self.scores(scores.masked_fill(blocked, -torch.inf))
        pattern = self.pattern(scores.softmax(-1))  # B H T S
        z = self.dropout(pattern) @ v.transpose(1, 2)  # B H T d
        z = self.z(z.transpose(1, 2))  # B T H d
        return self.out(self.W_O(z.flatten(2)))  # B T D

    def split(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:-1], self.heads, -1)


class MLP(nn.Module):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.W_in = nn.Linear(config.d_model, config.d_ff)
        self.W_out = nn.Linear(config.d_ff, config.d_model)
        self.out = Hook()
        self.dropout = Dropout(config.dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.W_out(self.dropout(F.gelu(self.W_in(x)))))  # B T D


class EncoderLayer(nn.Module):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.ln_self, self.ln_mlp = nn.LayerNorm(config.d_model), nn.LayerNorm(config.d_model)
        self.self_attn, self.mlp = Attention(config), MLP(config)
        self.pre, self.mid, self.post = Hook(), Hook(), Hook()
        self.dropout = Dropout(config.dropout)

    def forward(self, x: Tensor, blocked: Tensor) -> Tensor:
        x = self.pre(x)  # B S D
        normed = self.ln_self(x)
        x = self.mid(x + self.dropout(self.self_attn(normed, normed, blocked)))
        return self.post(x + self.dropout(self.mlp(self.ln_mlp(x))))


class DecoderLayer(nn.Module):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.ln_self, self.ln_cross, self.ln_mlp = (nn.LayerNorm(config.d_model) for _ in range(3))
        self.self_attn, self.cross_attn, self.mlp = Attention(config), Attention(config), MLP(config)
        self.pre, self.mid, self.cross, self.post = Hook(), Hook(), Hook(), Hook()
        self.dropout = Dropout(config.dropout)

    def forward(self, x: Tensor, memory: Tensor, future: Tensor, padding: Tensor) -> Tensor:
        x = self.pre(x)  # B T D
        normed = self.ln_self(x)
        x = self.mid(x + self.dropout(self.self_attn(normed, normed, future)))
        x = self.cross(x + self.dropout(self.cross_attn(self.ln_cross(x), memory, padding)))
        return self.post(x + self.dropout(self.mlp(self.ln_mlp(x))))


class Embedding(nn.Module):
    """Token and position embeddings, each a site of its own; the stream starts as their sum."""

    positions: Tensor

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.table = nn.Embedding(config.vocabulary, config.d_model)
        self.register_buffer("positions", sinusoids(config), persistent=False)
        self.tok, self.pos = Hook(), Hook()
        self.dropout = Dropout(config.dropout)

    def forward(self, ids: Tensor) -> Tensor:
        tok = self.tok(self.table(ids))  # B T D
        pos = self.pos(self.positions[: ids.shape[1]].expand_as(tok))  # B T D
        return self.dropout(tok + pos)


class Transformer(nn.Module):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.enc_embed, self.dec_embed = Embedding(config), Embedding(config)
        self.enc = nn.ModuleList(EncoderLayer(config) for _ in range(config.encoder_layers))
        self.dec = nn.ModuleList(DecoderLayer(config) for _ in range(config.decoder_layers))
        self.ln_enc, self.ln_dec = nn.LayerNorm(config.d_model), nn.LayerNorm(config.d_model)
        self.unembed = nn.Linear(config.d_model, config.vocabulary)
        self.memory, self.final, self.logits = Hook(), Hook(), Hook()

    def forward(self, prompt: Tensor, output: Tensor) -> Tensor:
        """Logits for the token after each of `output` (which starts with SOS)."""
        return self.decode(output, self.encode(prompt), prompt)

    def encode(self, prompt: Tensor) -> Tensor:
        padding = blocked_keys(prompt)
        x = self.enc_embed(prompt)  # B S D
        for layer in self.enc:
            x = layer(x, padding)
        return self.memory(self.ln_enc(x))

    def decode(self, output: Tensor, memory: Tensor, prompt: Tensor) -> Tensor:
        padding, future = blocked_keys(prompt), blocked_future(output)
        x = self.dec_embed(output)  # B T D
        for layer in self.dec:
            x = layer(x, memory, future, padding)
        return self.logits(self.unembed(self.final(self.ln_dec(x))))  # B T V


def blocked_keys(prompt: Tensor) -> Tensor:
    """True where a prompt holds padding, which no query may attend to."""
    return (prompt == PAD_ID)[:, None, None, :]  # B 1 1 S


def blocked_future(output: Tensor) -> Tensor:
    """True above the diagonal. Padding stands last, so the causal mask hides it from every real token."""
    size = output.shape[1]
    return torch.ones(size, size, dtype=torch.bool, device=output.device).triu(1)  # T T


def sinusoids(config: ModelConfig) -> Tensor:
    """The table of Vaswani et al. (2017): sines on even features, cosines on odd ones."""
    place = torch.arange(config.max_length, dtype=torch.float64)[:, None]
    rate = torch.exp(torch.arange(0, config.d_model, 2, dtype=torch.float64) * (-math.log(1e4) / config.d_model))
    waves = torch.stack([torch.sin(place * rate), torch.cos(place * rate)], dim=-1).flatten(1)
    return (config.position_scale * waves).to(torch.get_default_dtype())  # max_length D


def initialise(model: Transformer, generator: torch.Generator) -> None:
    """N(0, 1) for embeddings, Xavier for matrices, zero for biases, one for LayerNorm gains."""
    for module in model.modules():
        if isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, generator=generator)
        elif isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight, generator=generator)
            nn.init.zeros_(module.bias)
