"""The logit lens: every point of the stream through the last norm and the unembedding, by hand."""

from __future__ import annotations

from itertools import accumulate

import pytest
import torch
from small import TWO, ask, net_of, talker, trials
from tokens import ID

from steer.base.errors import SteerError
from steer.results.intervals import wilson
from steer.tasks.compositional.counterparts import counterpart

MODEL = talker()
COMMON = {"kind": "compare", "conditions": [{"name": "without", "ablate": "dec-mlp-0"}], "figure": "heatmap"}
LAST, FIRST = "dec-resid-1.post", "dec-resid-0.pre"


def read_off(stream: torch.Tensor) -> torch.Tensor:
    """LayerNorm and unembedding, written out."""
    weights = net_of(MODEL).weights
    centred = stream - stream.mean(-1, keepdim=True)
    normed = centred / torch.sqrt((centred**2).mean(-1, keepdim=True) + 1e-5)
    normed = normed * weights["ln_dec.weight"] + weights["ln_dec.bias"]
    return normed @ weights["unembed.weight"].T + weights["unembed.bias"]


@pytest.mark.parametrize("value", ["probability", "accuracy"])
def test_every_point_is_read_off(value: str):
    result = ask(MODEL, TWO, **COMMON, measures=[{"name": "logit-lens", "value": value}])
    made = trials(net_of(MODEL), TWO)
    clean = [row for row in result.rows if row.condition == "clean"]
    assert {row.site for row in clean} >= {FIRST, LAST}
    for site in (FIRST, "dec-resid-0.mid", LAST):
        numbers = []
        for trial, episode in zip(made, TWO, strict=True):
            logits = read_off(trial.clean[site])
            for step, token in enumerate(episode.answer):
                chance = float(logits[step].softmax(-1)[ID[token]])
                numbers.append(chance if value == "probability" else float(int(logits[step].argmax()) == ID[token]))
        (row,) = (row for row in clean if row.site == site and row.place == "all")
        assert row.of == site
        assert row.value == pytest.approx(sum(numbers) / len(numbers), abs=1e-9)
        (first,) = (row for row in clean if row.site == site and row.place == "1")
        assert first.position == 1
        firsts = [numbers[at] for at in accumulate([0, *(len(episode.answer) for episode in TWO[:-1])])]
        if value == "probability":  # resampled means of numbers lie between the least and the most of them
            assert min(firsts) - 1e-12 <= first.low <= first.value <= first.high <= max(firsts) + 1e-12
        else:
            assert (first.low, first.high) == wilson(int(sum(firsts)), len(firsts))
    last = made[0].clean[LAST]
    torch.testing.assert_close(read_off(last), made[0].clean["logits"], rtol=0, atol=1e-9)


def test_the_counterparts_tokens_are_read_off():
    """How likely a point makes what the counterpart says, with the prompt's own answer fed in."""
    pairs = [(one, other) for one in TWO if (other := counterpart(one, "index-in-question"))]
    keys = {
        "kind": "intervene", "variable": "index-in-question", "episodes": {"arity": 2}, "controls": 0,
        "no_controls": "nothing is added",
        "conditions": [{"name": "none", "edits": [{"sites": "dec-mlp-0", "scale": 0}]}],
    }  # fmt: skip
    measure = {"name": "logit-lens", "against": "counterfactual", "sites": LAST}
    result = ask(MODEL, [one for one, _ in pairs], **keys, measures=[measure])
    numbers = []
    for trial, (one, other) in zip(trials(net_of(MODEL), [one for one, _ in pairs]), pairs, strict=True):
        logits = read_off(trial.clean[LAST])
        numbers += [float(logits[step].softmax(-1)[ID[token]]) for step, token in enumerate(other.answer)]
        assert one.answer != other.answer
    (row,) = (row for row in result.rows if row.condition == "before" and row.place == "all")
    assert row.against == "counterfactual"
    assert row.value == pytest.approx(sum(numbers) / len(numbers), abs=1e-9)


def test_only_points_of_the_last_stream():
    with pytest.raises(SteerError, match="no point of the stream that the logits read"):
        ask(MODEL, TWO, **COMMON, measures=[{"name": "logit-lens", "sites": "enc-resid-0.mid"}])
