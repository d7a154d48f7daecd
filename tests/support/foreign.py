"""Networks as others build and save them: PyTorch's own layers, and the authors' files."""

from __future__ import annotations

import argparse
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from steer.models.checkpoint import load_checkpoint

COLOURS = ["RED", "YELLOW", "GREEN", "BLUE", "PURPLE", "PINK"]
WORDS = ["dax", "lug", "wif", "zup", "fep", "blicket", "kiki", "tufa", "gazzer"]
MARKS = ["SOS", "EOS", "PAD"]
PROMPT = [*sorted([*COLOURS, *WORDS, "IO"]), *MARKS]  # as AUTHORS' classes number them
ANSWER = [*COLOURS, *MARKS]
D = 32


def lang(tokens: list[str], module: str = "MLC_datasets") -> Any:
    """An object of a class `MLC_datasets.Lang`, which is nowhere to be imported from when the file is read."""
    stub = sys.modules.setdefault(module, types.ModuleType(module))
    kind = stub.__dict__.setdefault("Lang", type("Lang", (), {"__module__": module}))
    made = kind()
    made.symbols, made.n_symbols = tokens[:-3], len(tokens)
    made.index2symbol, made.symbol2index = dict(enumerate(tokens)), {t: n for n, t in enumerate(tokens)}
    made.PAD_idx, made.PAD_token = len(tokens) - 1, "PAD"
    return made


class Net(nn.Module):
    """The authors' network from PyTorch's own layers: pre-norm, a table of sines, no tied weights."""

    def __init__(
        self, layers: int = 2, tokens: tuple[int, int] = (19, 9), heads: int = 8, activation: str = "gelu"
    ) -> None:
        super().__init__()
        self.activation = activation
        self.input_embedding, self.output_embedding = nn.Embedding(tokens[0], D), nn.Embedding(tokens[1], D)
        self.transformer = nn.Transformer(
            D, heads, layers, layers, 4 * D, dropout=0.0, activation=activation, batch_first=True, norm_first=True
        )
        self.out = nn.Linear(D, tokens[1])
        self.pos_embedding = nn.Module()
        place, feature = np.meshgrid(np.arange(5000), np.arange(D), indexing="ij")
        angle = place / 10000 ** ((feature - feature % 2) / D)
        table = np.where(feature % 2 == 0, np.sin(angle), np.cos(angle)).astype("float32")
        self.pos_embedding.register_buffer("pos_embedding", torch.from_numpy(table)[:, None])
        generator = torch.Generator().manual_seed(0)
        for name, parameter in self.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            scale = 1.4 / D**0.5 if parameter.ndim == 2 and "embedding" not in name else 0.5
            parameter.data = scale * noise + (1.0 if "norm" in name and name.endswith("weight") else 0.0)

    def forward(self, prompt: Tensor, output: Tensor, pad: int) -> Tensor:
        table = self.pos_embedding.pos_embedding[:, 0]
        source = self.input_embedding(prompt) + table[: prompt.shape[1]]
        target = self.output_embedding(output) + table[: output.shape[1]]
        future = torch.ones(output.shape[1], output.shape[1], dtype=torch.bool).triu(1)
        hidden = self.transformer(
            source, target, tgt_mask=future, src_key_padding_mask=prompt == pad, memory_key_padding_mask=prompt == pad
        )
        return self.out(hidden)


@pytest.fixture(autouse=True)
def without_their_modules():
    """What the tests pretend to have imported is gone again."""
    yield
    for name in ("MLC_datasets", "datasets", "train_lib"):
        sys.modules.pop(name, None)


@pytest.fixture(name="net")
def made_net() -> Net:
    with pytest.warns(UserWarning, match="enable_nested_tensor"):
        return Net()


def document(net: Net, prompt: list[str] = PROMPT, answer: list[str] = ANSWER) -> dict[str, Any]:
    optimizer = torch.optim.AdamW(net.parameters())
    net(torch.tensor([[0, 1, 2]]), torch.tensor([[0, 1]]), 18).sum().backward()
    optimizer.step()  # moves the weights a little, and has moments and counts to save
    layers = len(net.transformer.encoder.layers)
    tracked = {"epoch": 1, "step": 25, "lr": 1e-3, "avg_train_loss": 2.0, "val_acc": np.float64(3.5)}
    return {
        "nets_state_dict": net.state_dict(), "optimizer_state_dict": optimizer.state_dict(),
        "scheduler_epoch_state_dict": {"last_epoch": 3, "_last_lr": [1e-3]}, "step": 200_000, "epoch": 50,
        "train_tracker": [tracked], "best_val_loss": float("inf"),
        "langs": {"input": lang(prompt), "output": lang(answer)}, "args": argparse.Namespace(lr=0.001, flag=True),
        "episode_type": "algebraic_noise", "emb_size": D, "input_size": 19, "output_size": 9, "dropout": 0.1,
        "nlayers_encoder": layers, "nlayers_decoder": layers, "nepochs": 50, "batch_size": 25,
        "activation": net.activation,
        "ff_mult": 4,
    }  # fmt: skip


def write(content: object, path: Path) -> Path:
    torch.save(content, path)
    sys.modules.pop("MLC_datasets", None)
    return path


@torch.no_grad()
def same_logits(folder: Path, net: Net, prompt: list[str], answer: list[str], tolerance: float = 1e-10) -> None:
    """On padded batches of random tokens, each side with its own ids; in float64, from the same float32 weights."""
    ours = load_checkpoint(str(folder), dtype=torch.float64)
    theirs = net.double().train()  # dropout is 0; eval would take the fused path
    table = ours.transformer.enc_embed.positions
    theirs.pos_embedding.pos_embedding = table[:, None].to(torch.float64)  # their own is rounded to float32
    generator = torch.Generator().manual_seed(1)
    prompts = torch.randint(0, len(prompt), (6, 40), generator=generator)
    outputs = torch.randint(0, len(answer), (6, 7), generator=generator)
    prompts[prompts == prompt.index("PAD")] = prompt.index("SOS")
    for row in range(6):
        prompts[row, 40 - 3 * row :] = prompt.index("PAD")
    ids = ours.vocabulary.ids
    said = ours.transformer(
        torch.tensor([[ids[prompt[n]] for n in row] for row in prompts.tolist()]),
        torch.tensor([[ids[answer[n]] for n in row] for row in outputs.tolist()]),
    )
    wanted = theirs(prompts, outputs, prompt.index("PAD"))
    rows = [answer.index(token) for token in ours.vocabulary.tokens[: len(answer)]]
    assert wanted.std() > 0.5
    torch.testing.assert_close(said, wanted[..., rows], rtol=0, atol=tolerance)


NORM = ("transformer.encoder.norm.weight", "transformer.encoder.norm.bias")
POSITIONS = "pos_embedding.pos_embedding"
IN = "transformer.encoder.layers.1.self_attn.in_proj_weight"


def refused(steer, file: Path, says: str, *options: object) -> None:
    out = file.parent / "out"
    done = steer("import", file, "--out", out, *options)
    assert done.exit_code == 2, done.output
    assert says in done.stderr
    assert done.stderr.count("error:") == 1
    assert not out.exists()
