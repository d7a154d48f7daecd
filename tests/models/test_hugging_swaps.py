"""Exchanged positions on every Hugging Face family, against replay through the model's own forward pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import hugging_by_hand as by_hand
import pytest
import torch
from hugging import FAMILIES, softmax_in_float64  # noqa: F401 - a fixture
from hugging_by_hand import Condition, Own, Trial, put
from hugging_files import frame_of
from test_hugging_kinds import LINES, ask, bare, in_twos, model, parts_of, same, trials  # noqa: F401
from torch import Tensor

pytestmark = [pytest.mark.usefixtures("softmax_in_float64"), pytest.mark.parametrize("family", FAMILIES)]
# The words of two spans in each line: of one word and of two, in either order, the last word among them.
SPANS = (((1, 2), (4, 5)), ((2, 3), (0, 1)), ((0, 2), (3, 5)))


def exchanged(length: int, pairs: Sequence[tuple[int, int]]) -> list[int]:
    order = list(range(length))
    for first, second in pairs:
        order[first], order[second] = second, first
    return order


def swapped(family: str, port: str, pairs: Callable[[Trial], Sequence[tuple[int, int]]]) -> Condition:
    """Pairs of columns have each other's position on the direct path to one port, everything else clean."""
    own = Own(model(family).module.model)

    def edits(trial: Trial) -> by_hand.Edits:
        order = exchanged(len(trial.clean[by_hand.node_of(port)]), pairs(trial))
        frozen = {node: put(trial.clean[node]) for node in own.nodes}
        table = f"{port[:3]}.pos"
        if table in own.whole:
            return {port: put(trial.run(frozen | {table: put(trial.clean[table][order])})[port])}
        if family.startswith("t5"):
            site = f"{by_hand.node_of(port)}.bias"
            return {site: put(bucketed(own, port, order))}
        return {port: put(trial.run(frozen, positions=order)[port])}

    return edits


def bucketed(own: Own, port: str, order: list[int]) -> Tensor:
    """T5's bias of one head, its buckets computed from exchanged positions."""
    maker = own.attention["enc-self-0"]
    plain, turned = torch.arange(len(order)), torch.tensor(order)
    queries, keys = (turned, plain) if port.endswith("q") else (plain, turned)
    far = keys[None, :] - queries[:, None]
    buckets = maker._relative_position_bucket(
        far, bidirectional=True, num_buckets=maker.relative_attention_num_buckets,
        max_distance=maker.relative_attention_max_distance,
    )  # fmt: skip
    head = int(port.rpartition(".")[0].rpartition(".")[2])
    return maker.relative_attention_bias(buckets)[..., head]


@pytest.mark.parametrize("side", ["q", "k"])
def test_positions_are_exchanged_as_one_port_sees_them(family: str, side: str, tmp_path: Path):
    p, before = parts_of(family), len(frame_of(family)[0])
    port = f"{p.swapped}.{side}"
    result = ask(
        tmp_path, family, kind="position-swap", ports=port, tokens=[1, 3], measures=[{"name": "token-accuracy"}],
        tensors=["logits", p.pattern],
    )  # fmt: skip
    same(result, "before", bare, family)
    same(result, "after", swapped(family, port, lambda trial: [(before, before + 2)]), family)
    assert float((result.tensors["after/logits"] - result.tensors["before/logits"]).abs().max()) > 1e-6


def spanned(line: dict, words: tuple[tuple[int, int], tuple[int, int]]) -> dict:
    """A line with two named spans of whole words."""
    split = line["prompt"].split()
    ends = [[len(" ".join([*split[:a], ""])), len(" ".join(split[:b]))] for a, b in words]
    return line | {"spans": dict(zip("ab", ends, strict=True))}


@pytest.mark.parametrize("kind", ["position-swap", "intervene"])
def test_positions_of_named_spans_are_exchanged_one_by_one(family: str, kind: str, tmp_path: Path):
    p, before = parts_of(family), len(frame_of(family)[0])
    port, two = f"{p.swapped}.q", ["a", "b"]
    edit = {"sites": port, "from": {"positions": two}}
    keys = {
        "position-swap": {"ports": port, "tokens": two},
        "intervene": {"conditions": [{"name": "after", "edits": [edit]}]},
    }
    lines = [spanned(line, words) for line, words in zip(LINES, SPANS, strict=True)]
    sites = ["logits", p.pattern]
    result = ask(tmp_path, family, lines, kind=kind, **keys[kind], measures=[{"name": "token-accuracy"}], tensors=sites)

    def pairs(trial: Trial) -> list[tuple[int, int]]:
        one, other = SPANS[next(n for n, one in enumerate(trials(family)) if one is trial)]
        return [(before + i, before + j) for i, j in zip(range(*one), range(*other), strict=True)]

    same(result, "before", bare, family)
    same(result, "after", swapped(family, port, pairs), family)
    moved = (result.tensors["after/logits"] - result.tensors["before/logits"]).abs().flatten(1).amax(1)
    assert float(moved.min()) > 1e-6
