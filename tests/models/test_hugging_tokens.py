"""Texts cut into tokens: blanks that belong to the word behind them, answers behind prompts, characters of pieces."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from hugging import FAMILIES, random_model
from hugging_files import frame_of, save_bare
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from steer.base.errors import PromptError
from steer.models.families import tokenizer_of
from steer.models.huggingface.model import wire
from steer.models.huggingface.place import resolve
from steer.models.huggingface.same_tokens import same_tokens
from steer.models.huggingface.tokenizer import FastCutter, ModelTokenizer, aligned
from steer.models.protocol import Batch
from steer.tasks.task import ANSWER, PROMPT, PlainExample
from steer.tasks.text import Piece

TEXTS = ["the cat sat on the mat", "the dog sat on the cat", "Paris is in France", "the mat is in Paris"] * 5


@pytest.fixture(scope="module")
def bytes_cutter() -> FastCutter:
    """Like GPT-2's: a blank is part of the word's token."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(TEXTS, trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, show_progress=False))
    return FastCutter(made)


def tokenizer(cutter: FastCutter, one_sequence: bool = True, most: int = 12) -> ModelTokenizer:
    return ModelTokenizer("mine", cutter, 1 + max(cutter.ids().values()), one_sequence, most, 0)


def test_an_answer_is_cut_as_it_follows_its_prompt(bytes_cutter: FastCutter):
    one = tokenizer(bytes_cutter)
    assert [piece.token for piece in one.answer("the cat sat on the", " mat")] == ["Ġmat"]
    assert [piece.token for piece in one.answer("the cat sat on the", "mat")] != ["Ġmat"]
    with pytest.raises(PromptError, match="a blank between them belongs to the answer"):
        one.answer("the cat sat on the ", "mat")
    with pytest.raises(PromptError, match="become one token"):
        one.answer("the ca", "t")


def test_pieces_cover_their_characters(bytes_cutter: FastCutter):
    text = "the cat sat"
    pieces = tokenizer(bytes_cutter).prompt(text)
    assert "".join(text[piece.start : piece.end] for piece in pieces) == text
    (answer,) = tokenizer(bytes_cutter).answer("the cat sat on the", " mat")
    assert (answer.start, answer.end) == (0, 4)


def test_limits_count_the_answer_where_it_follows(bytes_cutter: FastCutter):
    one, two = tokenizer(bytes_cutter, most=6), tokenizer(bytes_cutter, one_sequence=False, most=6)
    assert len(one.prompt("the cat sat on the mat")) == 6
    with pytest.raises(PromptError, match="prompt and answer: 7 tokens; mine takes 6"):
        one.answer("the cat sat on the mat", " is")
    assert two.answer("the cat sat on the mat", "the cat")
    with pytest.raises(PromptError, match="prompt: 7 tokens"):
        one.prompt("the cat sat on the mat is")


def test_tokens_without_characters_stand_between():
    assert aligned("ab  cd", ["\u2581ab", "\u2581", "c", "d"]) == [
        Piece("\u2581ab", 0, 2), Piece("\u2581", 2, 2), Piece("c", 4, 5), Piece("d", 5, 6),
    ]  # fmt: skip
    assert aligned("ﬁn", ["\u2581fi", "n"]) == [Piece("\u2581fi", 0, 0), Piece("n", 1, 2)]


def test_marians_own_tokenizer_cuts_answers_in_its_own_way(tmp_path: Path):
    """Two models of pieces and one vocabulary, as Marian's files have it; there is no `tokenizer.json`."""
    spm = pytest.importorskip("sentencepiece")
    for name, texts in (("source", TEXTS), ("target", [text[::-1] for text in TEXTS])):
        (tmp_path / f"{name}.txt").write_text("\n".join(texts))
        spm.SentencePieceTrainer.train(
            input=str(tmp_path / f"{name}.txt"), model_prefix=str(tmp_path / name), vocab_size=40,
            hard_vocab_limit=False, minloglevel=2,
        )  # fmt: skip
        (tmp_path / f"{name}.model").rename(tmp_path / f"{name}.spm")
    listed = [(tmp_path / f"{name}.vocab").read_text().splitlines() for name in ("source", "target")]
    pieces = [line.split("\t")[0] for lines in listed for line in lines]
    names = list(dict.fromkeys(["</s>", "<unk>", *pieces, "<pad>"]))
    (tmp_path / "vocab.json").write_text(json.dumps({name: number for number, name in enumerate(names)}))
    model = random_model("marian", dtype=torch.float32)
    config = model.config.to_dict() | {"vocab_size": len(names), "eos_token_id": 0, "pad_token_id": len(names) - 1}
    (tmp_path / "config.json").write_text(json.dumps(config | {"decoder_start_token_id": len(names) - 1}, default=str))
    cut = tokenizer_of(str(tmp_path))
    source, target = cut.prompt("the cat sat"), cut.answer("", "tas tac eht")
    assert "".join(piece.token for piece in source).replace("\u2581", " ").strip() == "the cat sat"
    assert "".join(piece.token for piece in target).replace("\u2581", " ").strip() == "tas tac eht"
    assert cut.around == ((), (0,))
    assert len(target) < len(cut.prompt("tas tac eht"))


@pytest.mark.parametrize("family", FAMILIES)
def test_places_of_prompt_and_answer(family: str, tmp_path: Path):
    """What stands at each place of the task's sequences; logits of step i are read where nothing of it was said yet."""
    save_bare(tmp_path, family, random_model(family, dtype=torch.float32))
    cut, (before, after) = tokenizer_of(str(tmp_path)), frame_of(family)
    model = wire(random_model(family, dtype=torch.float32))
    from dataclasses import replace

    model = replace(model, frame=replace(model.frame, before=before, after=after))
    shown = [PlainExample(("5", "9", "12"), ("8", "21")), PlainExample(("7",), ("33", "4", "6"))]
    batch = model.encode(shown, [0, 1])
    layout = model.layout
    prompt = batch.at(PROMPT, batch.tokens[layout.prompt])
    assert prompt[0, :3].tolist() == [5, 9, 12]
    assert prompt[1, 0] == 7
    said = batch.at(ANSWER, batch.tokens[layout.answer])
    assert said[0, 1:3].tolist() == [8, 21] if model.end is not None else said[0, 1].item() == 8
    assert batch.target[0, :2].tolist() == [8, 21]
    assert (batch.target[0, 2:3] == 2).all() if model.end is not None else batch.target[0, 2] == model.pad
    step_by_step(model, batch)
    assert cut.around == (before, after if len(layout.streams) == 2 else ())


def step_by_step(model, batch: Batch) -> None:
    """The answer taken off and said again gives the same batch, as far as it was said."""
    layout, now = model.layout, model.unanswered(batch)
    said = batch.at(ANSWER, batch.tokens[layout.answer])[:, 1:]
    for step in said.unbind(1):
        now = model.answered(now, step)
    assert torch.equal(now.places[ANSWER], batch.places[ANSWER])
    assert torch.equal(now.tokens[layout.answer], batch.tokens[layout.answer])
    assert bool((now.real[layout.answer] | ~batch.real[layout.answer]).all())


def test_tokens_are_those_of_transformers(tmp_path: Path):
    from hugging_files import WORDS
    from transformers import PreTrainedTokenizerFast

    save_bare(tmp_path, "llama", random_model("llama", dtype=torch.float32))
    loaded = PreTrainedTokenizerFast(
        tokenizer_file=str(tmp_path / "tokenizer.json"), unk_token="<unk>", bos_token="<s>"
    )
    loaded.save_pretrained(tmp_path)
    place, texts = resolve(str(tmp_path)), [f"{WORDS[5]} {WORDS[9]}", WORDS[12]]
    found = same_tokens(place, tokenizer_of(str(tmp_path)), texts)
    assert found is not None
    assert found.ok
    bare = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    bare.post_processor = None
    found = same_tokens(place, tokenizer(FastCutter(bare)), texts)
    assert found is not None
    assert not found.ok
