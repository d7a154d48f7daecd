"""What else a model of one sequence must get right: shares of a logit, labels, patterns, counterparts, limits."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import toy_by_hand as by_hand
from test_toy import LINES, NOTHING, SITES, ask, bare, installed, lines_of, numbers, right, steps, trials_of, value
from test_toy import written_down as write_down
from toy_net import END, WORDS

from steer.base.errors import SteerError
from steer.measures import representation
from steer.recipe.load import load_recipe

__all__ = ["installed"]  # a fixture
ATTRIBUTION = {"name": "logit-attribution", "components": ["dec*"]}


@pytest.mark.parametrize("variant", ["one", "beside"])
def test_shares_of_a_logit_sum_to_it(installed, tmp_path: Path, variant: str):
    """Each component by hand, against the wrong answers' first tokens; together the logit itself."""
    lines = lines_of(variant)
    result = ask(tmp_path, variant, lines, kind="clean", measures=[ATTRIBUTION])
    trials, targets = trials_of(variant, lines), right(variant, lines)
    shares: dict[str, list[float]] = {}
    whole: list[float] = []
    for trial, target, line in zip(trials, targets, lines, strict=True):
        others = [numbers(wrong)[0] for wrong in line["wrong"]]
        module, seen = trial.module, trial.clean
        for column, token in zip(steps(trial), target, strict=True):
            if token == END:
                continue
            logits = seen["logits"][column]
            whole.append(float(logits[token] - logits[others].mean()))
            stream = seen["layers.1.post"][column]
            scale = ((stream - stream.mean()) ** 2).mean().add(module.norm.eps).sqrt()
            row = module.unembed.weight[token] - module.unembed.weight[others].mean(0)
            for node in by_hand.ALL_NODES:
                write = by_hand.written(module, node, seen[by_hand.hook_of(node)])[column]
                share = ((write - write.mean()) / scale * module.norm.weight) @ row
                shares.setdefault(node, []).append(float(share))
    for node, each in shares.items():
        assert value(result, "clean", "logit-attribution", node) == pytest.approx(np.mean(each), abs=1e-10)
    total = sum(value(result, "clean", "logit-attribution", name) for name in (*by_hand.ALL_NODES, "constant"))
    assert total == pytest.approx(np.mean(whole), abs=1e-10)


def test_a_pattern_has_the_tokens_of_the_one_sequence(installed, tmp_path: Path):
    measures = [{"name": "attention-pattern", "heads": "dec-self-1.1", "episode": 1}]
    (pattern,) = ask(tmp_path, "one", LINES, kind="clean", measures=measures).details
    assert pattern.queries == pattern.keys == ("GO", *["d", "from", "e", "to", "f", "g", "h", "f", "g"])
    trial = trials_of("one", LINES)[1]
    np.testing.assert_allclose(pattern.weights, trial.clean["layers.1.pattern"][1], atol=1e-4)


def test_labels_are_found_behind_the_start_token(installed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The activations whose R² is taken are those of the span's own tokens."""
    taken = []
    real = representation.explained

    def explained(values, *others, **settings):
        taken.append(values)
        return real(values, *others, **settings)

    monkeypatch.setattr(representation, "explained", explained)
    measures = [{"name": "r-squared", "site": "dec-resid-0.post", "label": "goal", "tokens": "goal"}]
    ask(tmp_path, "one", LINES, kind="clean", measures=measures)
    trials = trials_of("one", LINES)
    wanted = [trials[0].clean["layers.0.post"][1 + 2], trials[3].clean["layers.0.post"][1 + 3]]
    np.testing.assert_allclose(taken[0], np.stack(wanted), atol=1e-12)


COUNTERPARTS = [
    line | {"counterparts": {"swap": {"prompt": other, "answer": "a b"}}}
    for line, other in zip(LINES, ["c to a a", "a b c d e f g", "a h", "h g to a", "to a from b to h"], strict=True)
]


@pytest.mark.parametrize("variant", ["one", "beside"])
def test_values_of_a_counterpart(installed, tmp_path: Path, variant: str):
    """Some sites take what they have in the counterpart's run, in which the same tokens have been said."""
    sets = [{"name": "keys", "sites": ["dec-self-1.0.k", "dec-mlp-0"]}]
    measures = [{"name": "exact-match", "decoding": "greedy", "against": "counterfactual"}]
    result = ask(
        tmp_path, variant, COUNTERPARTS, kind="steer", variable="swap", sets=sets, measures=measures, tensors=SITES
    )
    prompts = [line["counterparts"]["swap"]["prompt"] for line in COUNTERPARTS]

    def borrowed(trial: by_hand.Trial, prompt: str) -> by_hand.Edits:
        theirs = by_hand.forward(trial.module, [1, *numbers(prompt), *trial.said])

        def keys(old):
            new = old.clone()
            new[:, 0] = theirs["layers.1.k"][:, 0]
            return new

        return {"layers.1.k": keys, "layers.0.mlp": lambda old: theirs["layers.0.mlp"]}

    for row, (trial, prompt) in enumerate(zip(trials_of(variant, COUNTERPARTS), prompts, strict=True)):
        seen = by_hand.forward(trial.module, trial.ids, borrowed(trial, prompt))["logits"]
        found = result.tensors["keys/logits"][row][: len(seen)]
        np.testing.assert_allclose(found, seen, atol=1e-10)
        told = by_hand.say(trial, lambda now, prompt=prompt: borrowed(now, prompt), 4, variant == "one")
        assert installed["keys", row] == told
        itself = by_hand.Trial(trial.module, numbers(prompt), [])
        assert installed["ceiling", row] == by_hand.say(itself, bare, 4, variant == "one")


def test_a_counterpart_of_another_length_is_left_out(installed, tmp_path: Path):
    lines = [*COUNTERPARTS[:-1], COUNTERPARTS[-1] | {"counterparts": {"swap": {"prompt": "a b c", "answer": "a"}}}]
    sets = [{"name": "keys", "sites": "dec-self-1.0.k"}]
    asked = {"kind": "steer", "variable": "swap", "sets": sets, "measures": [{"name": "exact-match"}]}
    asked["no_control"] = "what is left out is counted, not steered"
    rows = ask(tmp_path, "one", lines, **asked).rows
    text = "1 of 5 examples left out: 1 with a counterpart 'swap' of another length"
    assert {(row.examples, row.warning) for row in rows} == {(4, text)}
    with pytest.raises(SteerError, match=r"asked.yaml: variable: none of 1 examples|asked.yaml:\d+:\d+: none of 1"):
        ask(tmp_path, "one", lines[-1:], **asked)


def test_prompt_and_answer_together_must_fit(installed, tmp_path: Path):
    lines = [*LINES, {"prompt": " ".join("abcd" * 6), "answer": "a"}]
    with pytest.raises(
        SteerError, match=r"jsonl:6: a prompt of 24 tokens, and answers of up to 3; toy:one takes 24 in"
    ):
        ask(tmp_path, "one", lines, kind="clean", measures=[{"name": "exact-match"}])


def test_what_is_measured_of_another_stream_only_is_refused(installed, tmp_path: Path):
    with pytest.raises(SteerError, match=r"dec-self-0.0: ov-alignment is of heads that read another stream"):
        ask(tmp_path, "one", LINES, kind="clean", measures=[{"name": "ov-alignment", "heads": "dec-self-0.0"}])


def test_the_plan_and_the_run_by_the_command_line(installed, tmp_path: Path, steer):
    path = write_down(
        tmp_path, "beside", lines_of("beside"), kind="ablate-set", nodes="dec-self-0.*",
        measures=[{"name": "exact-match"}], episodes={"split": "short"},
    )  # fmt: skip
    assert "dec-self-0.1.z := mean by position" in steer("plan", str(path)).stdout
    done = json.loads(steer("run", str(path), "-o", str(tmp_path / "out"), "--json").stdout)
    assert done["checkpoint"]["name"] == "toy:beside"
    assert {row["condition"] for row in done["rows"]} == {NOTHING, "set ablated"}
    assert {row["examples"] for row in done["rows"]} == {2}
    assert done["recipe"]["task"] == "lines.jsonl"
    assert load_recipe(str(path)).recipe.task.splits == ("all", "short")
    assert WORDS  # the toy's own
