"""Composed edits, the logit lens and learnt subspaces on every Hugging Face family."""

from __future__ import annotations

from pathlib import Path

import hugging_by_hand as by_hand
import numpy as np
import pytest
import torch
from hugging import FAMILIES, softmax_in_float64  # noqa: F401 - a fixture
from hugging_by_hand import Trial, put
from test_hugging_kinds import LINES, ask, bare, in_twos, model, parts_of, same, subject  # noqa: F401

from steer.anatomy.nodes import BETWEEN_TOKENS, parse_site
from steer.engine.engine import Engine
from steer.experiments.subspaces import Fitting, Pairs, fit
from steer.measures.lens import lens_points
from steer.results.directions import About, Direction, write_direction
from steer.tasks.task import PlainExample

pytestmark = [pytest.mark.usefixtures("softmax_in_float64"), pytest.mark.parametrize("family", FAMILIES)]


def test_edits_hold_together_and_points_are_read_off(family: str, tmp_path: Path):
    p, last = parts_of(family), lens_points(model(family).layout)[-1]
    row = np.random.default_rng(0).standard_normal((1, model(family).like.shape[-1]))
    write_direction(Direction(row, About(way="difference", scores={})), tmp_path / "row")
    together = [
        {"sites": p.nodes[1], "add": {"direction": str(tmp_path / "row"), "scale": 2}},
        {"sites": p.both[0], "scale": 0.5},
    ]
    through = [{"sites": f"{p.nodes[0]}.z", "ablate": "zero", "through": p.target}]
    conditions = [{"name": "together", "edits": together}, {"name": "through", "edits": through}]
    result = ask(
        tmp_path, family, kind="intervene", conditions=conditions, controls=0, no_controls="a test",
        measures=[{"name": "logit-lens"}], tensors=["logits", p.pattern, str(last)],
    )  # fmt: skip
    added = 2 * torch.from_numpy(row[0])

    def by_path(trial: Trial) -> by_hand.Edits:
        return {p.target: put(trial.run({p.nodes[0]: torch.zeros_like})[p.target])}

    same(result, "before", bare, family)
    same(
        result,
        "together",
        lambda trial: {p.nodes[1]: lambda old: old + added, p.both[0]: lambda old: 0.5 * old},
        family,
    )
    same(result, "through", by_path, family)
    stream, logits = (result.tensors[f"before/{site}"] for site in (last, "logits"))
    real = logits.abs().sum(-1) > 0  # behind an example's own places tensors hold zeros
    assert 0.4 < float(real.double().mean()) <= 1
    torch.testing.assert_close(model(family).lens(stream)[real], logits[real], rtol=0, atol=1e-9)


def test_a_subspace_is_learnt(family: str, tmp_path: Path):
    p = parts_of(family)
    ask(tmp_path, family, kind="clean", measures=[{"name": "token-accuracy"}])
    one = subject(family, tmp_path / "model").model
    site = parse_site(f"{p.nodes[0]}.z")
    words = [line["prompt"].split() for line in LINES]
    examples = [PlainExample(tuple(prompt), ("w8",)) for prompt in words]
    others = [PlainExample(tuple(reversed(prompt)), ("w8",)) for prompt in words]
    engine, pairs = Engine(one), Pairs(examples, others)
    rows = fit(engine, pairs, {site: 2}, Fitting(epochs=2, batch=2))[site]
    start = fit(engine, pairs, {site: 2}, Fitting(epochs=0, batch=2))[site]
    np.testing.assert_allclose(rows @ rows.T, np.eye(2), atol=1e-9)
    assert np.abs(rows - start).max() > 1e-3


def test_every_site_has_the_size_that_the_model_says(family: str, tmp_path: Path):
    ask(tmp_path, family, kind="clean", measures=[{"name": "token-accuracy"}])
    engine = Engine(subject(family, tmp_path / "model").model)
    words = [line["prompt"].split() for line in LINES]
    batch, *_ = engine.batches([PlainExample(tuple(prompt), ("w8",)) for prompt in words], 24)
    sites = [site for site in engine.layout.sites if site.port not in BETWEEN_TOKENS]
    found = engine.hooks(batch, {engine.steps.hook(site) for site in sites})
    assert len(found) > 10
    for hook, value in found.items():
        assert tuple(value.shape[2:]) == engine.model.size(hook), hook
