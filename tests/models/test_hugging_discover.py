"""What a search measures on Hugging Face models, against the model's own forward pass: T5, and one that rotates.

Scores of paths, shares of the choice, losses of likelihood and their gradients; by hand each example runs alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hugging_by_hand as by_hand
import pytest
import torch
from hugging import softmax_in_float64  # noqa: F401 - a fixture
from hugging_by_hand import Condition, Trial, put
from hugging_files import save_bare
from test_hugging_kinds import LINES, TWO, bare, in_twos, model, numbers, subject, trials  # noqa: F401
from torch import Tensor

from steer.anatomy.nodes import Node
from steer.discover.attribution_patching import exact_effects, gradient_scores
from steer.discover.lab import Lab
from steer.discover.trace import Question
from steer.experiments.given import prompts_of

pytestmark = [pytest.mark.usefixtures("softmax_in_float64"), pytest.mark.parametrize("family", ["t5", "llama"])]
WRONG = ("w10 w21", "w16", "w12 w6 w9")  # where they say another word, the model chooses
EVERYTHING = -1e9  # a threshold that every path passes
NUDGE = 1e-5
PORTS = {"t5": ("dec-cross-1.1.k", "enc-self-1.2.v"), "llama": ("dec-self-2.1.k", "dec-self-1.2.v")}
FINAL = {"t5": "decoder.final_layer_norm", "llama": "model.norm"}


def lab_of(family: str, folder: Path) -> Lab:
    save_bare(folder / "model", family, model(family).module.model)
    lines = [line | {"wrong": [wrong]} for line, wrong in zip(LINES, WRONG, strict=True)]
    (folder / "lines.jsonl").write_text("\n".join(map(json.dumps, lines)))
    task = prompts_of(f"hf:{folder / 'model'}", folder / "lines.jsonl")
    return Lab(subject(family, folder / "model").about(task), task.split("all", 0))


def scale_of(norm: Any, trial: Trial) -> Tensor:
    """What the last norm multiplies each token's stream with in the clean run."""
    met: list[Tensor] = []
    handle = norm.register_forward_pre_hook(lambda module, args: met.append(args[0][0]))
    trial.run({})
    handle.remove()
    return (met[0].pow(2).mean(-1, keepdim=True) + norm.variance_epsilon).rsqrt()


def choices(family: str, head: str, condition: Condition) -> list[float]:
    """What a head writes for each right word and not for the wrong one; the last norm divides as in the clean run."""
    network, (block, _, number) = model(family).module.model, head.rpartition(".")
    found = []
    for line, wrong, trial in zip(LINES, WRONG, trials(family), strict=True):
        norm = network.get_submodule(FINAL[family])
        z = trial.run(condition(trial))[head]
        columns = trial.own.output[block].weight[:, int(number) * z.shape[-1] : (int(number) + 1) * z.shape[-1]]
        write = z @ columns.T * scale_of(norm, trial) * norm.weight
        if family == "t5" and network.config.tie_word_embeddings:
            write = write * network.config.d_model**-0.5
        right, other = numbers(line["answer"]), numbers(wrong)
        for step, (one, two) in enumerate(zip(right, other, strict=True)):
            at = len(write) - len(right) - (family in TWO) + step
            rows = network.get_output_embeddings().weight
            found += [float(write[at] @ (rows[one] - rows[two]))] if one != two else []
    return found


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def scores(family: str, head: str, kept: Callable[[str | None], Condition], ablated: Callable[[str], Condition]):
    """Of each source how much of the way from nothing to everything it brings alone, and how much goes without it."""
    clean, nothing = (mean(choices(family, head, one)) for one in (bare, kept(None)))

    def of(source: str) -> tuple[float, float]:
        alone, without = (mean(choices(family, head, one)) for one in (kept(source), ablated(source)))
        return (alone - nothing) / (clean - nothing), (clean - without) / (clean - nothing)

    return of


def test_what_a_head_writes_for_the_choice(family: str, tmp_path: Path):
    lab, head = lab_of(family, tmp_path), by_hand.node_of(PORTS[family][0])
    tally = lab.clean(lab.choice(lab.names.head(head)))
    assert lab.mean(tally) == pytest.approx(mean(choices(family, head, bare)), abs=1e-9)


def test_paths_have_the_scores_of_the_models_own_forward(family: str, tmp_path: Path):
    lab, (port, earlier) = lab_of(family, tmp_path), PORTS[family]
    head = by_hand.node_of(port)
    site = lab.names.sites(port)[0]
    question = Question(lab, (site,), *lab.choice(lab.names.head(head)), EVERYTHING)
    direct = scores(family, head, lambda s: by_hand.kept([port], s), lambda s: by_hand.ablated([port], s))
    edges, _ = question.answer()
    assert set(edges) == set(lab.layout.sources(site))
    for node in list(edges)[:: len(edges) // 4]:
        found = edges[node].sufficiency.value, edges[node].necessity.value
        assert found == pytest.approx(direct(str(node)), abs=6e-5), node
    chain = (lab.names.sites(earlier)[0], site)
    source = lab.layout.sources(chain[0])[0]
    (kept,) = question.about(chain).take("kept", {"": [source]}).values()
    by_chain = by_hand.chained(by_hand.kept([earlier], str(source)), earlier, port)
    assert lab.mean(kept) == pytest.approx(mean(choices(family, head, by_chain)), abs=1e-9)


def likelihood(family: str, seen: by_hand.Seen, answer: list[int]) -> Tensor:
    said = [*answer, 2] if family in TWO else answer
    steps = seen["logits"].log_softmax(-1)[-len(said) :]
    return steps[torch.arange(len(said)), said].sum()


def losses(family: str, condition: Condition) -> list[float]:
    return [
        float(likelihood(family, trial.clean, numbers(line["answer"])))
        - float(likelihood(family, trial.run(condition(trial)), numbers(line["answer"])))
        for line, trial in zip(LINES, trials(family), strict=True)
    ]


def nudged(port: str, without: str, share: float) -> Condition:
    """A port moved by a small share of the way to where a source is ablated."""

    def edits(trial: Trial) -> by_hand.Edits:
        changed = by_hand.ablated([port], without)(trial)[port](trial.clean[port])
        return {port: put(trial.clean[port] + share * (changed - trial.clean[port]))}

    return edits


def test_likelihoods_lost_and_their_gradients(family: str, tmp_path: Path):
    lab, port = lab_of(family, tmp_path), PORTS[family][0]
    site = lab.names.sites(port)[0]
    nodes: list[Node] = list(lab.layout.sources(site))[::5]
    paths = [(node, site) for node in nodes]
    slopes = gradient_scores(lab, paths, 1)
    for node, exact, slope in zip(nodes, exact_effects(lab, paths), slopes, strict=True):
        assert exact == pytest.approx(mean(losses(family, by_hand.ablated([port], str(node)))), abs=1e-9), node
        up, down = (mean(losses(family, nudged(port, str(node), share))) for share in (NUDGE, -NUDGE))
        assert slope == pytest.approx((up - down) / (2 * NUDGE), rel=1e-4, abs=1e-7), node
