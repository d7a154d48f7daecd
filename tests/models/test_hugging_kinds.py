"""Every kind of experiment on every Hugging Face family, against replay through the model's own forward pass.

Recipes and prompts are files and take the ordinary way; by hand each example runs alone, without padding or mates.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import hugging_by_hand as by_hand
import pytest
import torch
import yaml
from hugging import FAMILIES, lifted, softmax_in_float64  # noqa: F401 - a fixture
from hugging_by_hand import Condition, Own, Trial, put
from hugging_files import WORDS, frame_of, save_bare
from torch import Tensor

from steer.anatomy.names import Names
from steer.engine.engine import Engine
from steer.engine.session import Session
from steer.experiments.api import run
from steer.models.families import tokenizer_of
from steer.models.huggingface.encoding import Frame
from steer.models.huggingface.layout import padding
from steer.models.huggingface.model import HuggingFaceModel
from steer.models.huggingface.subject import HuggingFaceSubject
from steer.models.protocol import Batch
from steer.models.vocabulary import Vocabulary
from steer.plan.plan import Run
from steer.recipe.load import load_recipe
from steer.results.provenance import Weights
from steer.results.result import Result
from steer.tasks import TASKS

pytestmark = [pytest.mark.usefixtures("softmax_in_float64"), pytest.mark.parametrize("family", FAMILIES)]
LINES = [  # prompts and answers of other lengths; the first is longer than the tiny models' windows
    {"prompt": "w5 w9 w12 w7 w30 w9 w11", "answer": "w8 w21"},
    {"prompt": "w14 w6 w40", "answer": "w33"},
    {"prompt": "w22 w17 w5 w44 w19", "answer": "w12 w13 w45"},
]
TWO = ("t5", "t5-apart", "bart", "marian")
NOTHING, EVERYTHING, CHAIN_END = "nothing ablated", "everything ablated", "nothing ablated before the chain"


@dataclass(frozen=True)
class Parts:
    """What is patched in models of one stack, and in those of two."""

    target: str
    both: tuple[str, str]
    sources: tuple[str, ...]
    chain: tuple[str, str]
    first: str
    mlp: tuple[str, str]  # an MLP, and a source of it
    nodes: tuple[str, ...]
    swapped: str
    pattern: str


ONE_STACK = Parts(
    "dec-self-2.1.k", ("dec-self-1.2.q", "dec-self-1.2.v"), ("dec.tok", "dec-self-0.2", "dec-mlp-0"),
    ("dec-self-1.1.v", "dec-self-2.2.q"), "dec.tok", ("dec-mlp-2", "dec-self-1.3"),
    ("dec-self-0.1", "dec-mlp-1", "dec-self-2.0"), "dec-self-1.1", "dec-self-2.2.pattern",
)  # fmt: skip
TWO_STACKS = Parts(
    "dec-cross-1.1.k", ("enc-self-1.2.q", "enc-self-1.2.v"), ("enc.tok", "enc-self-0.2", "enc-mlp-0"),
    ("enc-self-1.1.v", "dec-cross-1.2.k"), "enc.tok", ("dec-mlp-1", "dec-cross-0.3"),
    ("enc-self-0.1", "dec-mlp-0", "dec-cross-1.0"), "enc-self-1.1", "dec-cross-1.2.pattern",
)  # fmt: skip


def parts_of(family: str) -> Parts:
    return TWO_STACKS if family in TWO else ONE_STACK


def bare(trial: Trial) -> by_hand.Edits:
    return {}


def whole(port: str) -> Condition:
    return lambda trial: {port: put(trial.clean[port])}


def cases(family: str) -> dict[str, tuple[dict, dict[str, Condition]]]:
    """What a recipe says, and what each of its conditions means."""
    p = parts_of(family)
    one, two = p.chain
    firsts = {CHAIN_END: whole(one), EVERYTHING: by_hand.kept([one], None), p.first: by_hand.kept([one], p.first)}
    keep, mlp = by_hand.kept([p.target], None), by_hand.kept([p.mlp[0]], None)
    both = {s: by_hand.ablated(p.both, s) for s in p.sources}
    own = Own(model(family).module.model)
    parts = [node for node in own.nodes if not node.endswith((".tok", ".pos"))]
    outside = [node for node in parts if node not in p.nodes]
    return {
        "keep": (
            {"kind": "keep-only-one", "target": p.target, "sources": list(p.sources)},
            {NOTHING: bare, EVERYTHING: keep} | {s: by_hand.kept([p.target], s) for s in p.sources},
        ),
        "keep-mlp": (
            {"kind": "keep-only-one", "target": p.mlp[0], "sources": p.mlp[1]},
            {NOTHING: bare, EVERYTHING: mlp, p.mlp[1]: by_hand.kept([p.mlp[0]], p.mlp[1])},
        ),
        "ablate": (
            {"kind": "ablate-only-one", "target": list(p.both), "sources": list(p.sources)},
            {NOTHING: bare, EVERYTHING: by_hand.kept(p.both, None)} | both,
        ),
        "chain": (
            {"kind": "chained-patch", "chain": [one, two], "sources": p.first},
            {NOTHING: bare} | {name: by_hand.chained(first, one, two) for name, first in firsts.items()},
        ),
        "set": (
            {"kind": "ablate-set", "nodes": list(p.nodes)},
            {NOTHING: bare, "set ablated": by_hand.silenced(p.nodes)},
        ),
        "keep-set": (
            {"kind": "keep-set", "nodes": list(p.nodes), "within": "heads-and-mlps"},
            {NOTHING: bare, EVERYTHING: by_hand.silenced(parts), "only the set kept": by_hand.silenced(outside)},
        ),
        "compare": (
            {"kind": "compare", "conditions": [{"name": p.nodes[n], "ablate": p.nodes[n]} for n in (0, 1)]},
            {"clean": bare} | {node: by_hand.silenced([node]) for node in p.nodes[:2]},
        ),
    }  # fmt: skip


@cache
def model(family: str) -> HuggingFaceModel:
    return lifted(family)


def subject(family: str, folder: Path) -> HuggingFaceSubject:
    """The lifted model with the folder's tokens."""
    one, tokenizer = model(family), tokenizer_of(str(folder))
    words = Vocabulary(tokenizer.names, *padding(one.row, one.config.to_dict(), family))
    framed = replace(one, frame=Frame(words, *tokenizer.around))
    return HuggingFaceSubject(family, Names(one.layout), framed, TASKS["prompts"], Weights(family, "f" * 64))


def numbers(text: str) -> list[int]:
    return [WORDS.index(word) for word in text.split()]


def opening(family: str) -> list[int]:
    """What an answer of two stacks begins with; of one stack, nothing: it follows the prompt."""
    return [one_start(family), *frame_of(family)[0]] if family in TWO else []


def one_start(family: str) -> int:
    return model(family).config.decoder_start_token_id


@cache
def trials(family: str) -> list[Trial]:
    own, (before, after) = Own(model(family).module.model), frame_of(family)
    made = []
    for line in LINES:
        answer = numbers(line["answer"])
        fed = answer if family in TWO else answer[:-1]
        framed = [*before, *numbers(line["prompt"]), *(after if family in TWO else ())]
        made.append(Trial(own, framed, [*opening(family), *fed]))
    by_hand.give_means(made)
    return made


def ask(folder: Path, family: str, lines: Sequence[dict] = LINES, **keys) -> Result:
    save_bare(folder / "model", family, model(family).module.model)
    (folder / "lines.jsonl").write_text("\n".join(map(json.dumps, lines)))
    recipe = folder / "asked.yaml"
    recipe.write_text(yaml.safe_dump({"checkpoint": f"hf:{folder / 'model'}", "task": "lines.jsonl"} | keys))
    return run(load_recipe(str(recipe)), subject(family, folder / "model"))


@pytest.fixture(autouse=True)
def in_twos(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, int], list[int]]:
    """Batches of two, so that there is padding; gives what is written greedily."""
    real, generate = Engine.batches, Session.generate
    said: dict[tuple[str, int], list[int]] = {}

    def listen(self: Session, one: Run, batch: Batch) -> Tensor:
        written = generate(self, one, batch)
        said.update({(one.condition, row): line for row, line in zip(batch.rows, written.tolist(), strict=True)})
        return written

    monkeypatch.setattr(Engine, "batches", lambda self, some, size=2: real(self, some, 2))
    monkeypatch.setattr(Session, "generate", listen)
    return said


def same(result: Result, condition: str, edits: Condition, family: str) -> None:
    pattern = parts_of(family).pattern
    for row, trial in enumerate(trials(family)):
        seen = trial.run(edits(trial))
        for site, wanted in (("logits", seen["logits"]), (pattern, seen[pattern])):
            found = result.tensors[f"{condition}/{site}"][row][tuple(slice(size) for size in wanted.shape)]
            torch.testing.assert_close(found, wanted, rtol=0, atol=1e-9)


def test_every_condition_equals_the_models_own_forward(family: str, tmp_path: Path):
    measures = [{"name": "token-accuracy"}]
    for number, (recipe, conditions) in enumerate(cases(family).values()):
        sites = ["logits", parts_of(family).pattern]
        result = ask(tmp_path / str(number), family, **recipe, measures=measures, tensors=sites)
        assert {row.condition for row in result.rows} == set(conditions)
        for name, edits in conditions.items():
            same(result, name, edits, family)
        clean, *others = (result.tensors[f"{name}/logits"] for name in conditions)
        assert all(float((clean - other).abs().max()) > 1e-4 for other in others if conditions and other is not clean)


def test_what_is_written_greedily_is_what_the_model_writes(family: str, tmp_path: Path, in_twos):
    p = parts_of(family)
    measures = [{"name": "exact-match", "decoding": "greedy"}]
    ask(tmp_path, family, kind="keep-only-one", target=p.target, sources=p.first, measures=measures)
    end = 2 if family in TWO else None
    for name, condition in ((NOTHING, bare), (p.first, by_hand.kept([p.target], p.first))):
        for row, trial in enumerate(trials(family)):
            start = trial.saying(opening(family))
            said = by_hand.say(start, condition, 4, end)
            assert in_twos[name, row][: len(said)] == said


def test_attention_is_measured_on_the_models_own_patterns(family: str, tmp_path: Path):
    """Mass on the words that come next and on a span, and one example's pattern: clean, and with a source ablated."""
    p, before = parts_of(family), len(frame_of(family)[0])
    head = by_hand.node_of(p.pattern)
    measures = [{"name": "attention-mass", "heads": head}, {"name": "attention-mass", "heads": head, "span": "two"}]
    measures += [{"name": "attention-accuracy", "heads": head, "span": "two"}]
    measures += [{"name": "attention-pattern", "heads": head, "episode": 2}]
    lines = [line | {"spans": {"two": [len(line["prompt"]) - 6, len(line["prompt"])]}} for line in LINES]
    keys = {"kind": "ablate-set", "nodes": p.nodes[0], "measures": measures}
    result = ask(tmp_path, family, lines, **keys)
    for condition, edits in ((NOTHING, bare), ("set ablated", by_hand.silenced(p.nodes[:1]))):
        shown: list[list[float]] = [[], [], []]
        for line, trial in zip(lines, trials(family), strict=True):
            pattern, answer = trial.run(edits(trial))[p.pattern], numbers(line["answer"])
            steps = pattern[-len(answer) - (family in TWO) :][: len(answer)]  # two stacks say an end as well
            seen, last = [*trial.prompt, *([] if family in TWO else trial.said)], before + len(line["prompt"].split())
            for row, word in zip(steps, answer, strict=True):
                looked = row[[key == word for key in seen]], row[last - 2 : last]
                values = (*map(float, (part.sum() for part in looked)), int(row.argmax()) in (last - 2, last - 1))
                shown = [[*column, value] for column, value in zip(shown, values, strict=True)]
        found = [row for row in result.rows if row.condition == condition and row.position is None]
        assert [row.value for row in found] == pytest.approx([sum(one) / len(one) for one in shown], abs=1e-9)
        (drawn,) = (one for one in result.details if one.condition == condition)
        own = trials(family)[2].run(edits(trials(family)[2]))[p.pattern]
        torch.testing.assert_close(torch.tensor(drawn.weights, dtype=own.dtype), own, rtol=0, atol=1e-4)
