"""Sets, comparisons and exchanged positions against the recipe's words, and what stands in for ablated values."""

from __future__ import annotations

from dataclasses import replace

import by_hand
import pytest
import torch
from by_hand import Trial, ablate, exchange_positions, keep_only_one, nothing, of_donor
from small import BATCH, MIXED, TWO, ask, checkpoint, close, net_of, of_arity, same, trials

from steer.experiments.api import build_recipe
from steer.experiments.examples import examples_of
from steer.tasks.compositional import splits

MODEL = checkpoint(1)
NET = net_of(MODEL)
MADE = trials(NET, MIXED)
LOGITS = [{"name": "exact-match"}]
HEADS = [head for stack in ("enc", "dec") for b in NET.blocks(stack) if "mlp" not in b for head in NET.members(b)]
MLPS = [block for stack in ("enc", "dec") for block in NET.blocks(stack) if "mlp" in block]
SITES = ["enc-self-1.2.z", "enc-self-1.2.out", "dec-cross-0.1.pattern", "dec-mlp-1", "dec-resid-1.cross", "logits"]


@pytest.mark.parametrize("places", [[], [1, 4]])
@pytest.mark.parametrize("freeze", [[], ["dec-cross-0.1.pattern", "enc-resid-2.mid", "dec-mlp-1"]])
def test_a_set_is_ablated(places: list[int], freeze: list[str]):
    nodes = ["enc-self-1.2", "enc-mlp-0", "dec-cross-0.0", "dec.tok"]
    keys = {"kind": "ablate-set", "nodes": nodes, "places": places, "freeze": freeze}
    result = ask(MODEL, MIXED, **keys, measures=LOGITS, tensors=SITES)
    same(result, {"nothing ablated": nothing, "set ablated": ablate(nodes, places, freeze)}, MADE, SITES)


@pytest.mark.parametrize(
    ("kept", "within"),
    [
        (["enc-self-1.2", "dec-cross-0.*"], "heads"),
        (["dec-self-1.0"], "heads"),
        (["enc-self-1.2", "dec-cross-0.*", "enc-mlp-1"], "heads-and-mlps"),
        (["dec-self-1.0", "dec-mlp-0"], "heads-and-mlps"),
    ],
)
def test_a_set_is_kept(kept: list[str], within: str):
    """The lower end of the scale is the same whatever is kept."""
    universe = HEADS + (MLPS if within == "heads-and-mlps" else [])
    out = [n for n in universe if n not in kept and f"{n.rpartition('.')[0]}.*" not in kept]
    result = ask(MODEL, MIXED, kind="keep-set", nodes=kept, within=within, measures=LOGITS, tensors=SITES)
    conditions = {"nothing ablated": nothing, "only the set kept": ablate(out), "everything ablated": ablate(universe)}
    assert 0 < len(out) < len(universe)
    same(result, conditions, MADE, SITES)


def test_conditions_are_compared():
    conditions = [
        {"name": "one", "ablate": ["enc-self-0.1", "dec-mlp-0"]},
        {"name": "rest", "keep": ["enc-self-1.0", "dec-cross-0.2"], "among": ["enc-self-1.*", "dec-cross-*.*"]},
        {"name": "all", "among": ["dec-self-*.*", "enc-mlp-*"]},
    ]
    freeze = ["dec-cross-1.2.q"]
    sites = [*SITES, *freeze]
    result = ask(
        MODEL, MIXED, kind="compare", conditions=conditions, measures=LOGITS, tensors=sites, freeze=freeze, places=[2]
    )
    rest = [
        n for n in HEADS if n.startswith(("enc-self-1", "dec-cross")) and n not in ("enc-self-1.0", "dec-cross-0.2")
    ]
    wanted = {
        "one": ["enc-self-0.1", "dec-mlp-0"],
        "rest": rest,
        "all": [n for n in (*HEADS, *MLPS) if n.startswith(("dec-self", "enc-mlp"))],
    }
    by_name = {name: ablate(nodes, [2], freeze) for name, nodes in wanted.items()}
    same(result, {"clean": nothing, **by_name}, MADE, sites)


def test_a_condition_that_is_left_out_leaves_the_others_their_nodes():
    """Nobody plays the first condition's role; each of the others is ablated under its own name."""
    wanted = {"head": ["enc-self-1.2"], "mlp": ["dec-mlp-0"]}
    conditions = [{"name": "nobody", "ablate": "$rhs-scanner:any"}]
    conditions += [{"name": name, "ablate": nodes} for name, nodes in wanted.items()]
    result = ask(MODEL, MIXED, kind="compare", conditions=conditions, measures=LOGITS, tensors=SITES)
    same(result, {"clean": nothing, **{name: ablate(nodes) for name, nodes in wanted.items()}}, MADE, SITES)


# Exchanged positions

SWAPS = [
    (["enc-self-0.1.v"], []),
    (["enc-self-0.*.k", "enc-self-1.2.q"], []),
    (["enc-self-0.0.v", "enc-self-1.1.v", "enc-self-2.2.k"], ["dec-cross-1.0.q", "enc-self-1.0.z"]),
    (["enc-mlp-0", "enc-self-2.0.v"], []),
    (["dec-cross-0.2.k", "dec-cross-1.1.v"], []),
    (["enc-self-1.1.v", "dec-cross-1.1.k"], ["dec-cross-1.1.q"]),
]


@pytest.mark.parametrize("places", [[], [2, 3]])
@pytest.mark.parametrize(("ports", "freeze"), SWAPS, ids=lambda x: " ".join(x))
def test_positions_are_exchanged_as_some_ports_see_them(ports: list[str], freeze: list[str], places: list[int]):
    sites = [*SITES, "enc-self-2.0.v", "dec-cross-1.1.k", *freeze]
    keys = {"episodes": {"arity": 2}, "places": places, "freeze": freeze, "measures": LOGITS, "tensors": sites}
    result = ask(MODEL, TWO, kind="position-swap", ports=ports, **keys)
    spread = [p.replace("*", str(head)) for p in ports for head in range(NET.heads if "*" in p else 1)]
    conditions = {"before": nothing, "after": exchange_positions(spread, places, freeze)}
    same(result, conditions, trials(NET, TWO), sites)


# Ablation values

SET = ["enc-self-1.2", "enc-mlp-0", "dec-cross-0.0"]


def ablated_set(episodes=MIXED, split=(), **ablation):
    return ask(MODEL, episodes, split, kind="ablate-set", nodes=SET, measures=LOGITS, tensors=SITES, ablation=ablation)


def standing_in(stand_in, episodes=MIXED) -> list[Trial]:
    made = trials(NET, episodes)
    for trial in made:
        trial.stand_in = stand_in
    return made


@pytest.mark.parametrize("over", ["position", "token"])
def test_means_over_the_episodes_own_tokens(over: str):
    """Of prompts and answers of other lengths in several batches: padding never counts."""
    made = standing_in(by_hand.means(MADE, over))
    same(ablated_set(over=over), {"nothing ablated": nothing, "set ablated": ablate(SET)}, made, SITES)


@pytest.mark.parametrize("over", ["position", "token"])
def test_means_over_a_split(over: str):
    """At positions that no episode of the split reaches, the mean over all its tokens stands in."""
    shown = sorted(of_arity(1, 40, 200), key=lambda e: len(e.prompt))[:5]
    assert max(len(e.prompt) for e in shown) < max(len(e.prompt) for e in MIXED)
    made = standing_in(by_hand.means(trials(NET, shown), over))
    result = ablated_set(split=shown, over=over, reference="train")
    same(result, {"nothing ablated": nothing, "set ablated": ablate(SET)}, made, SITES)
    assert result.provenance.ablation.split(";")[0] == f"mean by {over} over the first 5 train episodes"


def test_a_split_gives_its_first_2000_episodes(monkeypatch: pytest.MonkeyPatch):
    one, other = MIXED[:2]
    given = replace(splits.make_splits(0), validation=(one,) * 2_000 + (other,) * 3)
    monkeypatch.setattr("steer.tasks.compositional.task.make_splits", lambda seed: given)
    asked = build_recipe(kind="ablate-set", nodes=SET, measures=LOGITS, ablation={"reference": "validation"})
    reference = examples_of(asked.recipe, MODEL).inputs.reference
    assert len(reference) == 2_000
    assert all(episode is one for episode in reference)


def test_zeros():
    result = ablated_set(value="zero")
    zero = standing_in(lambda site, clean: torch.zeros_like(clean))
    same(result, {"nothing ablated": nothing, "set ablated": ablate(SET)}, zero, SITES)
    for row, trial in enumerate(zero):  # a site that is ablated and read
        assert not result.tensors["set ablated/enc-self-1.2.z"][row, : len(trial.prompt)].any()


def donors(result) -> list[int]:
    """Whose value each episode was given, found from the value of its first token."""
    before, after = (result.tensors[f"{c}/enc-self-1.2.z"] for c in ("nothing ablated", "set ablated"))
    found = []
    for row in range(len(MIXED)):
        same = [n for n in range(len(MIXED)) if torch.equal(after[row, 0], before[n, 0])]
        assert len(same) == 1
        found += same
    return found


def test_resampling():
    """Everybody has a donor of like length that is not they themselves; its values serve for all that is ablated."""
    drawn, differ = set(), False
    for seed in range(4):
        keys = {"kind": "ablate-set", "nodes": SET, "measures": LOGITS, "tensors": SITES, "seed": seed}
        result = ask(MODEL, MIXED, **keys, ablation={"value": "resample"})
        found = donors(result)
        assert all(row != donor for row, donor in enumerate(found))
        assert sorted(found) == list(range(len(MIXED)))
        by_length = sorted(range(len(MIXED)), key=lambda row: len(MIXED[row].prompt))
        batches = [by_length[n : n + BATCH] for n in range(0, len(MIXED), BATCH)]
        assert all({found[row] for row in batch} == set(batch) for batch in batches)
        differ |= len({tuple(batch.index(found[row]) for row in batch) for batch in batches}) > 1
        made = trials(NET, MIXED)
        for row, donor in enumerate(found):
            made[row].stand_in = of_donor(MADE[donor])
        same(result, {"nothing ablated": nothing, "set ablated": ablate(SET)}, made, SITES)
        drawn.add(tuple(found))
    assert len(drawn) > 1  # the seed decides
    assert differ  # each batch is drawn for itself


@pytest.mark.parametrize("ablation", [{"value": "zero"}, {"over": "token"}], ids=str)
def test_other_values_stand_in_for_sources_too(ablation: dict):
    """Also for positions, whose mean at each position would be the position itself."""
    targets, sources = ["dec-cross-1.2.k"], ["enc.pos", "enc-self-2.1"]
    sites = ["dec-cross-1.2.k", "logits"]
    keys = {"target": targets, "sources": sources, "measures": LOGITS, "tensors": sites, "ablation": ablation}
    zero = ablation.get("value") == "zero"
    made = standing_in((lambda s, clean: torch.zeros_like(clean)) if zero else by_hand.means(MADE, "token"))
    result = ask(MODEL, MIXED, kind="keep-only-one", **keys)
    conditions = {"nothing ablated": nothing, "everything ablated": keep_only_one(targets, None)}
    same(result, conditions | {s: keep_only_one(targets, s) for s in sources}, made, sites)


def test_numbers_do_not_depend_on_what_is_kept_in_memory(monkeypatch: pytest.MonkeyPatch):
    """Nothing fits: every clean run is made again when it is needed."""
    keys = {"kind": "keep-only-one", "target": "dec-cross-1.1.k", "sources": ["enc-self-*.0", "enc-mlp-1"]}
    keys |= {"measures": LOGITS, "tensors": ["dec-cross-1.1.k", "logits"]}
    kept = ask(MODEL, MIXED, **keys)
    monkeypatch.setattr("steer.engine.engine.BUDGET", 0)
    again = ask(MODEL, MIXED, **keys)
    assert kept.rows == again.rows
    assert all(torch.equal(value, again.tensors[name]) for name, value in kept.tensors.items())


def test_numbers_do_not_depend_on_batch_mates():
    """One episode among others, and with the same ablation values alone."""
    shown = of_arity(2, 5, 400)
    together = ablated_set(split=shown, reference="train").tensors
    for row, episode in enumerate(MIXED):
        alone = ablated_set((episode,), shown, reference="train").tensors
        for name, value in alone.items():
            close(together[name][row], value[0])
