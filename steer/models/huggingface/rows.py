"""The families that are known, a row each. A new one is a row here; `steer doctor` says whether the row is right."""

from __future__ import annotations

from dataclasses import replace

from steer.models.huggingface.parts import Attention, Feedforward, Keys, Refusal, Row, Stack

_DYNAMIC = Refusal(
    "rope_type", ("dynamic", "longrope"), "its rotation depends on the longest text of the batch, so batch mates count"
)


def _t5(path: str, cross: bool) -> Stack:
    def attention(place: int, name: str) -> Attention:
        return Attention(f"layer.{place}.{name}", "q", "k", "v", "o", pre=f"layer.{place}.layer_norm")

    last = f"layer.{2 if cross else 1}"
    layers = ("num_decoder_layers", "num_layers") if cross else ("num_layers",)
    return Stack(
        path, "block", "embed_tokens", attention(0, "SelfAttention"),
        Feedforward((f"{last}.DenseReluDense",), pre=f"{last}.layer_norm"),
        attention(1, "EncDecAttention") if cross else None,
        Keys(layers, ("num_heads",)), final="final_layer_norm", bias="layer.0.SelfAttention",
    )  # fmt: skip


def _bart(path: str, cross: bool) -> Stack:
    def attention(name: str) -> Attention:
        return Attention(name, "q_proj", "k_proj", "v_proj", "out_proj", post=f"{name}_layer_norm")

    side = "decoder" if cross else "encoder"
    return Stack(
        f"{path}.{side}", "layers", "embed_tokens", attention("self_attn"),
        Feedforward(("fc1", "activation_fn", "fc2"), post="final_layer_norm"),
        attention("encoder_attn") if cross else None,
        Keys((f"{side}_layers",), (f"{side}_attention_heads",)), positions="embed_positions",
    )  # fmt: skip


def _bart_row(*classes: str, **changes: str) -> Row:
    decoder, encoder = (replace(_bart("model", cross), **changes) for cross in (True, False))  # type: ignore[arg-type]
    return Row(classes, decoder, encoder, head_bias="final_logits_bias")


_PROJECTIONS = Attention("self_attn", "q_proj", "k_proj", "v_proj", "o_proj", pre="input_layernorm")
_LLAMA = Row(
    ("LlamaForCausalLM",),
    Stack(
        "model", "layers", "embed_tokens", _PROJECTIONS, Feedforward(("mlp",), pre="post_attention_layernorm"),
        final="norm",
    ),
    rotary="model.rotary_emb", softmax32=True, refused=(_DYNAMIC,),
)  # fmt: skip
_GPT2 = Row(
    ("GPT2LMHeadModel",),
    Stack(
        "transformer", "h", "wte", Attention("attn", "c_attn", "c_attn", "c_attn", "c_proj", "3hd", pre="ln_1"),
        Feedforward(("mlp",), pre="ln_2"), keys=Keys(("n_layer",), ("n_head",)), positions="wpe", final="ln_f",
    ),
    lengths=("n_positions",),
    refused=(
        Refusal("reorder_and_upcast_attn", (True,), "its attention is computed in another order"),
        Refusal("add_cross_attention", (True,), "it has cross-attention without an encoder"),
    ),
)  # fmt: skip
_NEOX = Row(
    ("GPTNeoXForCausalLM",),
    Stack(
        "gpt_neox", "layers", "embed_in",
        Attention(
            "attention", "query_key_value", "query_key_value", "query_key_value", "dense", "h3d", pre="input_layernorm"
        ),
        Feedforward(("mlp",), pre="post_attention_layernorm"), final="final_layer_norm",
    ),
    rotary="gpt_neox.rotary_emb", parallel="use_parallel_residual", softmax32=True, refused=(_DYNAMIC,),
)  # fmt: skip


def _like_llama(row: Row, name: str, attention: Attention = _PROJECTIONS, mlp: Feedforward | None = None) -> Row:
    stack = replace(row.decoder, self_attention=attention, mlp=mlp or row.decoder.mlp)
    return replace(row, classes=(name,), decoder=stack)


_WINDOWED = replace(_LLAMA, window="module")
_CAPPED = replace(_WINDOWED, logit_cap="final_logit_softcapping", score_cap="attn_logit_softcapping")
ROWS: dict[str, Row] = {  # by `model_type` of the config
    "t5": Row(
        ("T5ForConditionalGeneration",), _t5("decoder", True), _t5("encoder", False),
        head_scale="scale_decoder_outputs", lengths=("n_positions",),
    ),
    "bart": _bart_row("BartForConditionalGeneration", embedding_norm="layernorm_embedding", positions_take="tokens"),
    "marian": _bart_row("MarianMTModel", scale="embed_scale", positions_take="shape"),
    "gpt2": _GPT2,
    "gpt_neox": _NEOX,
    "llama": _LLAMA,
    "mistral": replace(_like_llama(_LLAMA, "MistralForCausalLM"), window="config"),
    "qwen2": _like_llama(_WINDOWED, "Qwen2ForCausalLM"),
    "qwen3": _like_llama(
        _WINDOWED, "Qwen3ForCausalLM", replace(_PROJECTIONS, q_norm="q_norm", k_norm="k_norm")
    ),
    "gemma2": _like_llama(
        _CAPPED, "Gemma2ForCausalLM", replace(_PROJECTIONS, out="post_attention_layernorm"),
        Feedforward(("mlp",), pre="pre_feedforward_layernorm", out="post_feedforward_layernorm"),
    ),
}  # fmt: skip
