"""The GPT-2 that `peers.py` puts to every side: random weights in a folder, a tokenizer of numbers, paired prompts."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

WORDS, VARIABLE = 256, "other"


@dataclass(frozen=True)
class Size:
    layers: int
    heads: int
    tokens: int  # of a prompt
    prompts: int
    width: int = 128


def save_model(folder: Path, size: Size) -> None:
    """All biases and gains are away from where a model begins, so that one that is forgotten is seen."""
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=WORDS, n_positions=64, n_embd=size.width, n_layer=size.layers, n_head=size.heads, bos_token_id=0,
        eos_token_id=0, pad_token_id=0,
    )  # fmt: skip
    model = GPT2LMHeadModel(config)
    with torch.no_grad():
        for tensor in model.parameters():
            tensor.add_(torch.randn(tensor.shape) * (0.3 if tensor.ndim < 2 else 1 / tensor.shape[-1] ** 0.5))
    model.save_pretrained(folder)
    named = Tokenizer(models.WordLevel({f"w{number}": number for number in range(WORDS)}, unk_token="w0"))
    named.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    special = dict.fromkeys(("bos_token", "eos_token", "pad_token", "unk_token"), "w0")
    PreTrainedTokenizerFast(tokenizer_object=named, **special).save_pretrained(folder)


def save_prompts(path: Path, size: Size) -> None:
    """Each line: a prompt, and the same with a third of its words others and another answer."""
    dice = random.Random(0)
    lines = []
    for _ in range(size.prompts):
        words = [dice.randrange(1, WORDS) for _ in range(size.tokens)]
        other = [dice.randrange(1, WORDS) if dice.random() < 1 / 3 else word for word in words]
        answer, its = dice.sample(range(1, WORDS), 2)
        pair = {"prompt": spelled(other), "answer": f"w{its}"}
        lines.append({"prompt": spelled(words), "answer": f"w{answer}", "counterparts": {VARIABLE: pair}})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def spelled(numbers: list[int]) -> str:
    return " ".join(f"w{number}" for number in numbers)


@dataclass(frozen=True)
class Given:
    """What every side is given: the model as transformers loads it, and the prompts as ids."""

    model: Any
    size: Size
    ids: torch.Tensor  # B T: the prompts
    other: torch.Tensor  # B T: their counterparts
    answer: torch.Tensor  # B
    rival: torch.Tensor  # B

    def metric(self, logits: torch.Tensor) -> torch.Tensor:
        """Logit of the answer over that of the counterpart's answer, behind the prompt, over all prompts."""
        last, rows = logits[:, -1], torch.arange(len(self.ids))
        return (last[rows, self.answer] - last[rows, self.rival]).mean()


def read(folder: Path, prompts: Path, size: Size, dtype: torch.dtype) -> Given:
    model = GPT2LMHeadModel.from_pretrained(folder, attn_implementation="eager", dtype=dtype).eval()
    lines = [json.loads(line) for line in prompts.read_text().splitlines()]
    pairs = [line["counterparts"][VARIABLE] for line in lines]

    def ids(text: str) -> list[int]:
        return [int(word[1:]) for word in text.split()]

    columns = [[ids(one[key]) for one in some] for some in (lines, pairs) for key in ("prompt", "answer")]
    prompt, answer, other, rival = (torch.tensor(column) for column in columns)
    return Given(model.requires_grad_(False), size, prompt, other, answer[:, 0], rival[:, 0])
