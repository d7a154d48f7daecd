"""Silent bugs, planted in a wired model or in its family's row. Most are historic ones of this field."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from steer.models.huggingface import encoding, fold, heads, wired
from steer.models.huggingface.blocks import AttentionBlock, FeedforwardBlock
from steer.models.huggingface.model import HuggingFaceModel
from steer.models.huggingface.rows import ROWS
from steer.models.huggingface.state import State, hidden_keys
from steer.models.protocol import Batch

Plant = Callable[[HuggingFaceModel, pytest.MonkeyPatch], None]


def attentions(model: HuggingFaceModel, stack: str = "dec", crossed: bool = False) -> list[AttentionBlock]:
    found = [block for block in model.module.modules() if isinstance(block, AttentionBlock)]
    return [block for block in found if block.stack == stack and (block.keys != stack) == crossed]


def set_heads(model: HuggingFaceModel, **changes: Any) -> None:
    for block in attentions(model):
        for name, value in changes.items():
            object.__setattr__(block.heads, name, value(block.heads) if callable(value) else value)


def no_causal_mask(model, monkeypatch):
    for block in attentions(model):
        block.hidden = lambda state: hidden_keys(state.real["dec"], state.real["dec"], False, None)


def encoder_buckets_in_the_decoder(model, monkeypatch):
    for block in attentions(model):
        made = block.made_bias

        def bias(queries: int, keys: int, made=made) -> Tensor:
            maker = model.module.model.decoder.block[0].layer[0].SelfAttention
            maker.is_decoder = False
            try:
                return made(queries, keys)
            finally:
                maker.is_decoder = True

        block.made_bias = bias


def left_padding(model, monkeypatch):
    """Padding in front."""
    right = encoding.encode

    def encode(*given) -> Batch:
        batch = right(*given)
        (name,) = batch.tokens
        shift = (~batch.real[name]).sum(1)
        order = (torch.arange(batch.tokens[name].shape[1]) - shift[:, None]) % batch.tokens[name].shape[1]
        tokens, real = ({name: part[name].gather(1, order)} for part in (batch.tokens, batch.real))
        return replace(
            batch,
            tokens=tokens,
            real=real,
            places={k: (v + shift[:, None]).clamp(max=order.shape[1] - 1) for k, v in batch.places.items()},
        )

    monkeypatch.setattr(encoding, "encode", encode)


def left_padding_without_positions(model, monkeypatch):
    left_padding(model, monkeypatch)
    monkeypatch.setattr(wired, "positions", lambda real: torch.arange(real.shape[1]).expand_as(real))


def hooks_that_do_nothing(model, monkeypatch):
    """What is written to the stream's hook is not what the norm reads."""
    for block in attentions(model):
        real = block.at

        def at(name: str, value: Tensor, real=real) -> Tensor:
            met = real(name, value)
            return value if name == "resid" else met

        block.at = at


def keys_repeated_not_interleaved(model, monkeypatch):
    def spread(self, port: str, value: Tensor) -> Tensor:
        return value if port == "q" else value.repeat(1, 1, self.groups, 1)

    monkeypatch.setattr(heads.Heads, "spread", spread)


def heads_cut_after_the_projection(model, monkeypatch):
    def write(self, state: State) -> None:
        whole = self.heads.join(state.written)
        parts = self.at("z", whole.unflatten(-1, (self.heads.count, -1)))
        state.stream = self.norms.add(state.stream, self.at("out", parts.flatten(2)))

    monkeypatch.setattr(AttentionBlock, "write", write)


def another_rotary_base(model, monkeypatch):
    rotary = model.module.model.get_submodule(model.row.rotary)
    size = 2 * len(rotary.inv_freq)
    turned = 500_000.0 ** (-torch.arange(0, size, 2) / size)

    def angles(real: Tensor) -> tuple[Tensor, Tensor]:
        angle = wired.positions(real)[..., None] * torch.cat([turned, turned])
        return angle.cos().to(model.like), angle.sin().to(model.like)

    model.module.angles = angles


def no_cap_of_scores(model, monkeypatch):
    set_heads(model, cap=None)


def no_cap_of_logits(model, monkeypatch):
    monkeypatch.setattr(wired.Wired, "capped", lambda self, logits: logits)


def scale_of_the_head_size(model, monkeypatch):
    monkeypatch.setattr(heads.Heads, "scale", property(lambda self: self.size**-0.5))


def head_never_scaled(model, monkeypatch):
    monkeypatch.setattr(wired.Wired, "head_scale", property(lambda self: 1.0))


def head_always_scaled(model, monkeypatch):
    monkeypatch.setattr(wired.Wired, "head_scale", property(lambda self: float(self.model.config.d_model) ** -0.5))


def logits_bias_lost(model, monkeypatch):
    monkeypatch.setattr(wired.Wired, "head_bias", property(lambda self: None))


def mlps_beside_attention(model, monkeypatch):
    for block in model.module.modules():
        if isinstance(block, FeedforwardBlock):
            block.beside = True


def window_of_one_more(model, monkeypatch):
    set_heads(model, window=lambda heads: heads.window and heads.window + 1)


def window_lost(model, monkeypatch):
    set_heads(model, window=None)


def gain_without_one(model, monkeypatch):
    monkeypatch.setattr(fold, "gain", lambda norm: norm.weight)


def positions_from_the_first_row(model, monkeypatch):
    """The table has two rows in front that its module skips."""

    def written(self, ids: Tensor, real: Tensor) -> Tensor:
        return self.stack[0].get_submodule(self.row.positions).weight[: ids.shape[1]]

    monkeypatch.setattr(wired.Embedding, "written_positions", written)


def pairs_rotated_not_halves(model, monkeypatch):
    def rotate(x: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
        cos, sin = turn
        turned, rest = x[..., : cos.shape[-1]], x[..., cos.shape[-1] :]
        other = torch.stack([-turned[..., 1::2], turned[..., ::2]], -1).flatten(-2)
        return torch.cat([turned * cos + other * sin, rest], -1)

    monkeypatch.setattr("steer.models.huggingface.blocks.rotate", rotate)
    monkeypatch.setattr("steer.models.huggingface.model.rotate", rotate)


def padding_looked_at(model, monkeypatch):
    for block in attentions(model, "enc"):
        block.hidden = lambda state: torch.zeros_like(state.real["enc"])[:, None, None]


def padding_looked_at_across(model, monkeypatch):
    for block in attentions(model, crossed=True):
        block.hidden = lambda state: torch.zeros_like(state.real["enc"])[:, None, None]


def weight_not_transposed(model, monkeypatch):
    """A square Conv1D, cut the wrong way round."""
    real = heads.weight_of
    monkeypatch.setattr(heads, "weight_of", lambda m: m.weight if len(set(m.weight.shape)) == 1 else real(m))


def bias_in_every_head(model, monkeypatch):
    real = HuggingFaceModel.written

    def written(self, node, value: Tensor) -> Tensor:
        return real(self, node, value) + (0 if node.head is None else self._heads(node).bias)

    monkeypatch.setattr(HuggingFaceModel, "written", written)


def start_taken_for_padding(model, monkeypatch):
    """T5 starts its answers with the token that pads."""
    right = encoding.encode

    def encode(*given) -> Batch:
        batch = right(*given)
        return replace(batch, real={name: ids != model.pad for name, ids in batch.tokens.items()})

    monkeypatch.setattr(encoding, "encode", encode)


def frozen_norm_of_the_edited_stream(model, monkeypatch):
    """A pass that starts midway is given what an earlier layer left."""
    real = type(model.steps).given

    def given(self, start: str, stop: str | None):
        return {k: v.replace(".1.", ".0.") if k == "stream" else v for k, v in real(self, start, stop).items()}

    monkeypatch.setattr(type(model.steps), "given", given)


def row(**changes: Any) -> Callable[[str], Any]:
    return lambda family: replace(ROWS[family], **changes)


def decoder(family: str, **changes: Any) -> Any:
    return replace(ROWS[family], decoder=replace(ROWS[family].decoder, **changes))


def attention(family: str, **changes: Any) -> Any:
    return decoder(family, self_attention=replace(ROWS[family].decoder.self_attention, **changes))


PLANTED: dict[str, tuple[str, Plant, set[str]]] = {  # bug -> family, plant, the checks that may catch it
    "T5's decoder has no causal mask": ("t5", no_causal_mask, {"forward"}),
    "T5's decoder has the encoder's buckets": ("t5", encoder_buckets_in_the_decoder, {"forward"}),
    "left padding without position ids": ("gpt2", left_padding_without_positions, {"forward"}),
    "hooks on a norm's input do nothing": ("gpt2", hooks_that_do_nothing, {"effect", "arrives"}),
    "grouped keys are repeated, not interleaved": ("llama", keys_repeated_not_interleaved, {"forward"}),
    "heads are cut after the output projection": ("llama", heads_cut_after_the_projection, {"forward"}),
    "another rotary base": ("llama", another_rotary_base, {"forward"}),
    "soft cap of scores left out": ("gemma2", no_cap_of_scores, {"forward"}),
    "soft cap of logits left out": ("gemma2", no_cap_of_logits, {"forward"}),
    "scale derived from the head size": ("gemma2", scale_of_the_head_size, {"forward"}),
    "T5's scores scaled": ("t5", scale_of_the_head_size, {"forward"}),
    "T5's tied head not scaled": ("t5", head_never_scaled, {"forward"}),
    "T5's own head scaled": ("t5-apart", head_always_scaled, {"forward"}),
    "final_logits_bias lost": ("marian", logits_bias_lost, {"forward"}),
    "sequential residual taken as parallel": ("gpt_neox-serial", mlps_beside_attention, {"forward"}),
    "window off by one": ("mistral", window_of_one_more, {"forward"}),
    "window lost": ("qwen3", window_lost, {"forward"}),
    "Gemma's gain without one": ("gemma2", gain_without_one, {"shares"}),
    "BART's positions without their offset": ("bart", positions_from_the_first_row, {"forward"}),
    "pairs rotated, not halves": ("qwen2", pairs_rotated_not_halves, {"forward"}),
    "padding looked at in the encoder": ("bart", padding_looked_at, {"forward"}),
    "padding looked at from the decoder": ("marian", padding_looked_at_across, {"forward"}),
    "a Conv1D taken for a Linear": ("gpt2", weight_not_transposed, {"streams", "heads"}),
    "the shared bias in every head's write": ("gpt_neox", bias_in_every_head, {"streams", "heads"}),
    "T5's start token taken for padding": ("t5", start_taken_for_padding, {"forward", "single"}),
    "a pass midway is given another layer's stream": ("llama", frozen_norm_of_the_edited_stream, {"own value"}),
}  # fmt: skip
ROWS_PLANTED: dict[str, tuple[str, Callable[[str], Any]]] = {  # bug -> model, the wrong row
    "Marian's embedding scale lost": ("marian", partial(decoder, scale="")),
    "BART's norm of the embeddings lost": ("bart", partial(decoder, embedding_norm="")),
    "parallel residual taken as sequential": ("gpt_neox", row(parallel="")),
    "GPT-2's q|k|v cut head by head": ("gpt2", partial(attention, fused="h3d")),
    "NeoX's q|k|v cut one after the other": ("gpt_neox", partial(attention, fused="3hd")),
    "Qwen3's norms of q and k lost": ("qwen3", partial(attention, q_norm="", k_norm="")),
    "Gemma's norm of what attention writes lost": ("gemma2", partial(attention, out="")),
    "GPT-2's last norm lost": ("gpt2", partial(decoder, final="")),
}
