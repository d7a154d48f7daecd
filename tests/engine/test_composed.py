"""Values made of other values, and edits that hold together: against plain hooks written from the words."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from oracle import hooked_forward, written
from rig import LOGITS, TWO_ARGUMENTS
from tokens import counterparts
from torch import Tensor

from steer.anatomy.nodes import BETWEEN_TOKENS, Node, Site, parse_site
from steer.engine.engine import Engine
from steer.engine.session import Inputs, Session
from steer.plan.plan import (
    CLEAN,
    COUNTERPART,
    Current,
    Edit,
    Of,
    Rebuilt,
    Run,
    Scaled,
    Stored,
    Sum,
    Within,
    Zero,
    make_plan,
)  # fmt: skip

Z, BLOCK = "enc-self-0.5.z", "enc.0.self_attn.z"
GIVEN = Stored("given", "")
OTHERS = counterparts(TWO_ARGUMENTS, "index-in-question")


def logits(engine: Engine, *edits: Edit, rows=None) -> Tensor:
    """The logits of one run with these edits."""
    plan = make_plan(Run(CLEAN), [Run("edited", edits, (LOGITS,), "edited")])
    stored = {} if rows is None else {GIVEN: np.asarray(rows)}
    (found,) = Session(engine, plan, Inputs(TWO_ARGUMENTS, OTHERS, size=24, stored=stored))
    return found.values[LOGITS]


def forward(engine: Engine, changes: dict) -> dict[str, Tensor]:
    (batch,) = engine.batches(TWO_ARGUMENTS, 24)
    return hooked_forward(engine.model.module, batch.tokens["prompt"], batch.tokens["answer"], changes)


def at_head(head: int, change):
    def whole(value: Tensor) -> Tensor:
        new = value.clone()
        new[:, :, head] = change(value[:, :, head])
        return new

    return whole


@pytest.fixture
def row() -> np.ndarray:
    return np.random.default_rng(3).standard_normal(16)


def test_a_direction_is_added_to_one_head(engine: Engine, row: np.ndarray):
    edit = Edit(parse_site(Z), Sum((Current(), Scaled(GIVEN, 2.5))))
    expected = forward(engine, {BLOCK: [at_head(5, lambda z: z + 2.5 * torch.from_numpy(row))]})["logits"]
    torch.testing.assert_close(logits(engine, edit, rows=row), expected, rtol=0, atol=1e-10)
    assert (expected - forward(engine, {})["logits"]).abs().max() > 1e-3


def test_nothing_added_and_no_dimension_taken_change_nothing_bitwise(engine: Engine, row: np.ndarray):
    clean = forward(engine, {})["logits"]
    added = Edit(parse_site(Z), Sum((Current(), Scaled(GIVEN, 0.0))))
    within = Edit(parse_site(Z), Within(GIVEN, Of(COUNTERPART), Current()))
    assert torch.equal(logits(engine, added, rows=row), clean)
    assert torch.equal(logits(engine, within, rows=np.zeros((0, 16))), clean)


def test_all_dimensions_of_a_subspace_are_the_whole_site(engine: Engine):
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((16, 16)))[0]
    within = Edit(parse_site(Z), Within(GIVEN, Of(COUNTERPART), Current()))
    whole = logits(engine, Edit(parse_site(Z), Of(COUNTERPART)))
    torch.testing.assert_close(logits(engine, within, rows=turn), whole, rtol=0, atol=1e-10)


def test_a_subspace_is_taken_from_the_counterpart_and_the_rest_is_left(engine: Engine):
    rows = np.linalg.qr(np.random.default_rng(0).standard_normal((16, 3)))[0].T
    (batch,) = engine.batches(TWO_ARGUMENTS, 24)
    twin = engine.model.encode(OTHERS, batch.rows)
    other = hooked_forward(engine.model.module, twin.tokens["prompt"], batch.tokens["answer"], {})[BLOCK][:, :, 5]

    def mixed(z: Tensor) -> Tensor:
        result = z.clone()
        for one in torch.from_numpy(rows):  # coordinate by coordinate
            result += ((other - z) @ one)[..., None] * one
        return result

    within = Edit(parse_site(Z), Within(GIVEN, Of(COUNTERPART), Current()))
    expected = forward(engine, {BLOCK: [at_head(5, mixed)]})["logits"]
    torch.testing.assert_close(logits(engine, within, rows=rows), expected, rtol=0, atol=1e-10)


def test_edits_hold_together_and_at_one_site_in_order(engine: Engine, row: np.ndarray):
    """An MLP zeroed, a head scaled; then a direction added to what is already zero."""
    edits = (
        Edit(parse_site("dec-mlp-0"), Zero()),
        Edit(parse_site("enc-self-1.2.z"), Scaled(Current(), -0.5)),
        Edit(parse_site(Z), Zero()),
        Edit(parse_site(Z), Sum((Current(), GIVEN))),
    )
    changes = {
        "dec.0.mlp.out": [torch.zeros_like],
        "enc.1.self_attn.z": [at_head(2, lambda z: -0.5 * z)],
        BLOCK: [at_head(5, lambda z: torch.from_numpy(row).expand_as(z))],
    }
    torch.testing.assert_close(logits(engine, *edits, rows=row), forward(engine, changes)["logits"], rtol=0, atol=1e-10)


def test_a_path_is_changed_from_what_its_source_is_in_this_pass(engine: Engine):
    """A head is tripled everywhere, and taken out of one port's stream: out of the stream goes the tripled write."""
    model, source = engine.model.module, Node("enc-self", 0, 2)
    port = parse_site("dec-cross-1.5.k")
    edits = (
        Edit(Site(source, "z"), Scaled(Current(), 3.0)),
        Edit(port, Rebuilt(Current(), ((source, Zero()),))),
    )
    tripled = {BLOCK: [at_head(2, lambda z: 3.0 * z)]}
    seen = forward(engine, tripled)
    stream = seen["enc.1.mlp.post"] - written(model, source, seen[BLOCK])
    block = model.dec[1]["cross_attn"]
    keys = block.W_K(model.ln_enc(stream)).unflatten(-1, (block.heads, -1))[:, :, 5]
    expected = forward(engine, tripled | {"dec.1.cross_attn.k": [at_head(5, lambda k: keys)]})["logits"]
    torch.testing.assert_close(logits(engine, *edits), expected, rtol=0, atol=1e-10)
    assert (expected - seen["logits"]).abs().max() > 1e-4


def test_a_value_of_values_says_what_it_is():
    value = Sum((Current(), Scaled(Stored("truth.safetensors", "abc"), 4.0)))
    assert str(value) == "as it is here + 4 x truth.safetensors"
    assert str(Within(GIVEN, Of(COUNTERPART), Current())) == "of the counterpart within given, as it is here outside it"


def test_every_site_has_the_size_that_the_model_says(engine: Engine):
    (batch,) = engine.batches(TWO_ARGUMENTS, 24)
    sites = [site for site in engine.layout.sites if site.port not in BETWEEN_TOKENS]
    found = engine.hooks(batch, {engine.steps.hook(site) for site in sites})
    assert len(found) > 20
    for hook, value in found.items():
        assert tuple(value.shape[2:]) == engine.model.size(hook), hook
