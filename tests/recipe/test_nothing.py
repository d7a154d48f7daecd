"""Recipes that mean nothing: an intervention that cannot change what is measured is a fault, never a number."""

from __future__ import annotations

import pytest
import torch
from nothing import ANSWERS, ATTENTION, CAST, SMALL_NAMES, faults, random_model, small
from tokens import collate

from steer.anatomy.layout import touched
from steer.anatomy.nodes import Node, Site
from steer.base.errors import ConfigError, SteerError
from steer.base.yaml import Document, override
from steer.experiments.api import build_recipe
from steer.models.plain.layout import PlainSteps
from steer.models.plain.transformer import Transformer
from steer.recipe.lower import lower
from steer.tasks.compositional.splits import make_splits

SITES, HOOK = SMALL_NAMES.layout.sites, PlainSteps(2, 3).hook
ALIGNMENT = {"name": "ov-alignment", "heads": "dec-cross-1.0"}
LATE = "after all that is measured"


def values_with(model: Transformer, edited: Site | None) -> dict[Site, torch.Tensor]:
    """Every site of one forward pass by plain hooks, with noise added at one of them."""
    seen: dict[str, torch.Tensor] = {}

    def part(value: torch.Tensor, site: Site) -> torch.Tensor:
        if not site.node.is_head:
            return value
        return value.select(1 if site.port in ("scores", "pattern") else 2, site.node.head or 0)

    def hook(path: str):
        def act(module, given, value):
            if edited is not None and path == HOOK(edited):
                value = value.clone()
                part(value, edited).add_(torch.rand(part(value, edited).shape, dtype=torch.float64))
            seen[path] = value
            return value

        return act

    handles = [model.get_submodule(path).register_forward_hook(hook(path)) for path in {HOOK(site) for site in SITES}]
    batch = collate(make_splits(0).test[:3])
    model(torch.from_numpy(batch.prompt), torch.from_numpy(batch.output))
    for handle in handles:
        handle.remove()
    return {site: part(seen[HOOK(site)], site) for site in SITES}


def test_what_an_edit_touches_is_what_changes_in_a_real_forward_pass():
    model = random_model()
    clean = values_with(model, None)
    for edited in SITES:
        moved = values_with(model, edited)
        changed = {site for site in SITES if not torch.equal(moved[site], clean[site])}
        assert touched(SMALL_NAMES.layout, [edited]) == changed, edited


def test_nothing_passes_a_frozen_site():
    memory, logits, value = Site(Node("enc.memory")), Site(Node("logits")), Site(Node("enc-self", 0, 1), "v")
    assert logits in touched(SMALL_NAMES.layout, [value])
    assert not {memory, logits} & touched(SMALL_NAMES.layout, [value], [memory])
    assert logits in touched(SMALL_NAMES.layout, [value, Site(Node("dec-self", 0, 0), "q")], [memory])
    assert touched(SMALL_NAMES.layout, [value], [value]) == frozenset()


@pytest.mark.parametrize(
    ("keys", "place", "says"),
    [
        ({"kind": "ablate-set", "nodes": ["enc-self-0.0", "dec-cross-2.0"]}, ("nodes", 1), LATE),
        ({"kind": "ablate-set", "nodes": "dec-mlp-*"}, None, None),  # the first of them comes before
        ({"kind": "ablate-set", "nodes": "dec-*-2.*"}, ("nodes", 0), LATE),
        (
            {"kind": "compare", "conditions": [{"name": "a", "ablate": "dec-mlp-2"}]},
            ("conditions", 0, "ablate", 0), LATE,
        ),
        (
            {"kind": "keep-only-one", "target": "dec-cross-1.0.v", "sources": "enc-self-*.*"},
            ("target", 0), LATE,
        ),
        (
            {"kind": "chained-patch", "sources": "enc-self-0.*", "chain": ["enc-self-1.1.v", "dec-cross-1.0.v"]},
            ("chain", 1), LATE,
        ),
        (
            {"kind": "steer", "variable": "argument", "episodes": {"arity": 2},
             "sets": [{"name": "a", "sites": ["enc-self-0.0.z", "dec-cross-1.0.z"]}]},
            ("sets", 0, "sites", 1), LATE,
        ),
        (
            {"kind": "position-swap", "ports": "enc-self-0.0.v", "episodes": {"arity": 2}, "freeze": "enc.memory"},
            ("freeze",), "with enc.memory frozen, nothing from enc-self-0.0.v arrives",
        ),
        ({"kind": "ablate-set", "nodes": "enc-mlp-0", "measures": ANSWERS, "freeze": "logits"}, ("freeze",), "logits"),
        ({"kind": "ablate-set", "nodes": "enc-self-0.*", "freeze": "enc-self-0.0.z"}, ("freeze", 0), "is frozen and"),
        ({"kind": "keep-set", "nodes": "enc-self-0.*", "freeze": "enc-self-1.0.z"}, ("freeze", 0), "is frozen and"),
        (
            {"kind": "chained-patch", "sources": "enc-self-0.*", "chain": ["enc-self-1.1.v", "dec-cross-1.0.k"],
             "freeze": "enc-self-1.1.z"},
            ("freeze",), "with enc-self-1.1.z frozen",
        ),
        (
            {"kind": "ablate-only-one", "target": "dec-cross-1.0.k", "sources": "enc-self-0.0",
             "freeze": "enc-resid-1.mid"},
            ("freeze", 0), "frozen between enc-self-0.0 and dec-cross-1.0.k",
        ),
        (
            {"kind": "chained-patch", "sources": "enc-self-0.*", "chain": ["enc-self-1.1.v", "dec-cross-1.0.k"],
             "freeze": "enc.memory"},
            ("freeze", 0), "frozen between enc-self-1.1 and dec-cross-1.0.k",
        ),
        (  # the memory is not on the way of a query
            {"kind": "keep-only-one", "target": "dec-cross-1.0.q", "sources": "dec-self-*.*", "freeze": "enc.memory"},
            None, None,
        ),
        ({"kind": "keep-set", "nodes": ["enc-self-0.0", "enc-mlp-0"]}, ("nodes", 1), "never ablated within heads"),
        ({"kind": "keep-set", "nodes": "enc.tok", "within": "heads-and-mlps"}, ("nodes", 0), "never ablated"),
        ({"kind": "keep-set", "nodes": ["*-self-*.*", "*-cross-*.*"]}, ("nodes",), "nothing is ablated"),
        (
            {"kind": "compare", "conditions": [{"name": "a", "keep": "enc-self-0.*", "among": "enc-self-0.*"}]},
            ("conditions", 0), "nothing is ablated",
        ),
        ({"kind": "ablate-set", "nodes": ["enc-self-0.0", "enc.pos"]}, ("nodes", 1), "leaves enc.pos as it is"),
        ({"kind": "ablate-set", "nodes": "enc.pos", "ablation": {"value": "resample"}}, ("nodes", 0), "leaves enc.pos"),
        ({"kind": "ablate-set", "nodes": "enc.pos", "ablation": {"over": "token"}}, None, None),
        ({"kind": "ablate-set", "nodes": "enc.pos", "ablation": {"value": "zero"}}, None, None),
        (
            {"kind": "ablate-only-one", "target": "enc-self-0.1.v", "sources": ["enc.tok", "enc.pos"]},
            ("sources", 1), "leaves enc.pos",
        ),
        ({"kind": "ablate-set", "nodes": "enc-self-0.0", "episodes": {"count": 1}}, ("episodes", "count"), "one"),
        ({"kind": "ablate-set", "nodes": "dec-self-0.0", "places": [2, 20]}, ("places", 1), "there is no place 20"),
        ({"kind": "ablate-set", "nodes": "enc-self-0.0", "places": [2, 20]}, None, None),
        ({"kind": "clean", "measures": ANSWERS * 2}, ("measures", 1), "measured twice"),
        (
            {"kind": "clean", "measures": [*ATTENTION, {"name": "attention-mass", "heads": "dec-cross-1.*"}]},
            ("measures", 1), "attention-mass of dec-cross-1.0 answer is measured twice",
        ),
        ({"kind": "clean", "measures": [*ANSWERS, {"name": "exact-match", "decoding": "greedy"}]}, None, None),
        (
            {"kind": "ablate-set", "nodes": "dec-self-0.0", "measures": [*ANSWERS, ALIGNMENT]},
            ("measures", 1), "nothing that this recipe edits can change it",
        ),
        (  # what a counterpart has there is the same
            {"kind": "steer", "variable": "argument", "episodes": {"arity": 2},
             "sets": [{"name": "s", "sites": ["enc-self-0.0.z", "enc.pos"]}]},
            ("sets", 0, "sites", 1), "enc.pos does not depend on the prompt",
        ),
        ({"kind": "clean", "ablation": {"value": "zero"}}, ("ablation",), "ablated values; clean has none"),
        (
            {"kind": "position-swap", "ports": "enc-self-0.0.v", "episodes": {"arity": 2}, "ablation": {}},
            ("ablation",), "position-swap has none",
        ),
        ({"kind": "clean", "places": [1]}, ("places",), "clean edits nothing at them"),
        ({"kind": "clean", "freeze": "enc.memory"}, ("freeze",), "clean edits nothing"),
        (
            {"kind": "intervene", "places": [1],
             "conditions": [{"name": "c", "edits": [{"sites": "enc.tok", "scale": 2}]}]},
            ("places",), "an edit's own `places`",
        ),
        (
            {"kind": "ablate-set", "nodes": "enc-self-0.0", "ablation": {"mlps": "recomputed"}},
            ("ablation", "mlps"), "MLPs read the changed stream anyway",
        ),
        (
            {"kind": "ablate-only-one", "target": "dec-cross-1.0.k", "sources": "enc-self-0.0",
             "ablation": {"mlps": "recomputed"}},
            None, None,
        ),
        (  # what is frozen is not an edit
            {"kind": "ablate-set", "nodes": "dec-self-0.0", "freeze": "enc-mlp-0", "measures": [*ANSWERS, ALIGNMENT]},
            ("measures", 1), "nothing that this recipe edits can change it",
        ),
    ],
)  # fmt: skip
def test_a_recipe_that_cannot_change_what_it_measures_is_a_fault(keys: dict, place: tuple | None, says: str | None):
    if place is None:
        plan = lower(build_recipe(**{"measures": ATTENTION} | keys).recipe, SMALL_NAMES).plan
        assert any(run.edits for run in plan.runs) == (keys["kind"] != "clean")
        return
    found = faults(**keys)
    assert [key for key, _ in found] == [place], found
    assert says in found[0][1]


def test_a_glob_means_those_that_can_change_something():
    plan = lower(build_recipe(kind="ablate-set", nodes="dec-mlp-*", measures=ATTENTION).recipe, SMALL_NAMES).plan
    assert [str(edit.site) for edit in plan.runs[1].edits] == ["dec-mlp-0"]
    keys = {"kind": "keep-only-one", "target": "enc-self-0.0.v", "sources": "enc.*"}
    assert [run.condition for run in lower(build_recipe(**keys, measures=ANSWERS).recipe, SMALL_NAMES).plan.runs][
        2:
    ] == ["enc.tok"]


def test_a_role_of_one_head_is_a_name_and_all_its_heads_are_a_group():
    assert faults(CAST, kind="ablate-set", nodes="$output")[0][0] == ("nodes", 0)
    plan = lower(build_recipe(kind="ablate-set", nodes="$output:all", measures=ATTENTION).recipe, CAST).plan
    assert [str(edit.site.node) for edit in plan.runs[1].edits] == ["dec-cross-0.0"]


COMPARED = {
    "kind": "compare",
    "conditions": [{"name": "early", "ablate": "enc-self-0.0"}, {"name": "late", "ablate": "dec-cross-1.0"}],
    "measures": [{"name": "attention-mass", "heads": "dec-cross-0.0"}, {"name": "token-accuracy"}],
    "episodes": {"count": 5},
}


def test_a_pair_that_cannot_move_gives_no_row():
    found = {(row.condition, row.measure) for row in small(**COMPARED).rows}
    every = {(c, m) for c in ("clean", "early", "late") for m in ("attention-mass", "token-accuracy")}
    assert found == every - {("late", "attention-mass")}


def test_plan_says_which_rows_are_left_out(steer, recipe_file):
    path = recipe_file("""\
kind: compare
conditions: [{name: early, ablate: enc-self-0.0}, {name: late, ablate: dec-cross-1.0}]
measures: [{name: attention-mass, heads: dec-cross-0.0}, {name: token-accuracy}]
""")
    assert "no row: 'late' cannot change measure 0 (attention-mass)" in steer("plan", path).output


def test_a_frozen_site_is_not_called_edited():
    keys = {"nodes": "enc-self-0.0", "freeze": "dec-cross-2.1.q", "measures": ANSWERS, "episodes": {"count": 4}}
    assert small(kind="ablate-set", **keys).provenance.edited == {"set ablated": ("enc-self-0.0.z",)}


def test_a_key_is_changed_once():
    with pytest.raises(
        ConfigError, match="'checkpoint=b': checkpoint is given twice, the first time by 'checkpoint=a'"
    ):
        override(Document("x", {}), ["checkpoint=a", "checkpoint=b"])


def test_a_frozen_write_holds_by_either_name():
    keys = {"kind": "keep-only-one", "target": "dec-cross-1.0.k", "sources": "enc-self-0.*", "measures": ANSWERS}
    for port in ("z", "out"):
        found = faults(**keys, freeze=f"dec-cross-1.0.{port}")
        assert [key for key, _ in found] == [("freeze",)], port


def test_a_swap_asks_questions_whose_answer_it_changes():
    keys = {"kind": "position-swap", "ports": "enc-self-0.0.v", "measures": ATTENTION}
    with pytest.raises(
        SteerError, match="400 episodes match, and the index-in-question of none of them can be changed"
    ):
        small(**keys, episodes={"arity": 2, "split": "strict", "repeated": True})


def test_a_compare_of_which_nothing_is_left_is_a_fault():
    found = faults(CAST, kind="compare", conditions=[{"name": "a", "ablate": "$primitive-retrieval:any"}])
    assert found == [(("conditions",), "no head of this checkpoint plays these roles: nothing is compared")]


def test_keys_inside_each_other_are_given_twice():
    with pytest.raises(ConfigError, match="episodes is given twice"):
        override(Document("x", {}), ["episodes.count=20", "episodes={count: 30}"])
