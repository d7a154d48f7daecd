"""Circuits of Hugging Face models behind their answers to prompts of a file; everybody knows the one of `induction`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from steer.anatomy.nodes import Node, Site
from steer.base.errors import SteerError
from steer.base.shipped import CHECKPOINTS, RECIPES
from steer.discover.keep import find_on_prompts
from steer.discover.lab import Lab
from steer.discover.prune import Pruned
from steer.discover.search import BestRoles, Searched, circuit_of, discover
from steer.discover.trace import Question
from steer.discover.writers import logit_shares
from steer.experiments.given import subject_of
from steer.models.subject import Subject
from steer.results.circuit import Circuit
from steer.results.evidence import SearchSettings
from steer.results.provenance import Weights

LINES = RECIPES / "induction" / "induction.jsonl"


def few(path: Path, count: int, name: str = "induction", **more: str) -> Path:
    lines = (RECIPES / name / f"{name}.jsonl").read_text().splitlines()[:count]
    path.write_text("\n".join(json.dumps(json.loads(line) | more) for line in lines))
    return path


def lab_of(name: str, path: Path, count: int = 30) -> Lab:
    subject: Subject = subject_of(name, task=few(path, count, name))
    return Lab(subject, subject.task.split("all", 0))


def nothing_found(
    subject: Subject, lines: Sequence[Any], judged: object, episodes: int, threshold: float, *rest: object
) -> Circuit:
    """In place of a search: no circuit, under its settings."""
    lab = Lab(subject, lines[:2])
    nothing = Searched(lab, lab, threshold, BestRoles([]), {}, {}, [], [], [], Pruned([], []))
    return circuit_of(nothing, SearchSettings(episodes=episodes, threshold=threshold))


def edges_into(lab: Lab, head: Node, port: str) -> set[str]:
    measure, reads = lab.choice(head)
    edges, _ = Question(lab, (Site(head, port),), measure, reads, 0.1).answer()
    return {str(source) for source in edges}


def test_the_paths_into_an_induction_head_are_the_known_ones(tmp_path: Path):
    lab = lab_of("induction", tmp_path / "lines.jsonl")
    head = lab.names.head("1.0")
    assert edges_into(lab, head, "k") == {"dec-self-0.0", "dec-self-0.1"}
    assert edges_into(lab, head, "q") == edges_into(lab, head, "v") == {"dec.tok"}
    shares = logit_shares(lab)
    writers = {str(node) for node, share in shares.items() if share.low > 0.05}
    assert writers == {f"dec-self-1.{number}" for number in range(4)}


def test_paths_cross_the_cross_attention(tmp_path: Path):
    lab = lab_of("swapping", tmp_path / "lines.jsonl")
    into = edges_into(lab, lab.names.head("dec-cross-0.1"), "k")
    assert "enc-self-0.1" in into  # the recipes of `swapping` say that it brings the command
    assert "enc-self-0.0" not in into
    assert "enc.tok" in edges_into(lab, lab.names.head("dec-cross-0.1"), "v")


def test_ablations_are_those_of_hooks_on_the_models_own_modules(tmp_path: Path):
    """Mean by position in the output projection's input, through transformers alone."""
    from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

    lab = lab_of("induction", tmp_path / "lines.jsonl")
    folder = CHECKPOINTS / "induction"
    cutter = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
    model = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager").eval()
    lines = [json.loads(line) for line in (tmp_path / "lines.jsonl").read_text().splitlines()]
    ids, right = (torch.tensor([cutter(line[key])["input_ids"] for line in lines]) for key in ("prompt", "answer"))

    def ablate(module, args):
        value = args[0].clone()
        value[..., :32] = value[..., :32].mean(0)  # heads 0 and 1, of 16 each
        return (value,)

    clean = model(ids).logits[:, -1].argmax(-1)
    handle = model.transformer.h[0].attn.c_proj.register_forward_pre_hook(ablate)
    ablated = model(ids).logits[:, -1].argmax(-1)
    handle.remove()
    heads = [lab.names.head(name) for name in ("0.0", "0.1")]
    (found,) = lab.accuracy_without({"": heads}).values()
    assert lab.mean(lab.clean(lab.exact(), 1)) == float((clean == right[:, 0]).double().mean()) > 0.9
    assert lab.mean(found) == pytest.approx(float((ablated == right[:, 0]).double().mean()), abs=1e-9)
    assert lab.mean(found) < 0.5


def test_rivals_are_the_wrong_answer_or_else_the_counterparts(tmp_path: Path):
    path = tmp_path / "lines.jsonl"
    other = {"prompt": "fox bee", "answer": "elk fox gnu"}
    lines = [
        {"prompt": "ant bee", "answer": "cat dog", "wrong": ["elk"], "counterparts": {"key": other}},
        {"prompt": "ant bee", "answer": "cat dog", "counterparts": {"key": other}},
        {"prompt": "ant bee", "answer": "cat dog"},
    ]
    path.write_text("\n".join(map(json.dumps, lines)))
    task = subject_of("induction", task=path).task
    shown = task.split("all", 0)
    assert [task.rivals(one) for one in shown] == [("elk", "dog"), ("elk", "fox"), ("cat", "dog")]
    assert [task.chooses(one) for one in shown] == [True, True, False]


def test_lines_to_search_on_and_lines_to_judge_on(tmp_path: Path):
    task = subject_of("induction", task=few(tmp_path / "lines.jsonl", 41)).task
    searched, judged = task.apart(0)
    assert (len(searched), len(judged)) == (21, 20)
    assert not {one.line for one in searched} & {one.line for one in judged}
    lines = (tmp_path / "lines.jsonl").read_text().splitlines()
    named = [json.dumps(json.loads(line) | {"split": "test" if n < 11 else "mine"}) for n, line in enumerate(lines)]
    (tmp_path / "named.jsonl").write_text("\n".join(named))
    searched, judged = subject_of("induction", task=tmp_path / "named.jsonl").task.apart(0)
    assert [one.line for one in judged] == list(range(11))
    assert len(searched) == 30
    short = subject_of("induction", task=few(tmp_path / "short.jsonl", 19)).task
    with pytest.raises(SteerError, match="10 lines to search on and 9 to judge on; each takes 10 or more"):
        short.apart(0)


def test_the_command_says_what_is_missing(steer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    for words, text in (
        (("-c", "induction"), "on which prompts? Give --task FILE.jsonl"),
        (("-c", "induction", "--task", few(tmp_path / "short.jsonl", 5)), "each takes 10 or more"),
        (("--all", "--task", LINES), "leave --all out"),
        (("-c", "seed1", "--dtype", "float64"), "give --task"),
        (("-c", "induction", "--task", "nowhere.jsonl"), "nowhere.jsonl"),
    ):
        done = steer("discover", *words)
        assert done.exit_code == 2
        assert text in " ".join(done.output.split())
    assert not (tmp_path / "results").exists()


def test_it_is_kept_in_its_folder_and_known_by_its_prompts(steer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    searched: list[int] = []

    def found(subject: Subject, lines: list, *rest: Any) -> Circuit:
        searched.append(len(lines))
        return nothing_found(subject, lines, *rest)

    monkeypatch.setattr("steer.discover.sought.discover", found)
    path = few(tmp_path / "lines.jsonl", 30)
    ask = ("discover", "-c", "induction", "--task", path, "--episodes", 20, "--out", tmp_path / "out")
    for _ in range(2):
        done = steer(*ask)
        assert done.exit_code == 0, done.output
    assert searched == [15]
    assert "already known" in done.output
    assert "already known" not in steer(*ask, "--threshold", 0.3).output  # another question about the same lines
    few(path, 40)
    assert "already known" not in steer(*ask).output
    assert "already known" in steer(*ask).output
    assert "already known" not in steer(*ask, "--dtype", "float64").output  # other numbers
    places = {file.parent.name for file in (tmp_path / "out").rglob("circuit.yaml")}
    assert places == {"discover-induction-lines", "discover-induction-lines-float64"}
    assert not (CHECKPOINTS / "induction" / "circuit.yaml").exists()


def test_a_sorted_file_is_halved_at_random(tmp_path: Path):
    """Lines of one kind stand first: both halves hold some of them, and the same ones each time."""
    task = subject_of("induction", task=few(tmp_path / "lines.jsonl", 60)).task
    drawn = [[{one.line for one in half} for half in task.apart(seed)] for seed in (0, 0, 1)]
    for half in (*drawn[0], *drawn[2]):
        assert 5 < sum(line < 30 for line in half) < 25
    assert drawn[0] == drawn[1] != drawn[2]


def test_a_circuit_of_one_commit_of_the_hub_is_not_that_of_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path, plain = few(tmp_path / "lines.jsonl", 20), subject_of("induction")
    monkeypatch.setattr("steer.discover.sought.discover", nothing_found)

    def searched(commit: str) -> bool:
        at_commit = replace(plain, weights=Weights("owner/model", commit=commit))
        monkeypatch.setattr("steer.discover.sought.load_subject", lambda *given: at_commit)
        settings = SearchSettings(episodes=20, threshold=0.1)
        return not find_on_prompts("induction", path, tmp_path / "out", settings).known

    assert [searched(commit) for commit in ("0" * 40, "0" * 40, "1" * 40)] == [True, False, True]


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "into", "sources"),
    [
        ("induction", "dec-self-1.0.k", {"dec-self-0.0", "dec-self-0.1"}),
        ("swapping", "dec-cross-0.0.k", {"enc-self-0.1", "enc-self-0.2", "enc-self-0.3"}),
    ],
)
def test_the_whole_search(name: str, into: str, sources: set[str]):
    subject = subject_of(name, task=RECIPES / name / f"{name}.jsonl")
    found = discover(subject, *subject.task.apart(0), 100)
    assert {edge.source for edge in found.edges if edge.target == into} == sources
    assert any(set(group.heads) == sources for group in found.groups if group.target == into)
    assert found.evidence is not None
    assert found.evidence.check is not None
    assert found.evidence.check.smallest_circuit.faithfulness.value > 0.85
    assert found.evidence.check.gradients is not None
    assert (found.evidence.check.gradients.eap_ig or 0) > 0.8
