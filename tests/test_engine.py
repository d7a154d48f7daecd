"""The invariants of every intervention, whatever the plan."""

from __future__ import annotations

import pytest
import torch
from oracle import direct_sources, hooked_forward, position_means
from rig import COMMON, EPISODES, LOGITS, MORE, SHAPE, make_engine, session
from tokens import PAD_ID, RECIPE

from steer.anatomy.names import INPUT_PORTS, Node, Site
from steer.base.errors import SteerError
from steer.engine.backends.local import Tracer
from steer.engine.engine import Engine, Session
from steer.models.plain.transformer import State, Transformer
from steer.plan.plan import (
    Ablated,
    Clean,
    Put,
    Rebuild,
    Run,
    hook_order,
    make_plan,
    make_run,
    start_paths,
    stream_path,
    writer_path,
)
from steer.recipe.lower import lower
from steer.recipe.schema import Ablation


@torch.no_grad()
def test_a_full_trace_is_bitwise_the_bare_model(paper_model: Transformer):
    engine = make_engine(paper_model)
    part = engine.parts(EPISODES, 24)[0]
    assert torch.equal(engine.clean(part, ["logits"])["logits"], paper_model(part.prompt, part.output))


@torch.no_grad()
@pytest.mark.parametrize("path", hook_order(SHAPE))
def test_patching_clean_values_changes_nothing(paper_model: Transformer, path: str):
    """Bitwise, for every hook, all heads at once and one head alone."""
    engine = make_engine(paper_model)
    part = engine.parts(EPISODES[:6], 24)[0]
    everything = engine.clean(part, engine.order)
    for site in [site for site in engine.shape.sites if site.path == path and site.port != "out"][:2]:
        run = make_run(engine.shape, "same", [Put(site, Clean())], [LOGITS], "same")
        mine = session(engine, make_plan(engine.shape, [LOGITS], [run]), EPISODES[:6])
        (found,) = [values for _, _, values in mine.results()]
        assert torch.equal(found["logits"], everything["logits"])


@torch.no_grad()
@pytest.mark.parametrize("start", SHAPE.steps)
def test_a_pass_may_start_at_any_step(paper_model: Transformer, start: str):
    """From the clean run's values at that step it goes on bit by bit as the whole pass did."""
    engine = make_engine(paper_model)
    part = engine.parts(EPISODES[:6], 24)[0]
    whole = engine.clean(part, engine.order)
    given = start_paths(engine.shape, Run("rest", (), (LOGITS,), start, None))
    state = State(part.prompt, part.output, **{name: whole[path] for name, path in given.items()})
    rest = Tracer(paper_model).run(state, start, None, {}, ["logits"], engine.order)
    assert torch.equal(rest["logits"], whole["logits"])


@torch.no_grad()
def test_sources_sum_to_the_stream_they_feed(engine: Engine):
    part = engine.parts(EPISODES, 24)[0]
    clean = engine.clean(part, engine.order)
    bench = session(engine, make_plan(engine.shape, [LOGITS], [])).bench(part, clean)
    ports = [Site(node, port) for node in engine.shape.all_heads for port in INPUT_PORTS]
    for site in [*ports, *map(Site, engine.shape.mlps)]:
        parts = [bench.write(source, Clean()) for source in engine.shape.sources(site)]
        total = sum(parts, start=bench.constant(site))
        torch.testing.assert_close(total, clean[stream_path(engine.shape, site)], rtol=0, atol=1e-10)
        rebuilt = bench.rebuilt(Rebuild(site, "clean"), clean[site.path], {})
        torch.testing.assert_close(rebuilt, clean[site.path], rtol=0, atol=1e-10)
        assert engine.shape.sources(site) == direct_sources(engine.model, site)


@torch.no_grad()
def test_only_the_named_heads_port_changes(engine: Engine):
    site = Site(Node("enc-self", 1, 3), "v")
    reads = [Site(Node("enc-self", 1, head), "v") for head in range(8)]
    run = make_run(engine.shape, "one", [Rebuild(site, "ablated")], reads, "one")
    mine = session(engine, make_plan(engine.shape, reads, [run], "clean"))
    clean, edited = (values for _, _, values in mine.results())
    before, after = clean["enc.1.self_attn.v"], edited["enc.1.self_attn.v"]
    others = [head for head in range(8) if head != 3]
    assert torch.equal(before[:, :, others], after[:, :, others])
    assert not torch.allclose(before[:, :, 3], after[:, :, 3])


@torch.no_grad()
def test_edits_compose_and_reads_see_them(engine: Engine):
    one, two = Site(Node("enc-self", 0, 1), "z"), Site(Node("enc-self", 0, 2), "z")
    reads = [Site(Node("enc-self", 0, head), "z") for head in (1, 2, 3)]
    run = make_run(engine.shape, "two", [Put(one, Ablated()), Put(two, Ablated())], reads, "two")
    mine = session(engine, make_plan(engine.shape, reads, [run], "clean"), ablation=Ablation(value="zero"))
    clean, edited = (values["enc.0.self_attn.z"] for _, _, values in mine.results())
    assert (edited[:, :, 1:3] == 0).all()
    assert torch.equal(edited[:, :, 3:], clean[:, :, 3:])


@torch.no_grad()
def test_batch_mates_change_nothing(engine: Engine):
    """The same episodes in batches of 5 and of 24: the same rows, but for rounding."""
    asked = {"kind": "ablate-set", "nodes": ["enc-self-0.*"], "measures": [{"name": "exact-match"}]}
    plan = lower(RECIPE.validate_python(asked), engine.shape)
    found = []
    for size in (24, 5):
        rows = {}
        for part, condition, values in Session(engine, plan, engine.parts(EPISODES, size), Ablation()).results():
            for row, logits, output in zip(part.rows, values["logits"], part.output, strict=True):
                rows[row, condition] = logits[: int((output != PAD_ID).sum())]
        found.append(rows)
    assert found[0].keys() == found[1].keys()
    for key in found[0]:
        torch.testing.assert_close(found[0][key], found[1][key], rtol=0, atol=1e-11)


@torch.no_grad()
def test_kept_and_recomputed_clean_runs_agree(engine: Engine, monkeypatch: pytest.MonkeyPatch):
    plan = lower(RECIPE.validate_python(MORE[0] | COMMON), engine.shape)
    kept = [values for _, _, values in session(engine, plan).results()]
    monkeypatch.setattr("steer.engine.engine.BUDGET", 0)
    again = [values for _, _, values in session(engine, plan).results()]
    for one, two in zip(kept, again, strict=True):
        assert all(torch.equal(one[path], two[path]) for path in one)


@torch.no_grad()
@pytest.mark.parametrize("over", ["position", "token"])
def test_means_count_real_tokens_only(engine: Engine, over: str):
    part = engine.parts(EPISODES, 24)[0]
    values = engine.clean(part, ["enc.0.self_attn.z", "dec.1.mlp.out"])
    means = engine.means(values, [part])
    for path, value in values.items():
        real = part.real(path)
        table = means.table(path, over)[:, : value.shape[1]]
        if over == "position":
            torch.testing.assert_close(table, position_means(value, real), rtol=0, atol=1e-12)
        else:
            torch.testing.assert_close(table[0, 0], value[real].mean(0), rtol=0, atol=1e-12)


@torch.no_grad()
def test_resampling_gives_every_episode_anothers_value(engine: Engine):
    plan = lower(RECIPE.validate_python({"kind": "ablate-set", "nodes": ["enc-self-0.0"], **COMMON}), engine.shape)
    mine = session(engine, plan, ablation=Ablation(value="resample"), seed=3)
    part = mine.parts[0]
    clean = engine.clean(part, ["enc.0.self_attn.z"])
    new = mine.bench(part, clean).ablated("enc.0.self_attn.z")
    donors = []
    for row in range(len(part.rows)):
        length = int(part.real("enc")[row].sum())
        same = [d for d in range(len(part.rows)) if torch.equal(new[row, 0], clean["enc.0.self_attn.z"][d, 0])]
        assert len(same) == 1
        assert same[0] != row
        donors += same
        donor_length = int(part.real("enc")[same[0]].sum())
        for place in range(length):
            assert torch.equal(new[row, place], clean["enc.0.self_attn.z"][same[0], place % donor_length])
    assert sorted(donors) == list(range(len(part.rows)))


@torch.no_grad()
def test_generation_with_an_intervention_equals_teacher_forcing_of_its_own_answer(engine: Engine):
    """Feed the answer that was written under the intervention back in: every step must choose it again."""
    plan = lower(RECIPE.validate_python({"kind": "ablate-set", "nodes": ["dec-cross-0.*"], **COMMON}), engine.shape)
    mine = session(engine, plan)
    part = mine.parts[0]
    written = mine.generate("set ablated", part)
    from dataclasses import replace

    from tokens import SOS_ID

    fed = torch.cat([torch.full_like(written[:, :1], SOS_ID), written[:, :-1]], dim=1)
    again = replace(part, output=fed)
    bench = mine.bench(again, engine.clean(again, engine.order))
    logits = engine.run(plan.runs[0], bench)["logits"]
    for row in range(len(part.rows)):
        for step in range(written.shape[1]):
            if written[row, step] == PAD_ID:
                break
            assert logits[row, step].argmax() == written[row, step]


def test_gradients_flow_through_sites(paper_model: Transformer):
    """d logit / d z from the trace equals the change of the logit under a small step (float64)."""
    engine = make_engine(paper_model.double())
    part = engine.parts(EPISODES[:4], 24)[0]
    paths = ["enc_embed.pos", "enc.1.self_attn.z", "dec.0.cross_attn.q"]
    found = engine.gradients(part, paths, lambda logits: logits[:, 0, 5].sum())
    assert list(found) == paths
    for path, (value, gradient) in found.items():
        direction = torch.randn(value.shape, generator=torch.Generator().manual_seed(1), dtype=value.dtype)
        ends = []
        for sign in (1, -1):
            changes = {path: [lambda v, s=sign, d=direction: v + s * 1e-5 * d]}
            with torch.no_grad():
                ends.append(hooked_forward(engine.model, part.prompt, part.output, changes)["logits"][:, 0, 5].sum())
        slope = (ends[0] - ends[1]) / 2e-5
        torch.testing.assert_close(slope, (gradient * direction).sum(), rtol=1e-6, atol=1e-8)


def test_an_error_in_a_run_names_the_run_and_the_place(engine: Engine):
    site = Site(Node("enc-self", 0, 1), "z")
    run = make_run(engine.shape, "broken", [Put(site, Ablated())], [LOGITS], "broken")
    mine = session(engine, make_plan(engine.shape, [LOGITS], [run]))
    bench = mine.bench(mine.parts[0], engine.clean(mine.parts[0], engine.order))
    bench.ablated = lambda path: torch.zeros(3, 3)
    with pytest.raises(SteerError, match=r"run 'broken' failed at enc\.0\.self_attn\.z"):
        engine.run(run, bench)
    assert engine.clean(mine.parts[0], ["logits"])["logits"].isfinite().all()  # and the model is still usable


def test_writers_have_hooks():
    assert {writer_path(node) for node in SHAPE.writers} <= set(hook_order(SHAPE))


def test_what_a_comparison_ablates():
    asked = next(recipe for recipe in MORE if recipe["kind"] == "compare")
    plan = lower(RECIPE.validate_python(asked | COMMON), SHAPE)
    assert plan.clean_condition == "clean"
    found = {run.condition: [str(edit.site) for edit in run.edits] for run in plan.runs}
    assert found["one"] == ["enc-self-0.5.z", "dec-mlp-0"]
    kept = {"enc-self-0.1", "enc-self-1.1", "enc-mlp-1"}
    wanted = [n for n in SHAPE.writers if n.layer is not None and n.stack == "enc" and str(n) not in kept]
    assert set(found["rest"]) == {str(Site(node, "z" if node.is_head else None)) for node in wanted}
    assert len(found["rest"]) == len(wanted) == 15
    assert len(found["all"]) == 16


@torch.no_grad()
def test_plans_over_the_same_episodes_share_the_clean_run(engine: Engine, monkeypatch: pytest.MonkeyPatch):
    plans = [lower(RECIPE.validate_python(recipe | COMMON), engine.shape) for recipe in (MORE[0], MORE[3], MORE[0])]
    alone = [[values for _, _, values in session(make_engine(engine.model), plan).results()] for plan in plans]
    passes = []
    real = Tracer.run

    def counted(self, state, start, stop, changes, reads, order):
        passes.append((start, bool(changes)))
        return real(self, state, start, stop, changes, reads, order)

    monkeypatch.setattr(Tracer, "run", counted)
    counts = []
    for plan, wanted in zip(plans, alone, strict=True):
        passes.clear()
        found = [values for _, _, values in session(engine, plan).results()]
        counts.append(passes.count(("enc.embed", False)))
        for one, two in zip(found, wanted, strict=True):
            assert all(torch.equal(one[path], two[path]) for path in one)
    assert counts == [1, 1, 0]  # the second needs hooks that the first left out; the third finds all


@torch.no_grad()
def test_other_episodes_make_room(engine: Engine, monkeypatch: pytest.MonkeyPatch):
    one, two = (engine.parts(EPISODES[start : start + 6])[0] for start in (0, 6))
    size = sum(engine.clean(part, ["logits"])["logits"].nbytes for part in (one, two))
    engine.clean(one, ["logits"], keep=True)
    assert one.kept
    monkeypatch.setattr("steer.engine.engine.BUDGET", size - 1)
    engine.clean(two, ["logits"], keep=True)
    assert not one.kept
    assert two.kept
    engine.clean(two, ["enc.0.self_attn.scores"], keep=True)  # too much beside what is kept of the same episodes
    assert list(two.kept) == ["logits"]
