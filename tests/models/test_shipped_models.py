"""The Hugging Face models that are shipped: what their heads do is measured; accuracy alone shows no circuit."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import hugging_by_hand as by_hand
import pytest
import torch
from hugging_by_hand import Own, Trial
from torch import Tensor

import steer
from steer.base.shipped import CHECKPOINTS, RECIPES, model_names
from steer.models.families import load_subject, names_of, tokenizer_of
from steer.results.result import Result

HOME, TASK = RECIPES / "induction", RECIPES / "induction" / "induction.jsonl"
LINES = [json.loads(line) for line in TASK.read_text().splitlines()]
PREVIOUS, INDUCTION = ("dec-self-0.0", "dec-self-0.1"), tuple(f"dec-self-1.{head}" for head in range(4))


def values(result: Result, measure: str = "") -> dict[str, float]:
    rows = [row for row in result.rows if row.position is None and row.measure == (measure or row.measure)]
    return {row.condition: row.value for row in rows}


@pytest.fixture(scope="module")
def patterns() -> list[dict[str, Tensor]]:
    """Every head's attention in the model's own forward pass, line by line."""
    own = Own(load_subject("induction").model.module.model)
    ids = {word: number for number, word in enumerate(tokenizer_of("induction").names)}
    return [by_hand.forward(own, [ids[word] for word in line["prompt"].split()], []) for line in LINES]


def test_heads_of_the_first_layer_look_at_the_word_before(patterns):
    before = {
        head: torch.stack([one[f"{head}.pattern"].diagonal(-1).mean() for one in patterns]).mean().item()
        for head in map(str, names_of("induction").layout.heads)
    }
    assert min(before[head] for head in PREVIOUS) > 0.9
    assert max(share for head, share in before.items() if head not in PREVIOUS) < 0.5


def test_heads_of_the_second_look_at_what_followed_then(patterns):
    for head in (*PREVIOUS, *INDUCTION):
        on_target = []
        for line, one in zip(LINES, patterns, strict=True):
            words = line["prompt"].split()
            on_target.append(one[f"{head}.pattern"][-1, words.index(words[-1]) + 1].item())
        mean = sum(on_target) / len(on_target)
        assert mean > 0.9 if head in INDUCTION else mean < 0.1


def test_it_is_right_and_attention_only(patterns):
    words = tokenizer_of("induction").names
    said = [words[int(one["logits"][-1].argmax())] for one in patterns]
    assert said == [line["answer"] for line in LINES]
    assert all(not one[f"dec-mlp-{layer}"].any() for one in patterns for layer in range(2))


def test_previous_token_heads_feed_the_induction_heads_keys():
    kept, ablated = (values(steer.run(HOME / f"{name}_one_k.yaml")) for name in ("keep", "ablate"))
    assert min(kept[head] for head in PREVIOUS) > 0.85
    assert max(kept[source] for source in ("dec.tok", "dec.pos", "dec-self-0.2", "dec-self-0.3")) < 0.15
    assert max(ablated[head] for head in PREVIOUS) < 0.8
    assert min(ablated[source] for source in ("dec.tok", "dec.pos", "dec-self-0.2", "dec-self-0.3")) > 0.9
    chained = values(steer.run(HOME / "chain_k.yaml"))
    assert chained["dec.tok"] > 0.85
    assert chained["dec.pos"] < 0.15


def test_both_previous_token_heads_are_needed_and_each_can_stand_in_for_the_other():
    right = values(steer.run(HOME / "needed.yaml"), "exact-match")
    assert right["clean"] == right["one previous-token head"] == right["the other"] == right["one induction head"] == 1
    assert right["two other heads of the layer"] == 1
    assert right["both"] < 0.3
    assert right["all induction heads"] < 0.05


def test_a_kept_source_is_what_the_models_own_forward_makes_of_it(tmp_path: Path):
    """The recipe's number, by plain hooks on the model: all sources held, one clean, the others at their mean."""
    some = LINES[:12]
    (tmp_path / "some.jsonl").write_text("\n".join(map(json.dumps, some)))
    found = values(steer.run(HOME / "keep_one_k.yaml", changes={"task": str(tmp_path / "some.jsonl")}))
    own = Own(load_subject("induction").model.module.model)
    ids = {word: number for number, word in enumerate(tokenizer_of("induction").names)}
    trials = [Trial(own, [ids[word] for word in line["prompt"].split()], []) for line in some]
    by_hand.give_means(trials)
    for trial in trials:  # over all tokens, not place by place
        trial.means = {node: ([], pooled) for node, (_, pooled) in trial.means.items()}
    for source in (None, "dec-self-0.0", "dec.tok"):
        condition = by_hand.kept(["dec-self-1.0.k"], source)
        on_target = []
        for line, trial in zip(some, trials, strict=True):
            words = line["prompt"].split()
            pattern = trial.run(condition(trial))["dec-self-1.0.pattern"]
            on_target.append(pattern[-1, words.index(words[-1]) + 1].item())
        wanted = sum(on_target) / len(on_target)
        assert found[source or "everything ablated"] == pytest.approx(wanted, abs=1e-5)


@pytest.mark.parametrize("name", model_names())
def test_shipped_models_are_small_sound_and_known_by_name(name: str):
    size = sum(path.stat().st_size for path in (CHECKPOINTS / name).iterdir())
    assert size < 1_000_000
    assert steer.doctor(name, task=RECIPES / name / f"{name}.jsonl").ok
    assert steer.check(RECIPES / name / f"{name}.jsonl", f"hf:{name}").exact.value > 0.99


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("train", RECIPES / "train.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", model_names())
def test_the_script_trains_them_and_writes_their_prompts(name: str, script, tmp_path: Path, capsys):
    getattr(script, f"train_{name}")(tmp_path / "made", 2, 0)
    assert "%" in capsys.readouterr().out
    for file in ("config.json", "tokenizer.json"):
        assert json.loads((tmp_path / "made" / file).read_text()) == json.loads((CHECKPOINTS / name / file).read_text())
    count = len((RECIPES / name / f"{name}.jsonl").read_text().splitlines())
    script.write_lines(tmp_path / "lines" / "made.jsonl", getattr(script, f"{name}_lines")(count, 0))
    assert (tmp_path / "lines" / "made.jsonl").read_text() == (RECIPES / name / f"{name}.jsonl").read_text()


def test_the_command_crosses_by_the_keys_and_the_words_by_the_values():
    """Of the BART that copies or swaps: encoder heads bring the command into the cross-attention's keys."""
    home = RECIPES / "swapping"
    found = values(steer.run(home / "values.yaml"))
    assert found["enc.tok"] > 0.99
    assert max(share for name, share in found.items() if name not in ("enc.tok", "nothing ablated")) < 0.25
    ports = [f"dec-cross-0.{head}.v" for head in range(4)]
    keys, crossed = (values(steer.run(home / "keys.yaml", changes=more)) for more in ({}, {"target": ports}))
    assert keys["everything ablated"] < -15
    assert keys["enc-self-0.1"] < 5 < 12 < min(keys[f"enc-self-0.{head}"] for head in (0, 2, 3))
    assert crossed["everything ablated"] > 15  # by the values, the other command hardly arrives
    places = values(steer.run(home / "queries.yaml"))
    assert places["dec.pos"] > 0.8 > 0.5 > max(places[name] for name in ("dec.tok", "dec-self-0.0", "dec-self-0.2"))


def test_without_its_heads_the_command_is_lost():
    right = values(steer.run(RECIPES / "swapping" / "needed.yaml"))
    assert right["clean"] == right["encoder head 0"] == 1
    assert max(right[f"encoder head {head}"] for head in (1, 2, 3)) < 0.8
    assert right["all encoder heads"] < 0.2
    assert right["all cross-attention heads"] < 0.05


def test_into_cross_attention_values_by_the_models_own_forward(tmp_path: Path):
    """The recipe's numbers for BART, by plain hooks on the model itself."""
    path, words = RECIPES / "swapping" / "swapping.jsonl", tokenizer_of("swapping").names
    some = [json.loads(line) for line in path.read_text().splitlines()[:8]]
    (tmp_path / "some.jsonl").write_text("\n".join(map(json.dumps, some)))
    found = values(steer.run(RECIPES / "swapping" / "values.yaml", changes={"task": str(tmp_path / "some.jsonl")}))
    own, ids = Own(load_subject("swapping").model.module.model), {word: number for number, word in enumerate(words)}
    answers = [[ids[word] for word in line["answer"].split()] for line in some]
    trials = [
        Trial(own, [*(ids[word] for word in line["prompt"].split()), ids["</s>"]], [ids["</s>"], *answer])
        for line, answer in zip(some, answers, strict=True)
    ]
    by_hand.give_means(trials)
    for trial in trials:
        trial.means = {node: ([], pooled) for node, (_, pooled) in trial.means.items()}
    for source in (None, "enc.tok", "enc-self-0.1"):
        condition, hits = by_hand.kept([f"dec-cross-0.{head}.v" for head in range(4)], source), []
        for answer, trial in zip(answers, trials, strict=True):
            said = trial.run(condition(trial))["logits"].argmax(-1).tolist()
            hits += [one == two for one, two in zip(said, [*answer, ids["</s>"]], strict=True)]
        assert found[source or "everything ablated"] == pytest.approx(sum(hits) / len(hits), abs=1e-6)
