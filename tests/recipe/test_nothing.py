"""Recipes that mean nothing: an intervention that cannot change what is measured is a fault, never a number."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from rig import make_engine, named
from tokens import collate

from steer.anatomy.layout import touched
from steer.anatomy.names import Names
from steer.anatomy.nodes import Node, Site
from steer.base.errors import ConfigError, KeyedError, SteerError
from steer.base.yaml import Document, override
from steer.engine.session import Inputs, Session
from steer.experiments.api import build_recipe
from steer.experiments.one import run_experiment
from steer.measures.representation import explained
from steer.models.checkpoint import Checkpoint, Record, load_checkpoint
from steer.models.plain.config import ModelConfig
from steer.models.plain.layout import PlainSteps
from steer.models.plain.transformer import Transformer
from steer.recipe.lower import lower
from steer.tasks.compositional.splits import make_splits

SMALL = ModelConfig(encoder_layers=2, decoder_layers=3, heads=2, d_model=12, d_head=5, d_ff=9)
SMALL_NAMES = named(2, 3, 2)
SITES, HOOK = SMALL_NAMES.layout.sites, PlainSteps(2, 3).hook
CAST = named(
    2, 3, 2,
    {"output": (Node("dec-cross", 2, 1), Node("dec-cross", 0, 0)), "rhs-scanner": (Node("dec-cross", 1, 1),)},
)  # fmt: skip
ATTENTION = [{"name": "attention-mass", "heads": "dec-cross-1.0"}]
ANSWERS = [{"name": "exact-match"}]
ALIGNMENT = {"name": "ov-alignment", "heads": "dec-cross-1.0"}
LATE = "after all that is measured"


def faults(names: Names = SMALL_NAMES, **keys) -> list[tuple[tuple, str]]:
    with pytest.raises(KeyedError) as caught:
        lower(build_recipe(**{"measures": ATTENTION} | keys).recipe, names)
    return caught.value.placed


def random_model() -> Transformer:
    generator = torch.Generator().manual_seed(1)
    model = Transformer(SMALL).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64) * 0.6)
    return model.requires_grad_(False)


def small(**keys):
    record = Record(config=SMALL, seed=0, protocol={}, history=[])
    return run_experiment(build_recipe(**keys), Checkpoint(random_model(), record, "small"))


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


def test_places_beyond_every_prompt_edit_nothing():
    keys = {"kind": "ablate-set", "nodes": "enc-self-0.0", "measures": ANSWERS, "episodes": {"count": 4}}
    with pytest.raises(SteerError, match="no sequence has a place 63"):
        small(**keys, places=[63, 64])
    answers = {"kind": "ablate-set", "nodes": "dec-self-0.0", "measures": ANSWERS, "places": [5]}
    with pytest.raises(SteerError, match="no sequence has a place 5"):
        small(**answers, episodes={"count": 4, "length": [1, 2]})  # the decoder reads three tokens at most
    rows = small(**keys, places=[2, 64]).rows
    assert {row.condition: row.warning for row in rows} == {
        "nothing ablated": "",
        "set ablated": "no sequence has a place 64",
    }


def test_the_mean_of_the_one_episode_that_fits_is_no_ablation():
    """The recipe asks for many, and one is there: known only once the episodes are."""
    engine = make_engine(random_model())
    one, two = make_splits(0).test[:1], make_splits(0).test[:2]

    def plan(**ablation: str):
        keys = {"kind": "ablate-set", "nodes": "enc-self-0.0", "measures": ANSWERS, "ablation": ablation}
        return lower(build_recipe(**keys).recipe, SMALL_NAMES).plan

    with pytest.raises(SteerError, match="mean over one episode"):
        Session(engine, plan(), Inputs(one))
    Session(engine, plan(over="token"), Inputs(one))
    Session(engine, plan(reference="train"), Inputs(one, reference=two))


def test_r_squared_of_few_points_or_one_label_carries_a_warning():
    keys = {"kind": "clean", "measures": [
        {"name": "r-squared", "site": "enc-self-0.0.z", "label": "index-in-question", "tokens": "symbols"}
    ]}  # fmt: skip
    (few,) = small(**keys, episodes={"count": 3, "arity": 2}).rows
    assert few.warning == "R² of few points: only 3 of the rarest label"
    (one,) = small(**keys, episodes={"count": 30, "arity": 1}).rows
    assert "single label" in one.warning
    (enough,) = small(**keys, episodes={"count": 30, "arity": 2}).rows
    assert not enough.warning
    points, episodes = torch.rand(40, 3).double().numpy(), torch.arange(40).numpy()
    assert explained(points, episodes % 2, episodes).warning == ""
    assert "only 3 of the rarest" in explained(points, (episodes < 3).astype(int), episodes).warning


def test_a_warning_stands_in_the_table_the_figure_and_the_rows(steer, tmp_path: Path):
    asked = ["run", "paper/fig06_index_in_question", "episodes.count=3", "--out", tmp_path / "out", "--format", "svg"]
    done = steer(*asked)
    assert "R² of few points" in done.output
    picture = next((tmp_path / "out").glob("*/figure.svg")).read_text()
    assert "Warning: R² of few points" in picture
    assert "cannot" in picture  # the panel of what an ablation cannot change
    assert "R² of few points" in next((tmp_path / "out").glob("*/rows.csv")).read_text()


def test_a_checkpoint_is_still_measured_where_nothing_is_edited():
    rows = run_experiment(
        build_recipe(kind="clean", measures=ANSWERS, episodes={"count": 1}), load_checkpoint("tiny")
    ).rows
    assert [row.condition for row in rows] == ["clean"]


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        # place 4 of every two-argument prompt is the bar; the first token that the decoder reads is always SOS
        ({"kind": "ablate-only-one", "target": "dec-cross-1.0.k", "sources": "enc.tok", "places": [4]}, True),
        ({"kind": "ablate-only-one", "target": "dec-cross-1.0.k", "sources": "enc.tok", "places": [5]}, False),
        ({"kind": "ablate-set", "nodes": "dec-self-0.*", "places": [1]}, True),
        ({"kind": "ablate-set", "nodes": "dec-self-0.*", "places": [2]}, False),
        # a counterpart has the same positions, and a swap changes nothing where it does not reach
        ({"kind": "steer", "variable": "argument", "sets": [{"name": "s", "sites": "enc.pos"}]}, True),
        ({"kind": "steer", "variable": "argument", "sets": [{"name": "s", "sites": "enc.tok"}]}, False),
        ({"kind": "position-swap", "ports": "enc-self-0.0.v", "places": [6]}, True),
        ({"kind": "position-swap", "ports": "enc-self-0.0.v", "places": [1]}, False),
    ],
)
def test_what_only_the_data_can_tell_is_a_warning(keys: dict, says: bool):
    rows = small(**{"measures": ATTENTION, "episodes": {"arity": 2, "count": 8}} | keys).rows
    edited = [
        row for row in rows if row.condition not in ("nothing ablated", "before", "ceiling", "everything ablated")
    ]
    assert edited
    assert {row.warning.startswith("the same as in the clean run") for row in edited} == {says}
    assert not any(row.warning for row in rows if row.condition in ("nothing ablated", "before", "ceiling"))


def test_a_chains_places_are_warned_of_as_well():
    keys = {"kind": "chained-patch", "sources": "enc-self-0.0", "measures": ATTENTION, "episodes": {"count": 5}}
    for chain in (["dec-cross-1.0.k"], ["enc-self-1.0.v", "dec-cross-1.0.k"]):
        rows = small(**keys, chain=chain, places=[1, 64]).rows
        warned = {row.condition for row in rows if "no sequence has a place 64" in row.warning}
        assert warned == {"everything ablated", "enc-self-0.0"}, chain


def test_a_frozen_write_holds_by_either_name():
    keys = {"kind": "keep-only-one", "target": "dec-cross-1.0.k", "sources": "enc-self-0.*", "measures": ANSWERS}
    for port in ("z", "out"):
        found = faults(**keys, freeze=f"dec-cross-1.0.{port}")
        assert [key for key, _ in found] == [("freeze",)], port


def test_written_answers_have_no_row_where_nothing_can_arrive_either():
    sets = [{"name": "held", "sites": "dec-cross-1.0.k"}, {"name": "free", "sites": "enc-self-0.0.z"}]
    keys = {"kind": "steer", "variable": "argument", "episodes": {"arity": 2, "count": 4}, "sets": sets}
    greedy = {"name": "exact-match", "decoding": "greedy", "against": "answer"}
    rows = small(**keys, freeze="dec-cross-1.0.z", measures=[*ATTENTION, greedy]).rows
    found = {(row.condition, row.measure) for row in rows}
    assert ("held", "attention-mass") in found
    assert ("held", "exact-match") not in found
    assert ("free", "exact-match") in found


def test_steps_that_are_not_counted_do_not_count():
    """Answers of two colours: the third step says EOS, which attention is not held to."""
    keys = {"kind": "ablate-set", "nodes": "dec-cross-0.*", "episodes": {"arity": 2, "count": 8, "length": [2, 2]}}
    late = small(**keys, places=[3], measures=ATTENTION).rows
    assert {row.condition for row in late if row.warning} == {"set ablated"}
    assert not any(row.warning for row in small(**keys, places=[2], measures=ATTENTION).rows)


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


def test_places_of_a_pattern_are_those_that_look():
    keys = {"kind": "steer", "variable": "argument", "episodes": {"arity": 2, "count": 4}, "places": [1]}
    site = "dec-cross-1.0.pattern"
    found = small(**keys, sets=[{"name": "s", "sites": site}], measures=ATTENTION, tensors=site).tensors
    before, after, theirs = (found[f"{name}/{site}"] for name in ("before", "s", "ceiling"))  # B T S
    assert torch.equal(after[:, 1:], before[:, 1:])
    torch.testing.assert_close(after[:, 0], theirs[:, 0], rtol=0, atol=1e-12)
    assert not torch.allclose(after[:, 0], before[:, 0])


def test_batches_of_one_engine_are_those_of_the_answers_given():
    """`ask` shows the same prompt with the answer before and the answer after: two batches, not one remembered."""
    engine, episode = make_engine(random_model()), make_splits(0).test[0]
    other = replace(episode, answer=episode.answer[::-1] + episode.answer)
    first, second = (engine.batches([e])[0].tokens["answer"] for e in (episode, other))
    assert first.shape[1] == len(episode.answer) + 1
    assert second.shape[1] == 2 * len(episode.answer) + 1
