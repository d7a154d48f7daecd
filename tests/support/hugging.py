# ruff: noqa: C408 - configs read best as keywords
"""Tiny random models of every Hugging Face family, all biases and gains away from their neutral values, and batches.

Norms and softmax of these families compute in float32 whatever the weights are; `lifted` models compute in float64, so
that equal means equal to 1e-12 and not to 1e-7.
"""

from __future__ import annotations

import types
from typing import Any

import pytest
import torch
import transformers as hf
from torch import Tensor, nn
from torch.nn import functional as F

from steer.models.huggingface.model import HuggingFaceModel, wire
from steer.models.protocol import Batch

SIZE = dict(vocab_size=50, hidden_size=32, num_hidden_layers=3, num_attention_heads=4, intermediate_size=48)
ROPE = dict(SIZE, max_position_embeddings=64, pad_token_id=0, bos_token_id=1, eos_token_id=2, head_dim=8)
GROUPED = dict(ROPE, num_key_value_heads=2)
SEQ2SEQ = dict(
    vocab_size=50, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
    encoder_ffn_dim=48, decoder_ffn_dim=48, max_position_embeddings=64, scale_embedding=True, pad_token_id=0,
    bos_token_id=1, eos_token_id=2, decoder_start_token_id=2, forced_eos_token_id=None,
)  # fmt: skip
T5 = dict(
    vocab_size=50, d_model=32, d_kv=12, d_ff=48, num_layers=2, num_decoder_layers=2, num_heads=4,
    relative_attention_num_buckets=8, relative_attention_max_distance=12, dropout_rate=0.1,
    feed_forward_proj="gated-gelu", pad_token_id=0, eos_token_id=2, decoder_start_token_id=0,
)  # fmt: skip
NEOX_ROPE = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5}
GEMMA = dict(
    GROUPED, head_dim=16, sliding_window=4, query_pre_attn_scalar=10, attn_logit_softcapping=5.0,
    final_logit_softcapping=8.0,
)  # fmt: skip
WINDOWED = dict(GROUPED, use_sliding_window=True, sliding_window=4, max_window_layers=1)
CONFIGS: dict[str, tuple[type, type, dict[str, Any]]] = {  # encoder-decoders first
    "t5": (hf.T5Config, hf.T5ForConditionalGeneration, T5),
    "t5-apart": (hf.T5Config, hf.T5ForConditionalGeneration, T5 | {"tie_word_embeddings": False}),
    "bart": (hf.BartConfig, hf.BartForConditionalGeneration, SEQ2SEQ),
    "marian": (hf.MarianConfig, hf.MarianMTModel, SEQ2SEQ),
    "gpt2": (
        hf.GPT2Config, hf.GPT2LMHeadModel,
        dict(vocab_size=50, n_positions=64, n_embd=32, n_layer=3, n_head=4, n_inner=48, eos_token_id=2),
    ),
    "gpt_neox": (
        hf.GPTNeoXConfig, hf.GPTNeoXForCausalLM, dict(SIZE, max_position_embeddings=64, rope_parameters=NEOX_ROPE),
    ),
    "gpt_neox-serial": (
        hf.GPTNeoXConfig, hf.GPTNeoXForCausalLM,
        dict(SIZE, max_position_embeddings=64, rope_parameters=NEOX_ROPE, use_parallel_residual=False),
    ),
    "llama": (hf.LlamaConfig, hf.LlamaForCausalLM, dict(GROUPED, attention_bias=True, mlp_bias=True)),
    "mistral": (hf.MistralConfig, hf.MistralForCausalLM, dict(GROUPED, sliding_window=4)),
    "qwen2": (
        hf.Qwen2Config, hf.Qwen2ForCausalLM,
        {key: value for key, value in WINDOWED.items() if key != "head_dim"} | {"tie_word_embeddings": True},
    ),
    "qwen3": (hf.Qwen3Config, hf.Qwen3ForCausalLM, dict(WINDOWED, head_dim=16)),
    "gemma2": (hf.Gemma2Config, hf.Gemma2ForCausalLM, GEMMA),
}  # fmt: skip
FAMILIES = list(CONFIGS)


def random_model(name: str, seed: int = 0, dtype: torch.dtype = torch.float64) -> Any:
    config, kind, keys = CONFIGS[name]
    torch.manual_seed(seed)
    model = kind(config(**keys)).to(dtype).eval()
    generator = torch.Generator().manual_seed(seed)
    buffers = [buffer for key, buffer in model.named_buffers() if key == "final_logits_bias"]
    with torch.no_grad():
        for tensor in (*model.parameters(), *buffers):
            spread = 0.5 if tensor.ndim < 2 or len(tensor) == 1 else 1.2 / tensor.shape[-1] ** 0.5
            tensor.add_((torch.randn(tensor.shape, generator=generator) * spread).to(dtype))
    return model


def lifted(name: str, seed: int = 0) -> HuggingFaceModel:
    """Wired, in float64 throughout."""
    model = random_model(name, seed)
    for module in model.modules():
        kind = type(module).__name__
        if kind.endswith(("RMSNorm", "T5LayerNorm")):
            plus = 1.0 if kind.startswith("Gemma") else 0.0
            module.forward = types.MethodType(lambda self, x, plus=plus: rms(self, x, plus), module)
    wired = wire(model)
    for block in wired.module.modules():
        if hasattr(block, "heads"):
            object.__setattr__(block.heads, "softmax", None)
    return wired


def rms(norm: Any, x: Tensor, plus: float) -> Tensor:
    eps = norm.eps if hasattr(norm, "eps") else norm.variance_epsilon
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * (norm.weight + plus)


@pytest.fixture
def softmax_in_float64(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eager attention asks for float32; here it gets float64, where it has float64."""
    own = F.softmax

    def softmax(x: Tensor, dim: int | None = None, dtype: torch.dtype | None = None, **more: object) -> Tensor:
        return own(x, dim=dim, dtype=None if x.dtype == torch.float64 else dtype)

    monkeypatch.setattr(nn.functional, "softmax", softmax)


def tokens(rows: int, length: int, seed: int, shorter: int = 3) -> tuple[Tensor, Tensor]:
    """Random tokens, the last row padded, and which of them are real."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(3, 50, (rows, length), generator=generator)
    real = torch.ones_like(ids, dtype=torch.bool)
    if shorter:
        real[-1, length - shorter :] = False
    return ids.masked_fill(~real, 0), real


def some_batch(model: HuggingFaceModel, rows: int = 3, seed: int = 1, shorter: int = 3) -> Batch:
    """Texts of nine tokens; for encoder-decoders prompts of eleven."""
    made = {
        sequence: tokens(rows, 9 if stream == "dec" else 11, seed + number, shorter)
        for number, (stream, sequence) in enumerate((s.name, s.sequence) for s in model.layout.streams)
    }
    target = made[model.layout.answer][0]
    return Batch(0, list(range(rows)), {k: v[0] for k, v in made.items()}, {k: v[1] for k, v in made.items()}, target)
