"""The proof of the seam: a family of models and a file of prompts from outside, through the ordinary way of a recipe.

One sequence holds prompt and answer; rows, tensors and what is written equal plain hooks on the bare model.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
import toy_by_hand as by_hand
import yaml
from torch import Tensor
from toy_by_hand import Condition, Trial
from toy_net import END, PAD, WORDS

import steer.models.families
from steer.base.registry import Registry
from steer.engine.engine import Engine
from steer.engine.session import Session
from steer.experiments.api import run
from steer.models.families import load_subject
from steer.models.protocol import Batch
from steer.plan.plan import Run
from steer.recipe.load import load_recipe
from steer.results.result import Result

LINES = [
    {"prompt": "a to b c", "answer": "b", "wrong": ["c", "d"], "spans": {"goal": [5, 6]}, "labels": {"goal": "b"}},
    {"prompt": "d from e to f g h", "answer": "f g", "wrong": ["h"], "spans": {"goal": [12, 15]}},
    {"prompt": "b b", "answer": "c d e", "wrong": ["a"], "split": "short"},
    {"prompt": "h g to f", "answer": "h", "wrong": ["g", "e"], "spans": {"goal": [7, 8]}, "labels": {"goal": "f"}},
    {"prompt": "to a from b to c", "answer": "a b", "wrong": ["c"], "split": "short"},
]
TARGET = "dec-self-1.0.k"
SITES = ["logits", "dec-self-1.1.pattern", "dec-resid-1.post"]
MEASURES = [
    {"name": "exact-match"}, {"name": "exact-match", "decoding": "greedy"}, {"name": "token-accuracy"},
    {"name": "attention-accuracy", "heads": "dec-self-1.*"}, {"name": "attention-mass", "heads": "dec-self-1.*"},
]  # fmt: skip
HEAD_SOURCES = ["dec-self-0.0", "dec-self-0.1", "dec-self-0.2"]
SWEEP = ["dec.tok", *HEAD_SOURCES, "dec-mlp-0"]
MLP_CHAIN = {"chain": ["dec-mlp-0", TARGET], "sources": "dec.tok"}
HEAD_CHAIN = {"chain": ["dec-self-0.1.v", "dec-self-1.2.q"], "sources": "dec.tok"}
NOTHING, EVERYTHING, CHAIN_END = "nothing ablated", "everything ablated", "nothing ablated before the chain"


def bare(trial: Trial) -> by_hand.Edits:
    return {}


def whole(port: str) -> Condition:
    """The first link as it is."""

    def edits(trial: Trial) -> by_hand.Edits:
        return {by_hand.port_hook(port): by_hand.rebuilt(trial, port, lambda n: trial.clean[by_hand.hook_of(n)])}

    return edits


def chains(one: str, two: str) -> dict[str, Condition]:
    firsts = {CHAIN_END: whole(one), EVERYTHING: by_hand.kept([one], None), "dec.tok": by_hand.kept([one], "dec.tok")}
    return {NOTHING: bare} | {name: by_hand.chained(first, one, two) for name, first in firsts.items()}


BOTH = ["dec-self-1.1.q", "dec-self-1.1.v"]
CASES: dict[str, tuple[dict, dict[str, Condition]]] = {
    "keep": (
        {"kind": "keep-only-one", "target": TARGET, "sources": ["dec.tok", "dec-self-*.*", "dec-mlp-*"]},
        {NOTHING: bare, EVERYTHING: by_hand.kept([TARGET], None)} | {s: by_hand.kept([TARGET], s) for s in SWEEP},
    ),
    "keep-mlp": (
        {"kind": "keep-only-one", "target": "dec-mlp-1", "sources": ["dec.tok", "dec-self-0.*"]},
        {NOTHING: bare, EVERYTHING: by_hand.kept(["dec-mlp-1"], None)}
        | {s: by_hand.kept(["dec-mlp-1"], s) for s in ["dec.tok", *HEAD_SOURCES]},
    ),
    "ablate": (
        {"kind": "ablate-only-one", "target": BOTH, "sources": SWEEP},
        {NOTHING: bare, EVERYTHING: by_hand.kept(BOTH, None)} | {s: by_hand.ablated(BOTH, s) for s in SWEEP},
    ),
    "chain": ({"kind": "chained-patch"} | HEAD_CHAIN, chains(*HEAD_CHAIN["chain"])),
    "mlp-chain": ({"kind": "chained-patch"} | MLP_CHAIN, chains(*MLP_CHAIN["chain"])),
    "set": (
        {"kind": "ablate-set", "nodes": ["dec-self-0.1", "dec-mlp-1"]},
        {NOTHING: bare, "set ablated": by_hand.silenced(["dec-self-0.1", "dec-mlp-1"])},
    ),
}  # fmt: skip


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, int], list[str]]:
    """A package that offers the family `toy`; batches of two. Gives what is written greedily."""
    folder = tmp_path / "toys-1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: toys\nVersion: 1\n")
    (folder / "entry_points.txt").write_text("[steer.models]\ntoy = toy:FAMILY\n")
    monkeypatch.syspath_prepend(tmp_path)
    families = Registry("steer.models", steer.models.families.FAMILIES.shipped)
    monkeypatch.setattr(steer.models.families, "FAMILIES", families)
    real = Engine.batches
    monkeypatch.setattr(Engine, "batches", lambda self, some, size=2: real(self, some, 2))
    said: dict[tuple[str, int], list[str]] = {}
    generate = Session.generate

    def listen(self: Session, one: Run, batch: Batch) -> Tensor:
        written = generate(self, one, batch)
        for row, line in zip(batch.rows, written.tolist(), strict=True):
            said[one.condition, row] = _words(line)
        return written

    monkeypatch.setattr(Session, "generate", listen)
    return said


def _words(line: list[int]) -> list[str]:
    return [WORDS[number] for number in line if number != PAD]


def lines_of(variant: str) -> list[dict]:
    """Every other answer is what the model says itself, so that some are right."""
    lines = []
    for number, (line, trial) in enumerate(zip(LINES, trials_of(variant, LINES), strict=True)):
        told = by_hand.say(trial, bare, 3, variant == "one")
        told = told[: told.index("END")] if "END" in told else told[: 1 + number // 2]
        lines.append(line | {"answer": " ".join(told)} if told and number % 2 == 0 else line)
    return lines


def written_down(folder: Path, variant: str, lines: Sequence[dict], **keys) -> Path:
    (folder / "lines.jsonl").write_text("\n".join(map(json.dumps, lines)))
    path = folder / "asked.yaml"
    path.write_text(yaml.safe_dump({"checkpoint": f"toy:{variant}", "task": "lines.jsonl"} | keys))
    return path


def ask(folder: Path, variant: str, lines: Sequence[dict], **keys) -> Result:
    """A recipe and its task as files, loaded and run as a user would."""
    path = written_down(folder, variant, lines, **keys)
    return run(load_recipe(str(path)), load_subject(f"toy:{variant}", dtype="float64"))


def numbers(text: str) -> list[int]:
    return [WORDS.index(word) for word in text.split()]


def trials_of(variant: str, lines: Sequence[dict]) -> list[Trial]:
    """Each line with its right answer fed in: where the end is a step too, all of it, else all but its last token."""
    module, cut = load_subject(f"toy:{variant}", dtype="float64").model.module, None if variant == "one" else -1
    made = [Trial(module, numbers(line["prompt"]), numbers(line["answer"])[:cut]) for line in lines]
    by_hand.give_means(made)
    return made


def right(variant: str, lines: Sequence[dict]) -> list[list[int]]:
    return [[*numbers(line["answer"]), *([END] if variant == "one" else [])] for line in lines]


def steps(trial: Trial) -> range:
    """The columns at which the answer's steps are read: from the prompt's last token on."""
    return range(len(trial.prompt), len(trial.ids))


def value(result: Result, condition: str, measure: str, of: str = "", position: int | None = None, **labels) -> float:
    wanted = {"condition": condition, "measure": measure, "of": of, "position": position} | labels
    (row,) = [row for row in result.rows if all(getattr(row, key) == is_ for key, is_ in wanted.items())]
    return row.value


def mean(lines: Sequence[Sequence[float]]) -> float:
    flat = [float(value) for line in lines for value in line]
    return sum(flat) / len(flat)


@pytest.mark.parametrize("variant", ["one", "beside"])
@pytest.mark.parametrize("case", CASES)
def test_every_condition_equals_plain_hooks(installed, tmp_path: Path, variant: str, case: str):
    recipe, conditions = CASES[case]
    measures = MEASURES if case != "keep-mlp" else MEASURES[:3]  # that MLP comes after the heads of the last layer
    lines = lines_of(variant)
    result = ask(tmp_path, variant, lines, **recipe, measures=measures, tensors=SITES)
    trials, targets = trials_of(variant, lines), right(variant, lines)
    assert {row.condition for row in result.rows} == set(conditions)
    assert 0 < value(result, NOTHING, "exact-match", decoding="greedy") < 1
    for name, condition in conditions.items():
        seen = [by_hand.forward(trial.module, trial.ids, condition(trial)) for trial in trials]
        same_tensors(result, name, seen)
        same_answers(result, name, seen, trials, targets)
        if measures is MEASURES:
            same_attention(result, name, seen, trials, targets)
        longest = max(len(numbers(line["answer"])) for line in lines) + 1
        told = [by_hand.say(trial, condition, longest, variant == "one") for trial in trials]
        assert [installed[name, row] for row in range(len(lines))] == told
        same_writing(result, name, told, targets, closed=variant == "one")


def same_tensors(result: Result, name: str, seen: Sequence[by_hand.Seen]) -> None:
    for row, one in enumerate(seen):
        theirs = (one["logits"], one["layers.1.pattern"][1], one["layers.1.post"])
        for site, wanted in zip(SITES, theirs, strict=True):
            found = result.tensors[f"{name}/{site}"][row][tuple(slice(n) for n in wanted.shape)]
            torch.testing.assert_close(found, wanted, rtol=0, atol=1e-10)


def same_answers(result: Result, name: str, seen, trials, targets) -> None:
    hits = [
        [int(one["logits"][column].argmax()) == token for column, token in zip(steps(trial), target, strict=True)]
        for one, trial, target in zip(seen, trials, targets, strict=True)
    ]
    assert value(result, name, "token-accuracy") == pytest.approx(mean(hits), abs=1e-12)
    assert value(result, name, "exact-match", decoding="forced") == mean([[all(line)] for line in hits])
    first = mean([line[:1] for line in hits])
    assert value(result, name, "token-accuracy", position=1) == pytest.approx(first, abs=1e-12)


def same_attention(result: Result, name: str, seen, trials, targets) -> None:
    """Of the answer's own tokens; the end is none."""
    for head in range(by_hand.HEADS):
        best, mass = [], []
        for one, trial, target in zip(seen, trials, targets, strict=True):
            pattern, pairs = one["layers.1.pattern"][head], zip(steps(trial), target, strict=True)
            counted = [(pattern[column], token) for column, token in pairs if token != END]
            best.append([trial.ids[int(line.argmax())] == token for line, token in counted])
            same = [[w for w, t in zip(line.tolist(), trial.ids, strict=True) if t == k] for line, k in counted]
            mass.append([sum(weights) for weights in same])
        of = f"dec-self-1.{head}"
        assert value(result, name, "attention-accuracy", of) == pytest.approx(mean(best), abs=1e-12)
        assert value(result, name, "attention-mass", of) == pytest.approx(mean(mass), abs=1e-10)


def same_writing(result: Result, name: str, told: Sequence[list[str]], targets, closed: bool) -> None:
    """What the model says itself is right if it is the answer, closed by the end where there is one."""
    wanted = [[WORDS[number] for number in target] for target in targets]
    hits = [[(said if closed else said[: len(due)]) == due] for said, due in zip(told, wanted, strict=True)]
    assert value(result, name, "exact-match", decoding="greedy") == mean(hits)
