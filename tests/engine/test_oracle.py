"""Plans through nnsight against the same plans through plain hooks, which know nothing of the engine."""

from __future__ import annotations

import pytest
import torch
from oracle import Oracle, hooked_forward, position_means
from rig import COMMON, EPISODES, LOGITS, MORE, NAMES, TWO_ARGUMENTS, disturb, make_engine, names_in, session
from tokens import PAD_ID, RECIPE, collate, counterparts

from steer.anatomy.names import Names
from steer.anatomy.nodes import Node, Site
from steer.base.shipped import recipe_names
from steer.engine.engine import Engine
from steer.models.families import names_of
from steer.models.plain.config import ModelConfig
from steer.models.plain.transformer import Transformer, initialise
from steer.models.protocol import Batch
from steer.plan.plan import COUNTERPART, REFERENCE, Forced, Mean, Plan, Zero, values_within
from steer.recipe.kinds.activation_patch import ActivationPatch
from steer.recipe.kinds.intervene import Intervene
from steer.recipe.kinds.steer import Steer
from steer.recipe.load import load_recipe
from steer.recipe.lower import lower
from steer.tasks.compositional.counterparts import counterpart
from steer.tasks.compositional.splits import make_splits

ROLES = {  # of nobody in particular
    "output": (Node("dec-cross", 1, 5), Node("dec-cross", 1, 1)), "rhs-scanner": (Node("dec-cross", 0, 6),),
    "primitive-pairing": (Node("enc-self", 1, 1), Node("enc-self", 1, 0)),
    "question-broadcast": (Node("enc-self", 0, 5),), "primitive-retrieval": (Node("enc-self", 1, 2),),
    "function-retrieval": (Node("enc-self", 1, 3),),
}  # fmt: skip
CAST = Names(NAMES.layout, ROLES, NAMES.role_words)
REFERENCES = make_splits(0).train[:7]  # short and long ones


def compare_with_oracle(engine: Engine, plan: Plan, episodes, atol: float = 1e-10, others=()) -> int:
    """Every read of every run and of the clean condition, through both executors; gives how many were compared."""
    mine = session(engine, plan, episodes, counterparts=others, reference=REFERENCES)
    batch, module = mine.batches[0], engine.model.module
    other = torch.from_numpy(collate([others[row] for row in batch.rows]).prompt) if others else None
    ablated = stand_ins(engine, plan, batch)
    theirs = {run.name: values for run, values in Oracle.all(module, batch, ablated, other, plan)}
    compared = 0
    for found in mine:
        if found.written is not None:
            continue
        assert tuple(found.values) == found.run.reads
        assert {engine.steps.hook(site) for site in found.run.reads} <= set(found.values.hooks)
        for hook, value in found.values.hooks.items():
            torch.testing.assert_close(value, theirs[found.run.name][hook], rtol=0, atol=atol)
        compared += len(set(map(engine.steps.hook, found.run.reads)))
    return compared


def stand_ins(engine: Engine, plan: Plan, batch: Batch) -> dict[str, torch.Tensor]:
    """What stands in at every hook that a node writes at, for the one kind of ablation in a plan."""
    used = {v for run in plan.runs for edit in run.edits for v in values_within(edit.value)}
    (value,) = {v for v in used if isinstance(v, Mean | Zero)} or {Zero()}
    if isinstance(value, Mean) and value.of == REFERENCE:
        batch = engine.model.encode(REFERENCES, [*range(len(REFERENCES))])
    prompt, answer = batch.tokens["prompt"], batch.tokens["answer"]
    clean, found = hooked_forward(engine.model.module, prompt, answer, {}), {}
    for site in map(engine.layout.write, engine.layout.nodes):
        hook, real = engine.steps.hook(site), (prompt if str(site).startswith("enc") else answer) != PAD_ID
        pooled = torch.zeros_like(clean[hook][0, 0]) if value == Zero() else clean[hook][real].mean(0)
        if value != Zero() and value.over == "padded":
            pooled = clean[hook].mean((0, 1))
        found[hook] = pooled.expand(1, engine.model.max_length, *pooled.shape).clone()
        if value != Zero() and value.over == "position":
            means = position_means(clean[hook], real)
            found[hook][:, : means.shape[1]] = means
    return found


def reads(plan: Plan, engine: Engine) -> int:
    """How many values the plan reads in its runs that have a condition, the right tokens fed in."""
    measured = [run for run in plan.runs if run.condition and run.decoding == Forced()]
    return sum(len({engine.steps.hook(site) for site in run.reads}) for run in measured)


def test_recipes_are_shipped():
    assert len(recipe_names()) >= 4


LENT = (Steer, ActivationPatch, Intervene)  # kinds that take values from counterparts


def fits(name: str) -> bool:
    """Is a recipe for models of these sizes? One that names heads of another checkpoint is for that one's.

    What is learnt, or read from a file of directions, is replayed by hand in tests of its own.
    """
    recipe = load_recipe(name).recipe
    layout = names_of(recipe.checkpoint).layout
    return len(layout.nodes) == len(CAST.layout.nodes) and not recipe.learning and not recipe.files


@pytest.mark.parametrize("name", [*filter(fits, recipe_names())])
def test_every_shipped_recipe_agrees_with_plain_hooks(engine: Engine, name: str):
    recipe = load_recipe(name).recipe
    episodes = TWO_ARGUMENTS if recipe.episodes.arity == 2 else EPISODES
    others = []
    lent = isinstance(recipe, LENT) and recipe.variable is not None
    if lent:
        episodes = [episode for episode in TWO_ARGUMENTS if counterpart(episode, recipe.variable)]
        others = counterparts(episodes, recipe.variable)
    plan = lower(recipe, CAST).plan
    assert any(run.name == COUNTERPART for run in plan.runs) == lent
    assert compare_with_oracle(engine, plan, episodes, others=others) == reads(plan, engine) > 0


@pytest.mark.parametrize("recipe", MORE, ids=lambda recipe: recipe["kind"])
def test_other_plans_agree_with_plain_hooks(engine: Engine, recipe: dict):
    plan = lower(RECIPE.validate_python(recipe | COMMON), names_in(engine.model.module)).plan
    assert len(plan.runs[0].reads) > 1
    assert compare_with_oracle(engine, plan, EPISODES) == reads(plan, engine) > 0


ATTENTION_ONLY = {"measures": [{"name": "attention-accuracy", "heads": ["dec-cross-1.3"]}]}
SHORT = [
    {"kind": "keep-set", "nodes": ["enc-self-*.*", "dec-cross-1.3"]},
    {"kind": "ablate-set", "nodes": ["enc-self-0.0", "dec-cross-*.0", "dec-mlp-*"]},
    {"kind": "keep-only-one", "target": "dec-cross-1.3.k", "sources": "enc-self-1.*", "tensors": "enc-self-0.0.z"},
    {"kind": "chained-patch", "sources": "enc-self-0.*", "chain": ["enc-self-1.0.k", "dec-cross-1.3.k"],
     "freeze": "dec-cross-1.3.q"},
]  # fmt: skip


@pytest.mark.parametrize("recipe", SHORT, ids=lambda recipe: recipe["kind"])
def test_plans_that_stop_early_agree_with_plain_hooks(engine: Engine, recipe: dict):
    """Edits after the last read change nothing that is read; reads before the first edit are the clean values."""
    plan = lower(RECIPE.validate_python(recipe | ATTENTION_ONLY), names_in(engine.model.module)).plan
    assert compare_with_oracle(engine, plan, EPISODES) == reads(plan, engine) > 0


@torch.no_grad()
def test_swaps_in_several_layers_add_up(engine: Engine):
    """By hand: both layers' values read the pass's own stream, in which layer 0 has changed already."""
    asked = {"kind": "position-swap", "ports": ["enc-self-0.*.v", "enc-self-1.*.v"], "episodes": {"arity": 2}}
    plan = lower(RECIPE.validate_python(asked | COMMON), names_in(engine.model.module)).plan
    mine = session(engine, plan, TWO_ARGUMENTS)
    batch, module = mine.batches[0], engine.model.module
    (after,) = [found.values for found in mine if found.run.condition == "after"]
    position = module.enc_embed.positions[: batch.tokens["prompt"].shape[1]]
    swapped = position.clone()
    swapped[[0, 2]] = position[[2, 0]]
    streams: dict[int, torch.Tensor] = {}

    def remember(layer: int):
        return lambda value: streams.setdefault(layer, value)

    def values(layer: int):
        block = module.enc[layer]["self_attn"]
        return lambda value: block.split(block.W_V(block.ln(streams[layer] + swapped - position)))

    changes = {f"enc.{n}.self_attn.resid": [remember(n)] for n in (0, 1)}
    changes |= {f"enc.{n}.self_attn.v": [values(n)] for n in (0, 1)}
    theirs = hooked_forward(module, batch.tokens["prompt"], batch.tokens["answer"], changes)
    torch.testing.assert_close(after[LOGITS], theirs["logits"], rtol=0, atol=1e-10)


def test_a_swap_agrees_with_plain_hooks(engine: Engine):
    asked = {"kind": "position-swap", "ports": ["enc-self-0.*.v", "enc-self-0.2.k"], "episodes": {"arity": 2}}
    plan = lower(RECIPE.validate_python(asked | COMMON), names_in(engine.model.module)).plan
    assert compare_with_oracle(engine, plan, TWO_ARGUMENTS) == reads(plan, engine) > 0


SIZES = [
    ModelConfig(encoder_layers=3, decoder_layers=3, heads=5, d_model=20, d_head=4, d_ff=24),
    ModelConfig(encoder_layers=1, decoder_layers=3, heads=3, d_model=18, d_head=7, d_ff=20),
]
ANY_SIZE = [
    {"kind": "keep-only-one", "target": "dec-cross-2.1.k", "sources": ["enc-*"]},
    {"kind": "ablate-only-one", "target": "dec-cross-2.2.q", "sources": ["dec-*"], "freeze": "dec-cross-2.2.k"},
    {"kind": "chained-patch", "sources": "enc-*", "chain": ["dec-cross-0.1.v", "dec-mlp-1", "dec-cross-2.0.q"]},
    {"kind": "keep-set", "nodes": ["enc-self-0.*", "dec-cross-2.*"], "within": "heads-and-mlps"},
    {"kind": "keep-only-one", "target": "dec-mlp-1", "sources": "dec.tok", "places": [1, 3], "tensors": "dec-mlp-1"},
]


@pytest.mark.parametrize("config", SIZES, ids=str)
@pytest.mark.parametrize("recipe", ANY_SIZE, ids=lambda recipe: recipe["kind"])
def test_models_of_other_sizes_agree_with_plain_hooks(config: ModelConfig, recipe: dict):
    model = Transformer(config)
    initialise(model, torch.Generator().manual_seed(1))
    engine = make_engine(disturb(model).double().eval())
    plan = lower(
        RECIPE.validate_python(recipe | {"measures": [{"name": "exact-match"}]}), names_in(engine.model.module)
    ).plan
    assert compare_with_oracle(engine, plan, EPISODES) == reads(plan, engine) > 0


@torch.no_grad()
def test_keys_of_two_layers_are_swapped_independently(engine: Engine):
    """Both read the encoder's last stream, which neither changes."""
    episodes = TWO_ARGUMENTS
    found = {}
    for ports in (["dec-cross-0.0.k", "dec-cross-1.0.k"], ["dec-cross-1.0.k"]):
        recipe = {"kind": "position-swap", "ports": ports, "episodes": {"arity": 2}, "tensors": "dec-cross-1.0.k"}
        plan = lower(
            RECIPE.validate_python(recipe | {"measures": [{"name": "exact-match"}]}), names_in(engine.model.module)
        ).plan
        assert compare_with_oracle(engine, plan, episodes) == reads(plan, engine) > 0
        (found[len(ports)],) = [one.values for one in session(engine, plan, episodes) if one.run.condition == "after"]
    key = Site(Node("dec-cross", 1, 0), "k")
    torch.testing.assert_close(found[2][key], found[1][key], rtol=0, atol=1e-12)
    assert not torch.equal(found[2][LOGITS], found[1][LOGITS])
