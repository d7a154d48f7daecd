"""The encoder-decoder transformer of the paper's appendix, in plain PyTorch.

Pre-LayerNorm blocks, a final LayerNorm at the end of each stack, sinusoidal positions kept apart from the token
embeddings. Attention is written out, head by head, and every place that an experiment may read or edit passes
through a `Hook`: an identity module whose output is that site. The forward pass is a sequence of named steps, so
that a run may start at the first place it edits and stop after the last one it reads. Shapes stand at line ends:
B episodes, S prompt tokens, T output tokens, H heads, D d_model, d d_head, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from steer.models.plain.config import ModelConfig
from steer.models.plain.dropout import Dropout
from steer.models.vocabulary import PAD


class Hook(nn.Module):
    """A named place in the forward pass: an identity module."""

    def forward(self, x: Tensor) -> Tensor:
        return x


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"gelu": F.gelu, "relu": F.relu}
NONE = torch.empty(0)  # what a state holds before it is computed


@dataclass
class State:
    """What a forward pass carries from step to step. A pass that starts midway is given what its first step reads."""

    prompt: Tensor  # B S: token ids
    output: Tensor  # B T: token ids, SOS first
    stream: Tensor = NONE  # B T D: the residual stream of the stack that is running
    memory: Tensor = NONE  # B S D: what the decoder attends to
    q: Tensor = NONE  # B T H d
    k: Tensor = NONE  # B S H d
    v: Tensor = NONE  # B S H d
    pattern: Tensor = NONE  # B H T S
    z: Tensor = NONE  # B T H d
    mlp: Tensor = NONE  # B T D
    logits: Tensor = NONE  # B T V


Step: TypeAlias = Callable[[State], None]


class Embedding(nn.Module):
    """Token and position embeddings, each a site of its own; the stream starts as their sum."""

    positions: Tensor

    def __init__(self, config: ModelConfig, tokens: int) -> None:
        super().__init__()
        self.table = nn.Embedding(tokens, config.d_model)
        self.register_buffer("positions", sinusoids(config), persistent=False)
        self.tok, self.pos = Hook(), Hook()
        self.dropout = Dropout(config.dropout)

    def forward(self, ids: Tensor) -> Tensor:
        tok = self.tok(self.table(ids))  # B T D
        pos = self.pos(self.positions[: ids.shape[1]].expand_as(tok))  # B T D
        return self.dropout(tok + pos)


class Attention(nn.Module):
    """An attention block with the heads kept apart from projection to z. Its sites stand at the start of the step
    that depends on them: a pass that edits keys starts at `attend` and does not project again."""

    def __init__(self, config: ModelConfig, blocked: Callable[[State], Tensor], cross: bool = False) -> None:
        super().__init__()
        self.heads, self.blocked, self.cross = config.heads, blocked, cross
        width = config.heads * config.d_head
        self.ln = nn.LayerNorm(config.d_model)
        self.W_Q, self.W_K, self.W_V = (nn.Linear(config.d_model, width) for _ in range(3))
        self.W_O = nn.Linear(width, config.d_model)
        self.resid, self.q, self.k, self.v, self.z = (Hook() for _ in range(5))
        self.scores, self.pattern, self.out = (Hook() for _ in range(3))
        self.dropout = Dropout(config.dropout)

    def steps(self) -> dict[str, Step]:
        return {"project": self.project, "attend": self.attend, "mix": self.mix, "write": self.write}

    def project(self, state: State) -> None:
        state.stream = self.resid(state.stream)
        normed = self.ln(state.stream)
        source = state.memory if self.cross else normed
        state.q, state.k, state.v = (
            self.split(self.W_Q(normed)),
            self.split(self.W_K(source)),
            self.split(self.W_V(source)),
        )

    def attend(self, state: State) -> None:
        q, k = self.q(state.q), self.k(state.k)
        scores = (q / math.sqrt(q.shape[-1])).transpose(1, 2) @ k.permute(0, 2, 3, 1)  # B H T S
        scores = self.scores(scores.masked_fill(self.blocked(state), -torch.inf))
        state.pattern = self.pattern(scores.softmax(-1))

    def mix(self, state: State) -> None:
        z = self.dropout(state.pattern) @ self.v(state.v).transpose(1, 2)  # B H T d
        state.z = z.transpose(1, 2)

    def write(self, state: State) -> None:
        out = self.out(self.W_O(self.z(state.z).flatten(2)))  # B T D
        state.stream = state.stream + self.dropout(out)

    def split(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:-1], self.heads, -1)


class MLP(nn.Module):
    """An MLP block. While it is `silent` (a stage of training) it writes nothing."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.silent, self.activation = False, ACTIVATIONS[config.activation]
        self.ln = nn.LayerNorm(config.d_model)
        self.W_in = nn.Linear(config.d_model, config.d_ff)
        self.W_out = nn.Linear(config.d_ff, config.d_model)
        self.resid, self.out, self.post = Hook(), Hook(), Hook()
        self.dropout = Dropout(config.dropout)

    def steps(self) -> dict[str, Step]:
        return {"compute": self.compute, "write": self.write}

    def compute(self, state: State) -> None:
        state.stream = self.resid(state.stream)
        if self.silent:
            state.mlp = torch.zeros_like(state.stream)
            return
        state.mlp = self.of(state.stream)

    def of(self, stream: Tensor) -> Tensor:
        """What the block makes of a stream."""
        return self.W_out(self.dropout(self.activation(self.W_in(self.ln(stream)))))

    def write(self, state: State) -> None:
        state.stream = self.post(state.stream + self.dropout(self.out(state.mlp)))


class Transformer(nn.Module):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.enc_embed = Embedding(config, config.vocabulary)
        self.dec_embed = Embedding(config, config.answer_tokens)
        self.enc = nn.ModuleList(
            nn.ModuleDict({"self_attn": Attention(config, padding), "mlp": MLP(config)})
            for _ in range(config.encoder_layers)
        )
        self.dec = nn.ModuleList(
            nn.ModuleDict(
                {
                    "self_attn": Attention(config, future),
                    "cross_attn": Attention(config, padding, True),
                    "mlp": MLP(config),
                }
            )
            for _ in range(config.decoder_layers)
        )
        self.ln_enc, self.ln_dec = nn.LayerNorm(config.d_model), nn.LayerNorm(config.d_model)
        self.unembed = nn.Linear(config.d_model, config.answer_tokens)
        self.memory, self.final, self.logits = Hook(), Hook(), Hook()

    def forward(self, prompt: Tensor, output: Tensor) -> Tensor:
        """Logits for the token after each of `output` (which starts with SOS)."""
        return self.run(State(prompt, output)).logits

    def encode(self, prompt: Tensor) -> Tensor:
        return self.run(State(prompt, prompt[:, :0]), stop="dec.embed").memory

    def decode(self, output: Tensor, memory: Tensor, prompt: Tensor) -> Tensor:
        return self.run(State(prompt, output, memory=memory), start="dec.embed").logits

    def run(self, state: State, start: str = "enc.embed", stop: str | None = None) -> State:
        """Take the steps from `start` up to, not including, `stop`. Changes the state and returns it."""
        steps = self.steps()
        names = list(steps)
        for name in names[names.index(start) : names.index(stop) if stop else None]:
            steps[name](state)
        return state

    def steps(self) -> dict[str, Step]:
        """Every step of a forward pass by name, in order."""
        steps: dict[str, Step] = {"enc.embed": self._embed_prompt}
        steps |= _steps("enc", self.enc)
        steps |= {"enc.norm": self._norm_encoder, "dec.embed": self._embed_output}
        steps |= _steps("dec", self.dec)
        return steps | {"dec.norm": self._norm_decoder}

    def _embed_prompt(self, state: State) -> None:
        state.stream = self.enc_embed(state.prompt)

    def _norm_encoder(self, state: State) -> None:
        state.memory = self.memory(self.ln_enc(state.stream))

    def _embed_output(self, state: State) -> None:
        state.stream = self.dec_embed(state.output)

    def _norm_decoder(self, state: State) -> None:
        state.logits = self.logits(self.unembed(self.final(self.ln_dec(state.stream))))


def _steps(stack: str, layers: nn.ModuleList) -> dict[str, Step]:
    steps: dict[str, Step] = {}
    for number, layer in enumerate(layers):
        assert isinstance(layer, nn.ModuleDict)
        for name, block in layer.items():
            assert isinstance(block, Attention | MLP)
            steps |= {f"{stack}.{number}.{name}.{step}": take for step, take in block.steps().items()}
    return steps


def padding(state: State) -> Tensor:
    """True where a prompt holds padding, which no query may attend to."""
    return (state.prompt == PAD)[:, None, None, :]  # B 1 1 S


def future(state: State) -> Tensor:
    """True above the diagonal. Padding stands last, so the causal mask hides it from every real token."""
    size = state.output.shape[1]
    return torch.ones(size, size, dtype=torch.bool, device=state.output.device).triu(1)  # T T


def sinusoids(config: ModelConfig) -> Tensor:
    """The table of Vaswani et al. (2017): sines on even features, cosines on odd ones."""
    # On the CPU wherever the model is built: a table without values (meta) would import all of torch's compiler.
    place = torch.arange(config.max_length, dtype=torch.float64, device="cpu")[:, None]
    even = torch.arange(0, config.d_model, 2, dtype=torch.float64, device="cpu")
    rate = torch.exp(even * (-math.log(1e4) / config.d_model))
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
