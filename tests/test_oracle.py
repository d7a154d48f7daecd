"""Plans through nnsight against the same plans through plain hooks, which know nothing of the engine."""

from __future__ import annotations

import pytest
import torch
from oracle import Oracle, hooked_forward, position_means
from rig import COMMON, EPISODES, MORE, TWO_ARGUMENTS, disturb, make_engine, session
from tokens import RECIPE, ROLES, collate, counterparts

from steer.anatomy.names import Node, Shape
from steer.base.shipped import recipe_names
from steer.engine.engine import Engine, ablated_paths
from steer.models.plain.config import ModelConfig
from steer.models.plain.transformer import Transformer, initialise
from steer.plan.text import shape_of
from steer.recipe.load import load_recipe
from steer.recipe.lower import lower
from steer.recipe.schema import Steer
from steer.tasks.compositional.counterparts import counterpart

CAST = Shape(2, 2, 8, (  # roles of nobody in particular
    ("output", (Node("dec-cross", 1, 5), Node("dec-cross", 1, 1))), ("rhs-scanner", (Node("dec-cross", 0, 6),)),
    ("primitive-pairing", (Node("enc-self", 1, 1), Node("enc-self", 1, 0))),
    ("question-broadcast", (Node("enc-self", 0, 5),)), ("primitive-retrieval", (Node("enc-self", 1, 2),)),
    ("function-retrieval", (Node("enc-self", 1, 3),)),
), ROLES)  # fmt: skip


def compare_with_oracle(engine: Engine, plan, episodes, atol: float = 1e-10, others=()) -> int:
    """Every read of every run and of the clean condition, through both executors; gives how many were compared."""
    mine = session(engine, plan, episodes, counterparts=others)
    part = mine.parts[0]
    other = torch.from_numpy(collate([others[row] for row in part.rows]).prompt) if others else None
    clean = hooked_forward(engine.model, part.prompt, part.output, {})
    ablated = {path: position_means(clean[path], part.real(path)) for path in ablated_paths(plan, engine.shape)}
    theirs = {run.condition: values for run, values in Oracle.all(engine.model, part, ablated, other, plan)}
    theirs[plan.clean_condition] = clean
    compared = 0
    for _, condition, values in mine.results():
        for path, value in values.items():
            torch.testing.assert_close(value, theirs[condition][path], rtol=0, atol=atol)
            compared += 1
    return compared


def reads(plan) -> int:
    """How many values the plan reads in its clean run and in the runs that have a condition."""
    measured = [plan.reads, *(run.reads for run in plan.runs if run.condition)]
    return sum(len({site.path for site in sites}) for sites in measured)


def test_recipes_are_shipped():
    assert len(recipe_names()) >= 4


def fits(name: str) -> bool:
    """Is a recipe for models of these sizes? One that names heads of another checkpoint is for that one's."""
    shape = shape_of(load_recipe(name).recipe.checkpoint)
    return len(shape.writers) == len(CAST.writers)


@pytest.mark.parametrize("name", [*filter(fits, recipe_names())])
def test_every_shipped_recipe_agrees_with_plain_hooks(engine: Engine, name: str):
    recipe = load_recipe(name).recipe
    episodes = TWO_ARGUMENTS if recipe.episodes.arity == 2 else EPISODES
    others = []
    if isinstance(recipe, Steer):
        episodes = [episode for episode in TWO_ARGUMENTS if counterpart(episode, recipe.variable)]
        others = counterparts(episodes, recipe.variable)
    plan = lower(recipe, CAST)
    assert compare_with_oracle(engine, plan, episodes, others=others) == reads(plan) > 0


@pytest.mark.parametrize("recipe", MORE, ids=lambda recipe: recipe["kind"])
def test_other_plans_agree_with_plain_hooks(engine: Engine, recipe: dict):
    plan = lower(RECIPE.validate_python(recipe | COMMON), engine.shape)
    assert len(plan.reads) > 1
    assert compare_with_oracle(engine, plan, EPISODES) == reads(plan) > 0


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
    plan = lower(RECIPE.validate_python(recipe | ATTENTION_ONLY), engine.shape)
    assert compare_with_oracle(engine, plan, EPISODES) == reads(plan) > 0


@torch.no_grad()
def test_swaps_in_several_layers_add_up(engine: Engine):
    """By hand: both layers' values read the pass's own stream, in which layer 0 has changed already."""
    asked = {"kind": "position-swap", "ports": ["enc-self-0.*.v", "enc-self-1.*.v"], "episodes": {"arity": 2}}
    plan = lower(RECIPE.validate_python(asked | COMMON), engine.shape)
    mine = session(engine, plan, TWO_ARGUMENTS)
    part = mine.parts[0]
    (found,) = [values for _, condition, values in mine.results() if condition == "after"]
    position = engine.model.enc_embed.positions[: part.prompt.shape[1]]
    swapped = position.clone()
    swapped[[0, 2]] = position[[2, 0]]
    streams: dict[int, torch.Tensor] = {}

    def remember(layer: int):
        return lambda value: streams.setdefault(layer, value)

    def values(layer: int):
        block = engine.model.enc[layer]["self_attn"]
        return lambda value: block.split(block.W_V(block.ln(streams[layer] + swapped - position)))

    changes = {f"enc.{n}.self_attn.resid": [remember(n)] for n in (0, 1)}
    changes |= {f"enc.{n}.self_attn.v": [values(n)] for n in (0, 1)}
    theirs = hooked_forward(engine.model, part.prompt, part.output, changes)
    torch.testing.assert_close(found["logits"], theirs["logits"], rtol=0, atol=1e-10)


def test_a_swap_agrees_with_plain_hooks(engine: Engine):
    asked = {"kind": "position-swap", "ports": ["enc-self-0.*.v", "enc-self-0.2.k"], "episodes": {"arity": 2}}
    plan = lower(RECIPE.validate_python(asked | COMMON), engine.shape)
    assert compare_with_oracle(engine, plan, TWO_ARGUMENTS) == reads(plan) > 0


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
    plan = lower(RECIPE.validate_python(recipe | {"measures": [{"name": "exact-match"}]}), engine.shape)
    assert compare_with_oracle(engine, plan, EPISODES) == reads(plan) > 0


@torch.no_grad()
def test_keys_of_two_layers_are_swapped_independently(engine: Engine):
    """Both read the encoder's last stream, which neither changes."""
    episodes = TWO_ARGUMENTS
    found = {}
    for ports in (["dec-cross-0.0.k", "dec-cross-1.0.k"], ["dec-cross-1.0.k"]):
        recipe = {"kind": "position-swap", "ports": ports, "episodes": {"arity": 2}, "tensors": "dec-cross-1.0.k"}
        plan = lower(RECIPE.validate_python(recipe | {"measures": [{"name": "exact-match"}]}), engine.shape)
        assert compare_with_oracle(engine, plan, episodes) == reads(plan) > 0
        (found[len(ports)],) = [
            v for _, condition, v in session(engine, plan, episodes).results() if condition == "after"
        ]
    key = "dec.1.cross_attn.k"
    torch.testing.assert_close(found[2][key], found[1][key], rtol=0, atol=1e-12)
    assert not torch.equal(found[2]["logits"], found[1]["logits"])
