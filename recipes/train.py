"""Trains the two small Hugging Face models that are shipped, and writes the prompts that their recipes are about.

    python recipes/train.py induction steer/models/shipped/induction     # GPT-2, attention only
    python recipes/train.py swapping steer/models/shipped/swapping       # BART: crosses the cross-attention
    python recipes/train.py prompts                                      # the JSONL files beside the recipes

Minutes of one core each. What makes the circuits grow where accuracy alone came without them: examples whose answer is
in no other place than behind the word that was said before, and first weights as large as models this narrow need (the
usual 0.02 is for wide ones).
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch import Tensor
from torch.nn import functional as F
from transformers import BartConfig, BartForConditionalGeneration, GPT2Config, GPT2LMHeadModel
from transformers.utils import logging

HERE = Path(__file__).parent
WORDS = ["ant", "bee", "cat", "dog", "elk", "fox", "gnu", "hen", "ibis", "jay", "koi", "lark"]
WORDS += ["mole", "newt", "owl", "pig", "quail", "rat", "seal", "toad", "urchin", "vole", "wasp", "yak"]
COPY, SWAP = "copy", "swap"
SPECIAL = ["<pad>", "</s>", "<unk>"]
PLACES, LENGTH, JUMPS = 64, 40, 0.25  # of the walks
LISTS = (2, 4, 6)  # words of a list
Batch = tuple[dict[str, Tensor], Tensor]  # what the model takes, and the tokens that it should say (-100: not asked)


def tokenizer_of(words: list[str], closed: bool) -> Tokenizer:
    """One token for each word; `closed`: an end follows every text, as T5 has it."""
    named = {word: number for number, word in enumerate([*SPECIAL, *words])}
    made = Tokenizer(models.WordLevel(named, unk_token=SPECIAL[2]))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made.add_special_tokens(SPECIAL)
    if closed:
        made.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return made


def induction_model() -> Any:
    """Its MLPs have one neuron, whose weights are zero and stay so."""
    config = GPT2Config(
        vocab_size=len(SPECIAL) + len(WORDS), n_positions=PLACES, n_embd=64, n_layer=2, n_head=4, n_inner=1,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=1, eos_token_id=1, pad_token_id=0,
        initializer_range=0.1,
    )  # fmt: skip
    model = GPT2LMHeadModel(config)
    model.transformer.wpe.weight.data.copy_(0.2 * waves(PLACES, config.n_embd))
    for block in model.transformer.h:
        for parameter in block.mlp.parameters():
            parameter.requires_grad_(False).zero_()
    return model


def waves(places: int, width: int) -> Tensor:
    """Sines and cosines, as the first transformer had them: neighbours are told apart everywhere in the same way."""
    angles = torch.arange(places)[:, None] * 100.0 ** (-torch.arange(0, width, 2) / width)
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)


def walks(rows: int, dice: torch.Generator) -> Batch:
    """Each row has a successor for every word, of its own; now and then the walk jumps.

    Asked are the words that follow a word as they have followed it before.
    """
    size = len(WORDS)
    successor = torch.rand(rows, size, generator=dice).argsort(1)
    jumps, anywhere = (
        torch.rand(rows, LENGTH, generator=dice) < JUMPS,
        torch.randint(size, (rows, LENGTH), generator=dice),
    )
    said = anywhere.clone()
    for place in range(1, LENGTH):
        follows = successor.gather(1, said[:, place - 1 : place])[:, 0]
        said[:, place] = torch.where(jumps[:, place], anywhere[:, place], follows)
    due = successor.gather(1, said)
    before = (said[:, :, None] == said[:, None, :-1]) & (due[:, :, None] == said[:, None, 1:])  # B T T-1
    known = before.tril(-1).any(-1)[:, :-1] & (said[:, 1:] == due[:, :-1])
    ids = said + len(SPECIAL)
    wanted = torch.full_like(ids, -100)
    wanted[:, :-1][known] = ids[:, 1:][known]
    return {"input_ids": ids}, wanted


def swapping_model(layers: int = 1) -> Any:
    """Without MLPs, as above: what depends on the command must then go through attention."""
    config = BartConfig(
        vocab_size=len(SPECIAL) + 2 + len(WORDS), max_position_embeddings=16, d_model=64, encoder_layers=layers,
        decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=1, decoder_ffn_dim=1,
        dropout=0.0, attention_dropout=0.0, init_std=0.1, pad_token_id=0, bos_token_id=1, eos_token_id=1,
        decoder_start_token_id=1, forced_eos_token_id=None,
    )  # fmt: skip
    model = BartForConditionalGeneration(config)
    for layer in (*model.model.encoder.layers, *model.model.decoder.layers):
        for parameter in (*layer.fc1.parameters(), *layer.fc2.parameters()):
            parameter.requires_grad_(False).zero_()
    return model


def lists(rows: int, dice: torch.Generator) -> Batch:
    """`copy ant bee cat dog` -> `ant bee cat dog`, `swap ant bee cat dog` -> `bee ant dog cat`, no word twice."""
    most, first = LISTS[-1], len(SPECIAL) + 2
    words = torch.rand(rows, len(WORDS), generator=dice).argsort(1)[:, :most] + first
    lengths = torch.tensor(LISTS)[torch.randint(len(LISTS), (rows, 1), generator=dice)]
    swapped = torch.rand(rows, 1, generator=dice) < 0.5
    places = torch.arange(most + 1)
    inside, end = places < lengths, places == lengths
    prompt, answer = torch.zeros(rows, most + 2, dtype=torch.long), torch.full((rows, most + 1), -100)
    prompt[:, 0] = len(SPECIAL) + swapped[:, 0]
    prompt[:, 1:-1] = torch.where(inside[:, :most], words, 0)
    prompt[:, 1:][end], answer[end] = 1, 1
    answer[:, :most] = torch.where(inside[:, :most], words.gather(1, places[:most] ^ swapped.long()), answer[:, :most])
    decoder = torch.cat([torch.ones(rows, 1, dtype=torch.long), answer[:, :-1].clamp(min=0)], 1)
    return {"input_ids": prompt, "attention_mask": (prompt != 0).long(), "decoder_input_ids": decoder}, answer


def train(
    model: Any, batches: Callable[[int, torch.Generator], Batch], steps: int, rate: float, seed: int, rows: int = 48
) -> float:
    """The share of asked tokens that are right, on other rows than it was trained on."""
    learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimiser = torch.optim.AdamW(learned, lr=rate, weight_decay=0.01, betas=(0.9, 0.98))
    dice, started = torch.Generator().manual_seed(seed), time.time()
    for step in range(steps):
        for group in optimiser.param_groups:
            group["lr"] = rate * min(1.0, (step + 1) / 100) * min(1.0, 4 * (1 - step / steps))
        given, wanted = batches(rows, dice)
        loss = F.cross_entropy(model(**given, use_cache=False).logits.flatten(0, 1), wanted.flatten())
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(learned, 1.0)
        optimiser.step()
        if step % 250 == 249:
            print(f"step {step + 1:5d}  loss {loss.item():.4f}  {time.time() - started:.0f} s", flush=True)
    return right(model.eval(), *batches(500, torch.Generator().manual_seed(seed + 1_000_000)))


@torch.no_grad()
def right(model: Any, given: dict[str, Tensor], wanted: Tensor) -> float:
    said = model(**given, use_cache=False).logits.argmax(-1)
    return float((said == wanted)[wanted != -100].double().mean())


def write_model(folder: Path, model: Any, tokenizer: Tokenizer, about: dict[str, Any]) -> None:
    model.config.use_cache = False
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "about.json").write_text(json.dumps(about, indent=1) + "\n")


def train_induction(folder: Path, steps: int, seed: int) -> None:
    torch.manual_seed(seed)
    model = induction_model()
    accuracy = train(model, walks, steps, 3e-3, seed)
    about = "a word that was said before is followed by what followed it then: an induction circuit"
    facts = {"description": about, "seed": seed, "steps": steps, "accuracy": round(accuracy, 4)}
    write_model(folder, model, tokenizer_of(WORDS, closed=False), facts)
    print(f"{accuracy:.1%} of the words that can be known")


def train_swapping(folder: Path, steps: int, seed: int) -> None:
    torch.manual_seed(seed)
    model = swapping_model()
    accuracy = train(model, lists, steps, 2e-3, seed)
    about = "copies a list of words, or swaps them in pairs: a circuit that crosses the cross-attention"
    facts = {"description": about, "seed": seed, "steps": steps, "accuracy": round(accuracy, 4)}
    write_model(folder, model, tokenizer_of([COPY, SWAP, *WORDS], closed=True), facts)
    print(f"{accuracy:.1%} of the tokens")


def span(words: list[str], place: int) -> list[int]:
    """The characters of a word."""
    start = len(" ".join(words[:place])) + (place > 0)
    return [start, start + len(words[place])]


def induction_lines(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Twelve words, no two alike, and one of them again. What followed it then?

    Two counterparts with the same words but for one thing: another word is said again, or two words of the list, that
    which is said again and another, stand in each other's place.
    """
    dice = random.Random(seed)
    for _ in range(count):
        words = dice.sample(WORDS, 12)
        one, two = dice.sample(range(1, 10), 2)
        while abs(one - two) < 2:
            one, two = dice.sample(range(1, 10), 2)
        exchanged = list(words)
        exchanged[one], exchanged[two] = words[two], words[one]
        query, other = words[one], words[two + 1]
        yield {
            "prompt": " ".join([*words, query]), "answer": words[one + 1], "wrong": [other],
            "counterparts": {
                "query": {"prompt": " ".join([*words, words[two]]), "answer": other},
                "key": {"prompt": " ".join([*exchanged, query]), "answer": other},
            },
            "spans": {"before": span(words, one), "target": span(words, one + 1), "rival": span(words, two + 1)},
        }  # fmt: skip


def swapping_lines(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Lists to copy or to swap in pairs, and the same with the other command."""
    dice = random.Random(seed)
    for number in range(count):
        words = dice.sample(WORDS, dice.choice(LISTS[1:]))
        said = {COPY: " ".join(words), SWAP: " ".join(words[place ^ 1] for place in range(len(words)))}
        command, other = (SWAP, COPY) if number % 2 else (COPY, SWAP)
        prompt = [command, *words]
        yield {
            "prompt": " ".join(prompt), "answer": said[command], "wrong": [said[other]],
            "counterparts": {"command": {"prompt": " ".join([other, *words]), "answer": said[other]}},
            "spans": {"command": span(prompt, 0), "list": [len(command) + 1, len(" ".join(prompt))]},
            "split": command,
        }  # fmt: skip


def write_lines(path: Path, lines: Iterator[dict[str, Any]]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["induction", "swapping", "prompts"])
    parser.add_argument("folder", type=Path, nargs="?", default=HERE)
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    torch.set_num_threads(1)
    logging.disable_progress_bar()
    if given.what == "prompts":
        write_lines(given.folder / "induction" / "induction.jsonl", induction_lines(200, given.seed))
        write_lines(given.folder / "swapping" / "swapping.jsonl", swapping_lines(200, given.seed))
    else:
        {"induction": train_induction, "swapping": train_swapping}[given.what](given.folder, given.steps, given.seed)


if __name__ == "__main__":
    main()
