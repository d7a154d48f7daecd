"""Folders like those that people have: `config.json`, weights, and a word-level `tokenizer.json` framed as is usual."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, models, pre_tokenizers, processors

WORDS = ["<pad>", "<s>", "</s>", "<unk>", *(f"w{number}" for number in range(4, 50))]
CLOSED, OPENED = ((), (2,)), ((1,), ())
FRAMES: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {  # ids before and after a text, as these families have it
    "t5": CLOSED, "t5-apart": CLOSED, "marian": CLOSED, "bart": ((1,), (2,)), "llama": OPENED, "mistral": OPENED,
    "gemma2": OPENED,
}  # fmt: skip


def frame_of(family: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return FRAMES.get(family, ((), ()))


def save_tokenizer(folder: Path, family: str) -> None:
    made = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    before, after = frame_of(family)
    if before or after:
        around = [" ".join(WORDS[number] for number in part) for part in (before, after)]
        special = [(WORDS[number], number) for number in (*before, *after)]
        template = f"{around[0]} $A {around[1]}".strip()
        made.post_processor = processors.TemplateProcessing(single=template, special_tokens=special)
    made.save(str(folder / "tokenizer.json"))


def save_model(folder: Path, family: str, model: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    save_tokenizer(folder, family)
    return folder


def save_bare(folder: Path, family: str, model: Any) -> Path:
    """Without weights: what names, plans and tasks need."""
    folder.mkdir(parents=True, exist_ok=True)
    model.config.save_pretrained(folder)
    save_tokenizer(folder, family)
    return folder
