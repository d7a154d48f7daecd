"""Where the weights of `torch.nn.Transformer` stand in the plain model.

Both sides keep matrices as (out, in) and heads in the same order: nothing is transposed and no head moves. PyTorch has
queries, keys and values in one matrix, one above the other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from steer.base.errors import SteerError
from steer.models.plain.config import ModelConfig
from steer.models.plain.transformer import Transformer, sinusoids

FIRST = re.compile(r"(?P<stack>(?:.*\.)?)layers\.0\.self_attn\.in_proj_weight")
NUMBER = re.compile(r"layers\.(\d+)\.")
ATTENTION = {"self_attn": "self_attn", "cross_attn": "multihead_attn"}  # ours -> theirs
BLOCKS = {"enc": ("self_attn", "mlp"), "dec": ("self_attn", "cross_attn", "mlp")}  # in the order of their norms
CLOSE = 1e-3  # of a float32 table of 5,000 positions, 2.3e-4 are rounding


@dataclass(frozen=True)
class Stacks:
    """How the names of each stack's tensors begin (`transformer.encoder.`), and how many layers it has."""

    encoder: str
    decoder: str
    encoder_layers: int
    decoder_layers: int


@dataclass(frozen=True)
class Part:
    """A tensor of theirs; or the rows of one that are a third of it: queries, keys or values."""

    key: str
    third: int | None = None

    def of(self, tensors: Mapping[str, Tensor]) -> Tensor:
        tensor = tensors[self.key]
        return tensor if self.third is None else tensor.chunk(3)[self.third]

    def sizes(self, ours: Sequence[int]) -> list[int]:
        """The shape of theirs, from that of ours."""
        return list(ours) if self.third is None else [3 * ours[0], *ours[1:]]


@dataclass(frozen=True)
class Ends:
    """The names of the tensors outside the stacks. Without a bias (`None`) nothing is added to the logits."""

    prompt: str
    answer: str
    unembedding: str
    bias: str | None


def find_stacks(keys: Sequence[str], place: str) -> Stacks:
    """The one encoder and the one decoder of a state dict."""
    stacks = [match["stack"] for key in keys if (match := FIRST.fullmatch(key))]
    decoders = [stack for stack in stacks if f"{stack}layers.0.multihead_attn.in_proj_weight" in keys]
    encoders = [stack for stack in stacks if stack not in decoders]
    if len(encoders) != 1 or len(decoders) != 1:
        raise SteerError(
            f"{place}: {len(encoders)} encoders and {len(decoders)} decoders (…layers.0.self_attn.in_proj_weight, "
            "a decoder with multihead_attn beside it); one of each is needed"
        )
    return Stacks(encoders[0], decoders[0], _layers(keys, encoders[0]), _layers(keys, decoders[0]))


def _layers(keys: Sequence[str], stack: str) -> int:
    rests = (key.removeprefix(stack) for key in keys if key.startswith(stack))
    return 1 + max(int(match[1]) for rest in rests if (match := NUMBER.match(rest)) and len(match[1]) < 4)


def parts(stacks: Stacks, ends: Ends) -> dict[str, Part]:
    """Our tensor -> what it is of theirs."""
    parts = {"enc_embed.table.weight": Part(ends.prompt), "dec_embed.table.weight": Part(ends.answer)}
    parts["unembed.weight"] = Part(ends.unembedding)
    if ends.bias is not None:
        parts["unembed.bias"] = Part(ends.bias)
    sides = (("enc", stacks.encoder, stacks.encoder_layers), ("dec", stacks.decoder, stacks.decoder_layers))
    for side, stack, layers in sides:
        for layer in range(layers):
            parts |= _layer(f"{side}.{layer}", f"{stack}layers.{layer}", BLOCKS[side])
        parts |= _pair(f"ln_{side}", f"{stack}norm")
    return parts


def _layer(ours: str, theirs: str, blocks: Sequence[str]) -> Iterator[tuple[str, Part]]:
    for number, block in enumerate(blocks, start=1):
        yield from _pair(f"{ours}.{block}.ln", f"{theirs}.norm{number}")
        if block == "mlp":
            yield from _pair(f"{ours}.mlp.W_in", f"{theirs}.linear1")
            yield from _pair(f"{ours}.mlp.W_out", f"{theirs}.linear2")
        else:
            yield from _attention(f"{ours}.{block}", f"{theirs}.{ATTENTION[block]}")


def _attention(ours: str, theirs: str) -> Iterator[tuple[str, Part]]:
    for third, name in enumerate(("W_Q", "W_K", "W_V")):
        yield f"{ours}.{name}.weight", Part(f"{theirs}.in_proj_weight", third)
        yield f"{ours}.{name}.bias", Part(f"{theirs}.in_proj_bias", third)
    yield from _pair(f"{ours}.W_O", f"{theirs}.out_proj")


def _pair(ours: str, theirs: str) -> Iterator[tuple[str, Part]]:
    for kind in ("weight", "bias"):
        yield f"{ours}.{kind}", Part(f"{theirs}.{kind}")


def their_shapes(wanted: Mapping[str, Part], config: ModelConfig) -> dict[str, str]:
    """Kind and shape that each of their tensors must have, as `describe_tensors` says it."""
    with torch.device("meta"):
        ours = Transformer(config).state_dict()
    return {part.key: f"float32{part.sizes(ours[name].shape)}" for name, part in wanted.items()}


def check_final_norms(keys: Sequence[str], stacks: Stacks, place: str, more: str = "") -> None:
    """The plain model normalises what leaves each stack; a network that does not is another network."""
    for side, stack in (("encoder", stacks.encoder), ("decoder", stacks.decoder)):
        if not {f"{stack}norm.weight", f"{stack}norm.bias"} <= set(keys):
            raise SteerError(
                f"{place}: no {stack}norm (weight and bias): this network has no final LayerNorm on its {side}, "
                f"and the plain model always has one{more}"
            )


def is_position_table(tensor: Tensor, width: int) -> bool:
    """Are these the positions that the plain model computes by itself? (5000 x 1 x 128, or without the 1.)"""
    if tensor.numel() == 0 or tensor.numel() % width or tensor.shape[-1] != width:
        return False
    rows = tensor.reshape(-1, width)
    expected = sinusoids(ModelConfig(d_model=width, max_length=len(rows)))
    return bool(((rows - expected).abs() <= CLOSE).all())


def place_tensors(
    tensors: Mapping[str, Tensor], wanted: Mapping[str, Part], prompt_rows: Sequence[int], answer_rows: Sequence[int]
) -> dict[str, Tensor]:
    """Our tensors. `*_rows`: for each of our tokens, which row of theirs it has."""
    placed = {name: part.of(tensors) for name, part in wanted.items()}
    placed.setdefault("unembed.bias", torch.zeros(len(answer_rows)))
    placed["enc_embed.table.weight"] = placed["enc_embed.table.weight"][list(prompt_rows)]
    for name in ("dec_embed.table.weight", "unembed.weight", "unembed.bias"):
        placed[name] = placed[name][list(answer_rows)]
    return placed
