"""The transformer against PyTorch's own, and what padding, causality and dropout promise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from rig import disturb
from tokens import EOS_ID, PAD_ID, VOCABULARY, answers, collate, score_all
from torch import Tensor, nn

from steer.models.checkpoint import load_checkpoint
from steer.models.decoding import greedy
from steer.models.plain.config import ModelConfig
from steer.models.plain.dropout import Dropout, Source, share_source
from steer.models.plain.transformer import Attention, Hook, Transformer, initialise, sinusoids
from steer.tasks.compositional.splits import make_splits

EPISODES = make_splits(0).test


def tensors(episodes) -> tuple[Tensor, Tensor, Tensor]:
    batch = collate(episodes)
    return torch.from_numpy(batch.prompt), torch.from_numpy(batch.output), torch.from_numpy(batch.target)


def copy_attention(ours: Attention, theirs: nn.MultiheadAttention) -> None:
    parts = (ours.W_Q, ours.W_K, ours.W_V)
    theirs.in_proj_weight.copy_(torch.cat([part.weight for part in parts]))
    theirs.in_proj_bias.copy_(torch.cat([part.bias for part in parts]))
    theirs.out_proj.load_state_dict(ours.W_O.state_dict())


@torch.no_grad()
def stock(model: Transformer) -> nn.Transformer:
    """`torch.nn.Transformer` with the same weights."""
    c = model.config
    theirs = nn.Transformer(
        c.d_model, c.heads, c.encoder_layers, c.decoder_layers, c.d_ff, activation=c.activation, batch_first=True,
        norm_first=True, dropout=0.0,
    )  # fmt: skip
    for ours, layer in zip([*model.enc, *model.dec], [*theirs.encoder.layers, *theirs.decoder.layers], strict=True):
        copy_attention(ours.self_attn, layer.self_attn)
        norms = [ours.self_attn.ln, ours.mlp.ln]
        if "cross_attn" in ours:
            copy_attention(ours.cross_attn, layer.multihead_attn)
            norms = [ours.self_attn.ln, ours.cross_attn.ln, ours.mlp.ln]
        for number, norm in enumerate(norms, start=1):
            getattr(layer, f"norm{number}").load_state_dict(norm.state_dict())
        layer.linear1.load_state_dict(ours.mlp.W_in.state_dict())
        layer.linear2.load_state_dict(ours.mlp.W_out.state_dict())
    theirs.encoder.norm.load_state_dict(model.ln_enc.state_dict())
    theirs.decoder.norm.load_state_dict(model.ln_dec.state_dict())
    return theirs


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@torch.no_grad()
@pytest.mark.parametrize("activation", ["gelu", "relu"])
def test_equals_the_stock_transformer(activation: str):
    """With fewer tokens in answers than in prompts, too."""
    config = ModelConfig(activation=activation, answers=11 if activation == "relu" else 0)
    model = Transformer(config)
    initialise(model, torch.Generator().manual_seed(0))
    model = disturb(model).double().eval()
    theirs = stock(model).double().train()  # dropout is 0; eval would take the fused path
    prompt, output, _ = tensors(EPISODES[:16])
    padding = prompt == PAD_ID
    future = torch.ones(output.shape[1], output.shape[1], dtype=torch.bool).triu(1)
    hidden = theirs(
        model.enc_embed(prompt), model.dec_embed(output), tgt_mask=future, src_key_padding_mask=padding,
        memory_key_padding_mask=padding,
    )  # fmt: skip
    torch.testing.assert_close(model(prompt, output), model.unembed(hidden), rtol=0, atol=1e-12)


def test_has_the_papers_size(paper_model: Transformer):
    count = sum(p.numel() for p in paper_model.parameters())
    # The authors' model has 930,953, with 19 prompt tokens and 9 output tokens where this vocabulary has 20 and 20.
    assert count - 930_953 == 128 * (1 + 11 + 11) + 11


@torch.no_grad()
@pytest.mark.parametrize(("kind", "tolerance"), [(torch.float32, 2e-5), (torch.float64, 1e-13)])
def test_batch_mates_and_padding_change_nothing(paper_model: Transformer, kind: torch.dtype, tolerance: float):
    """Only rounding may differ: matrix products of another shape add in another order."""
    model = paper_model.to(kind)
    together = model(*tensors(EPISODES[:12])[:2])
    for row, episode in enumerate(EPISODES[:12]):
        prompt, output, _ = tensors([episode])
        alone = model(prompt, output)
        wide = model(torch.nn.functional.pad(prompt, (0, 7)), torch.nn.functional.pad(output, (0, 3)))
        torch.testing.assert_close(together[row, : output.shape[1]], alone[0], rtol=0, atol=tolerance)
        torch.testing.assert_close(wide[0, : output.shape[1]], alone[0], rtol=0, atol=tolerance)


@torch.no_grad()
def test_the_decoder_does_not_see_the_future(paper_model: Transformer):
    prompt, output, _ = tensors(EPISODES[:4])
    changed = output.clone()
    changed[:, 2:] = EOS_ID
    a, b = paper_model(prompt, output), paper_model(prompt, changed)
    assert torch.equal(a[:, :2], b[:, :2])
    assert not torch.equal(a[:, 2:], b[:, 2:])


@torch.no_grad()
def test_every_hook_is_passed_and_holds_the_batch_first(paper_model: Transformer):
    seen: dict[str, Tensor] = {}
    for name, module in paper_model.named_modules():
        if isinstance(module, Hook):
            module.register_forward_hook(lambda _m, _i, out, name=name: seen.setdefault(name, out) is None or None)
    prompt, output, _ = tensors(EPISODES[:3])
    paper_model(prompt, output)
    hooks = [name for name, module in paper_model.named_modules() if isinstance(module, Hook)]
    assert sorted(seen) == sorted(hooks)
    assert all(len(value) == 3 for value in seen.values())
    assert seen["enc.0.self_attn.z"].shape == (3, prompt.shape[1], 8, 16)
    assert seen["dec.1.cross_attn.pattern"].shape == (3, 8, output.shape[1], prompt.shape[1])


@torch.no_grad()
def test_streams_are_sums_of_what_was_written(paper_model: Transformer):
    model, seen = paper_model.double(), {}
    for name, module in model.named_modules():
        if isinstance(module, Hook):
            module.register_forward_hook(lambda _m, _i, out, name=name: seen.__setitem__(name, out))
    model(*tensors(EPISODES[:5])[:2])
    for stack, layers in (("enc", 2), ("dec", 2)):
        parts = [seen[f"{stack}_embed.tok"], seen[f"{stack}_embed.pos"]]
        for layer in range(layers):
            kinds = ("self_attn", "mlp") if stack == "enc" else ("self_attn", "cross_attn", "mlp")
            parts += [seen[f"{stack}.{layer}.{kind}.out"] for kind in kinds]
            torch.testing.assert_close(sum(parts), seen[f"{stack}.{layer}.mlp.post"], rtol=0, atol=1e-10)


def test_sinusoids_are_the_standard_ones():
    table = sinusoids(ModelConfig()).double().numpy()
    place, feature = np.meshgrid(np.arange(64), np.arange(128), indexing="ij")
    angle = place / 10000 ** ((feature - feature % 2) / 128)
    np.testing.assert_allclose(table, np.where(feature % 2 == 0, np.sin(angle), np.cos(angle)), atol=1e-6)
    assert torch.equal(sinusoids(ModelConfig(position_scale=2)), 2 * sinusoids(ModelConfig()))


def test_dropout_keeps_the_mean_and_the_rate():
    dropout = Dropout(0.1).train()
    out = dropout(torch.ones(1_000, 1_000))
    assert abs(float((out == 0).float().mean()) - 26 / 256) < 0.002
    assert abs(float(out.mean()) - 1) < 0.002
    assert torch.equal(dropout.eval()(out), out)


def test_dropout_masks_depend_on_the_seed_alone():
    module = nn.Sequential(Dropout(0.5), Dropout(0.5)).train()
    source = share_source(module)
    assert isinstance(source, Source)
    results = []
    for key in ((1, 2), (1, 2), (1, 3)):
        source.seed(*key)
        results.append(module(torch.ones(64, 64)))
    assert torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])


@torch.no_grad()
def test_greedy_feeds_back_its_own_choices(paper_model: Transformer):
    prompt, _, _ = tensors(EPISODES[:6])
    ids = greedy(paper_model, prompt, VOCABULARY, longest=4)
    assert (ids[:, 0] != PAD_ID).all()
    for row in range(6):
        so_far = torch.ones(1, 1, dtype=torch.long)  # SOS
        for step in ids[row].tolist():
            if step == PAD_ID:
                break
            alone = prompt[row : row + 1, : int((prompt[row] != PAD_ID).sum())]
            assert int(paper_model(alone, so_far)[0, -1].argmax()) == step
            so_far = torch.cat([so_far, torch.tensor([[step]])], dim=1)


def test_exact_match_by_greedy_and_by_teacher_forcing_agree():
    """On a trained model, which is right about some of these and wrong about others."""
    model = load_checkpoint("seed2").transformer
    some = [episode for episode in EPISODES if len(episode.question.arguments) == 2]
    told = [replace(episode, answer=episode.answer[: 1 + n % 5]) for n, episode in enumerate(some[:60])]
    right = [said == episode.answer for said, episode in zip(answers(model, told), told, strict=True)]
    assert score_all(model, told).exact.tolist() == right
    assert 0.2 < sum(right) / len(right) < 0.8
