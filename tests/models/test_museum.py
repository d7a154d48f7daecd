"""A museum of silent bugs: adapters that were wrong for years, each planted and each caught by the doctor.

What they have in common is that numbers came out.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hugging import FAMILIES, random_model
from museum import PLANTED, ROWS_PLANTED, attentions, left_padding

from steer.base.errors import CheckpointError
from steer.models.huggingface import checks, edits
from steer.models.huggingface.doctor import check_quickly, examine, findings, made_up
from steer.models.huggingface.findings import Finding
from steer.models.huggingface.model import HuggingFaceModel, wire
from steer.models.huggingface.rows import ROWS


def first_failure(model: HuggingFaceModel) -> Finding | None:
    with torch.no_grad():
        return next((finding for finding in findings(model, made_up(model)) if not finding.ok), None)


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_caught(bug: str, monkeypatch: pytest.MonkeyPatch):
    family, plant, checks = PLANTED[bug]
    model = wire(random_model(family))
    plant(model, monkeypatch)
    caught = first_failure(model)
    assert caught is not None
    assert caught.check in checks


@pytest.mark.parametrize("bug", ROWS_PLANTED)
def test_a_wrong_row_is_caught(bug: str, monkeypatch: pytest.MonkeyPatch):
    family, wrong = ROWS_PLANTED[bug]
    kind = family.partition("-")[0]
    monkeypatch.setitem(ROWS, kind, wrong(kind))
    caught = first_failure(wire(random_model(family)))
    assert caught is not None
    assert caught.check == "forward"


@pytest.mark.parametrize("family", FAMILIES)
def test_no_good_model_is_refused(family: str):
    report = examine(wire(random_model(family)))
    assert report.ok, report.failed
    assert len(report.findings) == 16
    check_quickly(wire(random_model(family, dtype=torch.float32)), (), family)


def sharp_t5() -> Any:
    """Of one layer the attention is nearly one and zero: what its queries lose, float32 cannot hold."""
    model = random_model("t5", dtype=torch.float32)
    model.encoder.block[1].layer[0].SelfAttention.q.weight.data.mul_(1000)
    return model


def test_an_effect_that_rounds_away_is_a_note():
    model = sharp_t5()
    own = {name: value.clone() for name, value in model.state_dict().items()}
    wired = wire(model)
    with torch.no_grad():
        plain = edits.other_values(wired, wired.encode(made_up(wired), [0, 1, 2]))
        assert {finding.check for finding in plain if not finding.ok} == {"effect", "arrives"}
    report = examine(wired)
    assert report.ok, report.failed
    assert any("it rounds away at enc-self-1.2" in note for note in report.notes)
    for name, value in model.state_dict().items():
        assert value.dtype == own[name].dtype
        assert torch.equal(value, own[name])


@pytest.mark.parametrize("bug", [bug for bug, (*_, checks) in PLANTED.items() if {*checks} & {"effect", "arrives"}])
def test_a_bug_is_not_taken_for_rounding(bug: str, monkeypatch: pytest.MonkeyPatch):
    family, plant, _ = PLANTED[bug]
    model = wire(random_model(family, dtype=torch.float32))
    plant(model, monkeypatch)
    assert not examine(model).ok


def test_what_a_run_refuses_is_what_the_page_says(monkeypatch: pytest.MonkeyPatch):
    refusing = [finding.check for finding in examine(wire(random_model("gpt2"))).findings if finding.refuses]
    assert refusing == ["forward", "single", "causal", "heard"]
    model = wire(random_model("gpt2"))
    monkeypatch.setattr(checks, "shares", lambda *given: Finding("shares", "shares", 1.0, 0.0))
    report = examine(model)
    assert (report.ok, report.refused) == (False, False)
    check_quickly(model, (), "mine")
    monkeypatch.setattr(checks, "alone", lambda *given: Finding("single", "single", 1.0, 0.0))
    assert examine(model).refused
    with pytest.raises(CheckpointError, match="mine: refused"):
        check_quickly(model, (), "mine")


def test_padding_in_front_is_no_bug_where_positions_count_real_tokens(monkeypatch: pytest.MonkeyPatch):
    model = wire(random_model("gpt2"))
    left_padding(model, monkeypatch)
    assert first_failure(model) is None


def test_a_refusal_names_the_size_and_the_first_step_that_parts(monkeypatch: pytest.MonkeyPatch):
    model = wire(random_model("llama"))
    one = attentions(model)[1]
    object.__setattr__(one.heads, "cap", 1.0)
    with pytest.raises(CheckpointError, match=r"mine: refused.*first at dec\.1\.self_attn\.attend") as refusal:
        check_quickly(model, (), "mine")
    assert "1e-05 is allowed" in str(refusal.value)
