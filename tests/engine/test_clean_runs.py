"""Clean runs: what is kept of them, their means, and values that are taken from other examples."""

from __future__ import annotations

import pytest
import torch
from oracle import position_means
from plans import forced, plan_of
from rig import COMMON, EPISODES, MORE, session

from steer.anatomy.nodes import Node, Site
from steer.engine.backends.local import Local
from steer.engine.engine import Engine
from steer.engine.session import RunOnBatch
from steer.plan.plan import Resampled

Z = "enc.0.self_attn.z"


def same_values(one: list[RunOnBatch], two: list[RunOnBatch]) -> bool:
    return all(torch.equal(a.values[site], b.values[site]) for a, b in zip(one, two, strict=True) for site in a.values)


@torch.no_grad()
def test_kept_and_recomputed_clean_runs_agree(engine: Engine):
    plan = plan_of(MORE[0] | COMMON)
    kept = forced(session(engine, plan))
    again = forced(session(Engine(engine.model, budget=0), plan))
    assert len(kept) > 2
    assert same_values(kept, again)


@torch.no_grad()
@pytest.mark.parametrize("over", ["position", "token"])
def test_means_count_real_tokens_only(engine: Engine, over: str):
    batches = engine.batches(EPISODES, 24)
    values = engine.hooks(batches[0], [Z, "dec.1.mlp.out"])
    means = engine.means(values, batches)
    for hook, value in values.items():
        real = batches[0].real["prompt" if hook == Z else "answer"]
        table = means.table(hook, over, value.shape[1])
        if over == "position":
            torch.testing.assert_close(table, position_means(value, real), rtol=0, atol=1e-12)
        else:
            torch.testing.assert_close(table[0, 0], value[real].mean(0), rtol=0, atol=1e-12)


@torch.no_grad()
def test_means_are_of_the_batches_that_are_asked_for(engine: Engine):
    """Whatever list they come in, and whatever was asked before."""
    for batch in engine.batches(EPISODES, 2):
        wanted = engine.hooks(batch, [Z])[Z][batch.real["prompt"]].mean(0)
        found = engine.means([Z], [batch]).table(Z, "token", 1)[0, 0]
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)


@torch.no_grad()
def test_resampling_gives_every_episode_anothers_value(engine: Engine):
    asked = {"kind": "ablate-set", "nodes": ["enc-self-0.0"], "ablation": {"value": "resample"}, "seed": 3, **COMMON}
    mine = session(engine, plan_of(asked))
    batch = mine.batches[0]
    clean = engine.hooks(batch, [Z])[Z]
    new = mine.worlds(batch).whole(Resampled(3), Site(Node("enc-self", 0, 0), "z"))
    lengths, donors = batch.real["prompt"].sum(1).tolist(), []
    for row, length in enumerate(lengths):
        same = [donor for donor in range(len(lengths)) if torch.equal(new[row, 0], clean[donor, 0])]
        assert len(same) == 1
        assert same[0] != row
        donors += same
        for place in range(length):
            assert torch.equal(new[row, place], clean[same[0], place % lengths[same[0]]])
    assert sorted(donors) == list(range(len(lengths)))


@torch.no_grad()
def test_plans_over_the_same_episodes_share_the_clean_run(engine: Engine, monkeypatch: pytest.MonkeyPatch):
    plans = [plan_of(recipe | COMMON) for recipe in (MORE[0], MORE[3], MORE[0])]
    alone = [forced(session(Engine(engine.model), plan)) for plan in plans]
    passes, real = [], Local.run

    def counted(self, state, start, stop, changes, reads, order):
        passes.append(bool(changes))
        return real(self, state, start, stop, changes, reads, order)

    monkeypatch.setattr(Local, "run", counted)
    counts = []
    for plan, wanted in zip(plans, alone, strict=True):
        passes.clear()
        assert same_values(forced(session(engine, plan)), wanted)
        counts.append(passes.count(False))
    assert counts == [1, 1, 0]  # the second needs hooks that the first left out; the third finds all


@torch.no_grad()
def test_other_episodes_make_room(engine: Engine):
    one, two = (engine.batches(EPISODES[start : start + 6])[0] for start in (0, 6))
    size = sum(engine.hooks(batch, ["logits"])["logits"].nbytes for batch in (one, two))
    engine.hooks(one, ["logits"], keep=True)
    assert engine.store.kept(one)
    engine.store.budget = size - 1
    engine.hooks(two, ["logits"], keep=True)
    assert not engine.store.kept(one)
    assert list(engine.store.kept(two)) == ["logits"]
    assert engine.store.bytes == engine.hooks(two, ["logits"])["logits"].nbytes
    engine.hooks(two, ["enc.0.self_attn.scores"], keep=True)  # too much beside what is kept of the same episodes
    assert list(engine.store.kept(two)) == ["logits"]
