"""The invariants of every intervention, whatever the plan."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch
from oracle import direct_sources, hooked_forward
from plans import forced, plan_of
from rig import COMMON, EPISODES, LOGITS, MORE, NAMES, TWO_ARGUMENTS, make_engine, session
from tokens import PAD_ID, RECIPE, SOS_ID
from torch import Tensor

from steer.anatomy.nodes import INPUT_PORTS, Node, Site
from steer.engine.backends.local import Local, PassError
from steer.engine.engine import Engine
from steer.engine.schedule import hook_order
from steer.engine.session import Inputs, Session
from steer.models.plain.layout import PlainSteps
from steer.models.plain.transformer import State, Transformer
from steer.models.protocol import Batch
from steer.plan.plan import CLEAN, Edit, Mean, Of, Rebuilt, Run, Zero, make_plan
from steer.recipe.lower import lower
from steer.tasks.compositional.counterparts import counterpart

STEPS = PlainSteps(2, 2)
Z = "enc.0.self_attn.z"


def bare(model: Transformer, batch: Batch) -> Tensor:
    return model(batch.tokens["prompt"], batch.tokens["answer"])


@torch.no_grad()
def test_a_full_trace_is_bitwise_the_bare_model(paper_model: Transformer):
    engine = make_engine(paper_model)
    batch = engine.batches(EPISODES, 24)[0]
    assert torch.equal(engine.clean(batch, [LOGITS])[LOGITS], bare(paper_model, batch))


@torch.no_grad()
@pytest.mark.parametrize("hook", hook_order(NAMES.layout, STEPS))
def test_patching_clean_values_changes_nothing(paper_model: Transformer, hook: str):
    """Bitwise, for every hook, all heads at once and one head alone."""
    engine = make_engine(paper_model)
    batch = engine.batches(EPISODES[:6], 24)[0]
    sites = [site for site in engine.layout.sites if STEPS.hook(site) == hook and site.port != "out"]
    assert sites
    for site in sites[:2]:
        run = Run("same", (Edit(site, Of(CLEAN)),), (LOGITS,), "same")
        (found,) = forced(session(engine, make_plan(Run(CLEAN), [run]), EPISODES[:6]))
        assert torch.equal(found.values[LOGITS], bare(paper_model, batch))


@torch.no_grad()
@pytest.mark.parametrize("start", STEPS.names)
def test_a_pass_may_start_at_any_step(paper_model: Transformer, start: str):
    """From the clean run's values at that step it goes on bit by bit as the whole pass did."""
    engine = make_engine(paper_model)
    batch = engine.batches(EPISODES[:6], 24)[0]
    whole = engine.hooks(batch, engine.order)
    given = {field: whole[hook] for field, hook in STEPS.given(start, None).items()}
    rest = Local(paper_model).run(State(*batch.tokens.values(), **given), start, None, {}, ["logits"], engine.order)
    assert torch.equal(rest["logits"], bare(paper_model, batch))


@torch.no_grad()
def test_what_is_kept_starts_a_later_pass_midway(engine: Engine, monkeypatch: pytest.MonkeyPatch):
    batch = engine.batches(EPISODES, 24)[0]
    engine.hooks(batch, ["memory", "dec.1.mlp.resid"], keep=True)
    starts, real = [], Local.run
    monkeypatch.setattr(
        Local, "run", lambda self, state, start, *rest: starts.append(start) or real(self, state, start, *rest)
    )
    found = engine.hooks(batch, ["dec.0.self_attn.z"]), engine.hooks(batch, ["logits"])
    assert starts == ["dec.embed", "dec.1.mlp.compute"]
    assert torch.equal(found[1]["logits"], bare(engine.model.module, batch))


@torch.no_grad()
def test_sources_sum_to_the_stream_they_feed(engine: Engine):
    batch = engine.batches(EPISODES, 24)[0]
    ports = [Site(node, port) for node in engine.layout.heads for port in INPUT_PORTS]
    for site in [*ports, *map(Site, engine.layout.mlps)]:
        run = Run("same", (Edit(site, Rebuilt(Of(CLEAN))),), (site,), "same")
        worlds = session(engine, make_plan(Run(CLEAN), [run])).worlds(batch)
        clean = engine.hooks(batch, engine.order)
        worlds.runs[CLEAN] = clean
        parts = [worlds.write(source, Of(CLEAN)) for source in engine.layout.sources(site)]
        total = sum(parts, start=engine.model.constant(site))
        torch.testing.assert_close(total, clean[STEPS.hook(engine.layout.stream(site))], rtol=0, atol=1e-10)
        value = clean[STEPS.hook(site)]
        torch.testing.assert_close(worlds.new(run.edits[0], value, {}), value, rtol=0, atol=1e-10)
        assert list(engine.layout.sources(site)) == direct_sources(engine.model.module, site)


@torch.no_grad()
def test_only_the_named_heads_port_changes(engine: Engine):
    site = Site(Node("enc-self", 1, 3), "v")
    reads = tuple(Site(Node("enc-self", 1, head), "v") for head in range(8))
    run = Run("one", (Edit(site, Rebuilt(Mean())),), reads, "one")
    clean, edited = forced(session(engine, make_plan(Run(CLEAN, (), reads, "clean"), [run])))
    for head, read in enumerate(reads):
        assert torch.equal(clean.values[read], edited.values[read]) == (head != 3)
    assert not torch.allclose(clean.values[site], edited.values[site])


@torch.no_grad()
def test_edits_compose_and_reads_see_them(engine: Engine):
    reads = tuple(Site(Node("enc-self", 0, head), "z") for head in (1, 2, 3))
    run = Run("two", tuple(Edit(site, Zero()) for site in reads[:2]), reads, "two")
    clean, edited = forced(session(engine, make_plan(Run(CLEAN, (), reads, "clean"), [run])))
    assert all((edited.values[site] == 0).all() for site in reads[:2])
    assert torch.equal(edited.values.hooks[Z][:, :, 3:], clean.values.hooks[Z][:, :, 3:])  # all other heads


@torch.no_grad()
def test_edits_at_one_site_apply_in_order(engine: Engine):
    site = Site(Node("enc-self", 0, 1), "z")
    for values in ((Zero(), Of(CLEAN)), (Of(CLEAN), Zero())):
        run = Run("two", tuple(Edit(site, value) for value in values), (site,), "two")
        clean, edited = forced(session(engine, make_plan(Run(CLEAN, (), (site,), "clean"), [run])))
        wanted = clean.values[site] if values[-1] == Of(CLEAN) else torch.zeros_like(clean.values[site])
        assert torch.equal(edited.values[site], wanted)


@torch.no_grad()
def test_batch_mates_change_nothing(engine: Engine):
    """The same episodes in batches of 5 and of 24: the same rows, but for rounding."""
    plan = plan_of({"kind": "ablate-set", "nodes": ["enc-self-0.*"], "measures": [{"name": "exact-match"}]})
    found = []
    for size in (24, 5):
        rows = {}
        for one in Session(engine, plan, Inputs(EPISODES, size=size)):
            for row, logits, real in zip(one.batch.rows, one.values[LOGITS], one.batch.real["answer"], strict=True):
                rows[row, one.run.condition] = logits[: int(real.sum())]
        found.append(rows)
    assert found[0].keys() == found[1].keys()
    for key in found[0]:
        torch.testing.assert_close(found[0][key], found[1][key], rtol=0, atol=1e-11)


@torch.no_grad()
def test_generation_with_an_intervention_equals_teacher_forcing_of_its_own_answer(engine: Engine):
    """Feed the answer that was written under the intervention back in: every step must choose it again."""
    asked = {
        "kind": "ablate-set",
        "nodes": ["dec-cross-0.*"],
        "measures": [{"name": "exact-match", "decoding": "greedy"}],
    }
    mine = session(engine, plan_of(asked))
    (written,) = [one for one in mine if one.written is not None and one.run.condition == "set ablated"]
    said, batch = written.written, written.batch
    fed = torch.cat([torch.full_like(said[:, :1], SOS_ID), said[:, :-1]], dim=1)
    again = replace(batch, tokens={**batch.tokens, "answer": fed}, real={**batch.real, "answer": fed != PAD_ID})
    (run,) = [run for run in mine.plan.runs if run.name == "set ablated"]
    logits = mine.run(run, mine.worlds(again))[LOGITS]
    steps = (said != PAD_ID).nonzero().tolist()
    assert {row for row, _ in steps} == set(range(len(said)))
    for row, step in steps:
        assert logits[row, step].argmax() == said[row, step]


def test_gradients_flow_through_sites(paper_model: Transformer):
    """d logit / d z from the trace equals the change of the logit under a small step (float64)."""
    engine = make_engine(paper_model.double())
    batch = engine.batches(EPISODES[:4], 24)[0]
    hooks = ["enc_embed.pos", "enc.1.self_attn.z", "dec.0.cross_attn.q"]
    found = engine.gradients(batch, hooks, lambda logits: logits[:, 0, 5].sum())
    assert list(found) == hooks
    for hook, (value, gradient) in found.items():
        direction = torch.randn(value.shape, generator=torch.Generator().manual_seed(1), dtype=value.dtype)
        ends = []
        for sign in (1, -1):
            changes = {hook: [lambda v, s=sign, d=direction: v + s * 1e-5 * d]}
            with torch.no_grad():
                ends.append(hooked_forward(paper_model, *batch.tokens.values(), changes)["logits"][:, 0, 5].sum())
        slope = (ends[0] - ends[1]) / 2e-5
        torch.testing.assert_close(slope, (gradient * direction).sum(), rtol=1e-6, atol=1e-8)


def test_an_error_in_a_pass_looks_like_a_bug_and_names_run_and_place(engine: Engine):
    site = Site(Node("enc-self", 0, 1), "z")
    mine = session(engine, make_plan(Run(CLEAN), [Run("broken", (Edit(site, Zero()),), (LOGITS,), "broken")]))
    worlds = mine.worlds(mine.batches[0])
    worlds._whole[Zero(), Z] = torch.zeros(3, 3)
    with torch.no_grad(), pytest.raises(PassError, match=r"run 'broken': .* failed at enc\.0\.self_attn\.z"):
        mine.run(mine.plan.runs[1], worlds)
    assert engine.clean(mine.batches[0], [LOGITS])[LOGITS].isfinite().all()  # and the model is still usable


def test_progress_ends_with_the_last_pass(engine: Engine):
    told: list[float] = []
    plan = plan_of(MORE[3] | COMMON)
    found = list(Session(engine, plan, Inputs(EPISODES, size=4), told.append))
    assert len(found) == 3 * len(plan.conditions)
    assert told == sorted(told)
    assert told[-1] == 1
    assert len({*told}) == 3 * plan.forwards


def test_writers_have_hooks():
    hooks = set(hook_order(NAMES.layout, STEPS))
    assert {STEPS.hook(NAMES.layout.write(node)) for node in NAMES.layout.nodes} <= hooks


def test_what_a_comparison_ablates():
    asked = next(recipe for recipe in MORE if recipe["kind"] == "compare")
    lowered = lower(RECIPE.validate_python(asked | COMMON), NAMES)
    assert lowered.clean == lowered.plan.runs[0].condition == "clean"
    found = {run.condition: [str(edit.site) for edit in run.edits] for run in lowered.plan.runs}
    assert found["one"] == ["enc-self-0.5.z", "dec-mlp-0"]
    kept = {"enc-self-0.1", "enc-self-1.1", "enc-mlp-1"}
    wanted = [n for n in NAMES.layout.nodes if n.layer is not None and n.kind[:3] == "enc" and str(n) not in kept]
    assert set(found["rest"]) == {str(Site(node, "z" if node.is_head else None)) for node in wanted}
    assert len(found["rest"]) == len(wanted) == 15
    assert len(found["all"]) == 16


BOTH = [{"name": "exact-match"}, {"name": "exact-match", "decoding": "greedy"}]
NAMED = [
    {"kind": "steer", "variable": "argument", "sets": [{"name": "NAME", "sites": "enc-self-0.0.z"}]},
    {"kind": "steer", "variable": "index-in-question", "by": "positions",
     "sets": [{"name": "NAME", "sites": "enc-self-0.0.v"}]},
    {"kind": "compare", "ablation": {"reference": "train"}, "conditions": [
        {"name": "NAME", "ablate": "enc-self-0.0"}, {"name": "NAME, greedy", "ablate": "dec-self-0.*"},
    ]},
]  # fmt: skip


@torch.no_grad()
@pytest.mark.parametrize(
    ("recipe", "name"),
    [(recipe, name) for recipe in NAMED for name in ("clean", "counterpart", "reference")][:-3]
    + [(NAMED[-1], name) for name in ("counterpart", "reference")],  # "clean" is a comparison's own
    ids=lambda one: one if isinstance(one, str) else one["kind"],
)
def test_a_condition_may_have_the_name_of_a_world_or_of_another_run(engine: Engine, recipe: dict, name: str):
    pairs = [(episode, counterpart(episode, recipe.get("variable", "argument"))) for episode in TWO_ARGUMENTS]
    episodes, twins = zip(*(pair for pair in pairs if pair[1]), strict=True)
    text, found = json.dumps(recipe | {"episodes": {"arity": 2}, "measures": BOTH}), []
    for words in (text.replace("NAME, greedy", "two").replace("NAME", "one"), text.replace("NAME", name)):
        mine = session(engine, plan_of(json.loads(words)), episodes, twins, EPISODES)
        found.append([one.written if one.written is not None else one.values[LOGITS] for one in mine])
    assert len(found[0]) == 6  # three conditions, fed and free
    assert all(torch.equal(one, two) for one, two in zip(*found, strict=True))
    assert not any(torch.equal(found[0][one], found[0][two]) for one, two in ((0, 1), (0, 2), (1, 2)))
