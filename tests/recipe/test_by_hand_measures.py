"""What each measure reads and counts, against plain loops over the episodes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from by_hand import ablate, keep_only_one, nothing
from by_hand_net import ids
from by_hand_task import labelled
from small import MIXED, TWO, ask, checkpoint, mass, net_of, of_arity, table, trials, values

from steer.measures.explained import explained
from steer.results.details import Histogram, Pattern, Scatter
from steer.tasks.compositional.vocabulary import COLOURS, TOKENS

MODEL = checkpoint(3)
NET = net_of(MODEL)
EPISODES = (*MIXED, *TWO[:3])
MADE = trials(NET, EPISODES)
OFF = ["enc-self-1.1", "dec-self-0.2", "dec-cross-0.1"]
ABLATED = {"kind": "ablate-set", "nodes": OFF}
CONDITIONS = {"nothing ablated": nothing, "set ablated": ablate(OFF)}


def seen(condition) -> list:
    return [trial.run(condition(trial)) for trial in MADE]


def near(found: dict[str, float], wanted: dict[str, float]) -> None:
    assert found == pytest.approx(wanted, rel=0, abs=1e-10)


def test_attention_at_the_colour_that_comes_next():
    heads = ["dec-cross-0.2", "dec-cross-1.1"]
    measures = [{"name": f"attention-{what}", "heads": heads} for what in ("accuracy", "mass")]
    result = ask(MODEL, EPISODES, **ABLATED, measures=measures)
    for name, condition in CONDITIONS.items():
        runs = seen(condition)
        for head in heads:
            hits, looked = [], []
            for e, run in zip(EPISODES, runs, strict=True):
                pattern = run[f"{head}.pattern"]
                hits.append([float(e.prompt[int(pattern[n].argmax())] == c) for n, c in enumerate(e.answer)])
                looked.append(mass(pattern, e.prompt, e.answer))
            near(values(result, measure="attention-accuracy", of=head)[name], table(hits))
            near(values(result, measure="attention-mass", of=head)[name], table(looked))
    for row in result.rows:
        step = row.position
        counted = [len(e.answer) if step is None else len(e.answer) >= step for e in EPISODES]
        assert (row.counted, row.examples) == (sum(counted), len(EPISODES))


def test_a_sweep_that_stops_at_the_head_it_measures():
    """Only attention is read, so that the runs start and end midway."""
    target, sources = ["dec-cross-0.1.k"], ["enc-self-2.0", "enc-mlp-0", "enc.tok"]
    keys = {"kind": "keep-only-one", "target": target, "sources": sources}
    result = ask(MODEL, EPISODES, **keys, measures=[{"name": "attention-mass", "heads": "dec-cross-0.1"}])
    conditions = {"nothing ablated": nothing, "everything ablated": keep_only_one(target, None)}
    conditions |= {source: keep_only_one(target, source) for source in sources}
    for name, condition in conditions.items():
        runs = zip(EPISODES, seen(condition), strict=True)
        looked = [mass(run["dec-cross-0.1.pattern"], e.prompt, e.answer) for e, run in runs]
        near(values(result, measure="attention-mass")[name], table(looked))


# Logit attribution


def attributed(run, clean, episode) -> dict[str, list[float]]:
    """Each writer's share of the right colour's logit above the mean colour's; LayerNorm's scale is the clean one."""
    gain, unembed = NET.weights["ln_dec.weight"], NET.weights["unembed.weight"]
    end = f"dec-resid-{NET.decoder_layers - 1}.post"
    mean_colour = unembed[ids(COLOURS)].mean(0)
    shares: dict[str, list[float]] = {}
    writers = ["dec.tok", "dec.pos", *(m for block in NET.blocks("dec") for m in NET.members(block))]
    for step, colour in enumerate(episode.answer):
        scale = (clean[end][step].var(unbiased=False) + 1e-5).sqrt()
        direction = unembed[TOKENS.index(colour)] - mean_colour
        for writer in writers:
            write = run[f"{writer}.out" if f"{writer}.out" in run else writer][step]
            share = ((write - write.mean()) / scale * gain) @ direction
            shares.setdefault(writer, []).append(float(share))
    return shares


def test_shares_of_the_logit():
    """Under an ablation too the scale is the clean run's: who stands before it keeps their share."""
    result = ask(MODEL, EPISODES, kind="ablate-set", nodes=OFF[1:], measures=[{"name": "logit-attribution"}])
    for name, condition in {"nothing ablated": nothing, "set ablated": ablate(OFF[1:])}.items():
        lines: dict[str, list[list[float]]] = {}
        for e, trial, run in zip(EPISODES, MADE, seen(condition), strict=True):
            for writer, share in attributed(run, trial.clean, e).items():
                lines.setdefault(writer, []).append(share)
        assert len(lines) == 2 + 2 * (2 * NET.heads + 1)
        for writer, shares in lines.items():
            near(values(result, of=writer)[name], table(shares))


def test_shares_and_the_constant_sum_to_the_relative_logit():
    result = ask(MODEL, EPISODES, kind="clean", measures=[{"name": "logit-attribution"}])
    total: dict[str, float] = {}
    for row in result.rows:
        place = "all" if row.position is None else str(row.position)
        total[place] = total.get(place, 0) + row.value
    lines = []
    for e, trial in zip(EPISODES, MADE, strict=True):
        logits = trial.clean["logits"]
        among = logits[:, ids(COLOURS)].mean(1)
        lines.append([float(logits[n, TOKENS.index(c)] - among[n]) for n, c in enumerate(e.answer)])
    near(total, table(lines))


# Activations and labels


@pytest.mark.parametrize(
    ("site", "label", "tokens"),
    [
        ("enc-self-2.1.k", "index-in-question", "symbols"),
        ("enc-self-1.1.z", "index-in-question", "symbols"),  # the very site that is ablated
        ("dec-cross-1.2.v", "index-in-question", "colours"),
        ("enc-resid-1.post", "index-in-question", "colours"),
        ("dec-cross-1.2.q", "relative-index", "steps"),
        ("dec-self-1.0.out", "relative-index", "steps"),
        ("dec-resid-1.cross", "relative-index", "steps"),
    ],
)
def test_variance_that_a_label_explains(site: str, label: str, tokens: str):
    episodes = TWO + of_arity(2, 6, 100)
    measure = {"name": "r-squared", "site": site, "label": label, "tokens": tokens}
    result = ask(MODEL, episodes, kind="ablate-set", nodes=OFF[:1], episodes={"arity": 2}, measures=[measure])
    made = trials(NET, episodes)
    panels = result.of_kind(Scatter)
    for row, panel, condition in zip(result.rows, panels, (nothing, ablate(OFF[:1])), strict=True):
        points, labels, owners = [], [], []
        for number, (e, trial) in enumerate(zip(episodes, made, strict=True)):
            value = trial.run(condition(trial))[site]
            for place, one in labelled(e.prompt, label, tokens):
                points.append(value[place].numpy())
                labels.append(one)
                owners.append(number)
        whole, kinds = np.array(points), np.array(labels)
        assert len(set(labels)) > 1
        rest = sum(((whole[kinds == k] - whole[kinds == k].mean(0)) ** 2).sum() for k in set(labels))
        assert row.value == pytest.approx(1 - rest / ((whole - whole.mean(0)) ** 2).sum(), abs=1e-10)
        assert row.counted == len(points)
        assert panel.labels == tuple({1: "1st", 2: "2nd", 3: "3rd"}[one] for one in labels)  # as the episodes come
        # Interval and null are drawn in the order of the episodes, whatever their batches.
        drawn = explained(whole, kinds, np.array(owners), seed=0)
        assert (row.low, row.high, row.chance) == pytest.approx((drawn.low, drawn.high, drawn.null), abs=1e-10)


# What a head would copy


def test_what_one_head_would_copy_from_the_colours():
    heads = ["dec-cross-0.1", "dec-cross-1.2", "dec-cross-1.0"]
    keys = {"kind": "ablate-set", "nodes": OFF[:1], "measures": [{"name": "ov-alignment", "heads": heads}]}
    result = ask(MODEL, EPISODES, **keys)
    for name, condition in {"nothing ablated": nothing, "set ablated": ablate(OFF[:1])}.items():
        runs = seen(condition)
        for head in heads:
            own, others = [], []
            for e, run in zip(EPISODES, runs, strict=True):
                copied = NET.write(head, NET.project(f"{head}.v", run["enc.memory"]))
                products = copied @ NET.weights["unembed.weight"].T
                for place, token in enumerate(e.prompt):
                    if token in COLOURS:
                        own.append(float(products[place, TOKENS.index(token)]))
                        others.append([float(p) for n, p in enumerate(products[place]) if n != TOKENS.index(token)])
            above = np.mean(np.array(own) > np.percentile(others, 97.5))
            wanted = {("ov-alignment", "own row"): np.mean(own), ("ov-alignment", "other rows"): np.mean(others)}
            wanted[("ov-above-null", "other rows")] = above
            for (measure, against), value in wanted.items():
                near(values(result, measure=measure, of=head, against=against)[name], {"all": float(value)})
            (told,) = [a for a in result.of_kind(Histogram) if (a.condition, a.head) == (name, head)]
            assert told.tokens == sum(token in COLOURS for e in EPISODES for token in e.prompt) == len(own)
            assert told.own.mean == pytest.approx(np.mean(own), abs=1e-10)


# Attention from token to token


@pytest.mark.parametrize("number", [0, 5])
def test_the_pattern_of_one_episode(number: int):
    heads = ["enc-self-1.2", "dec-self-1.1", "dec-cross-1.2"]
    keys = {**ABLATED, "nodes": "enc-self-0.1", "figure": "patterns"}
    result = ask(MODEL, EPISODES, **keys, measures=[{"name": "attention-pattern", "heads": heads, "episode": number}])
    trial, episode = MADE[number], EPISODES[number]
    found = iter(result.of_kind(Pattern))
    for name, condition in {"nothing ablated": nothing, "set ablated": ablate(["enc-self-0.1"])}.items():
        run = trial.run(condition(trial))
        for head in heads:
            told = next(found)
            said = ("SOS", *episode.answer)
            assert (told.condition, told.head) == (name, head)
            assert told.keys == (said if head.startswith("dec-self") else episode.prompt)
            assert told.queries == (episode.prompt if head.startswith("enc") else said)
            np.testing.assert_allclose(told.weights, run[f"{head}.pattern"], rtol=0, atol=6e-5)
    assert next(found, None) is None


# Tensors


def test_a_saved_tensors_rows_are_the_episodes():
    """Every site that has a name; several batches, each sorted by length, go back to the order of the episodes."""
    sites = list(MADE[0].clean)
    result = ask(MODEL, EPISODES, kind="clean", measures=[{"name": "exact-match"}], tensors=sites)
    lengths = [len(e.prompt) for e in EPISODES]
    assert lengths != sorted(lengths)
    for site in sites:
        whole = result.tensors[f"clean/{site}"]
        assert len(whole) == len(EPISODES)
        assert whole.dtype == torch.float64
        for row, trial in enumerate(MADE):
            wanted = trial.clean[site]
            part = whole[row][tuple(slice(n) for n in wanted.shape)]
            torch.testing.assert_close(part, wanted, rtol=0, atol=1e-10)


def test_a_plot_of_some_points_gives_each_its_own_label():
    """More points than are drawn: each drawn one is found again among all of them, by its place in the plane."""
    episodes, site = of_arity(2, 330), "enc-resid-0.post"
    measure = {"name": "r-squared", "site": site, "label": "index-in-question", "tokens": "colours"}
    keys = {"kind": "clean", "measures": [measure], "tensors": site, "episodes": {"arity": 2}}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("small.BATCH", 250)
        result = ask(checkpoint(3), episodes, **keys)
    places = [
        (row, *found) for row, e in enumerate(episodes) for found in labelled(e.prompt, "index-in-question", "colours")
    ]
    whole = np.array([result.tensors[f"clean/{site}"][row, place].numpy() for row, place, _ in places])
    whole -= whole.mean(0)
    plane = whole @ np.linalg.svd(whole, full_matrices=False)[2][:2].T
    (panel,) = result.of_kind(Scatter)
    assert len(panel.labels) < len(places)
    drawn = np.column_stack([panel.x, panel.y])
    # A component's sign means nothing.
    nearest = np.abs(np.abs(drawn)[:, None] - np.abs(plane)[None]).sum(-1).argmin(1)
    names = {1: "1st", 3: "3rd"}
    same = [names[places[n][2]] == label for n, label in zip(nearest, panel.labels, strict=True)]
    assert np.mean(same) > 0.98
    for number, name in names.items():  # a centre is the mean of all points, drawn or not
        centre = np.abs(plane[[label == number for *_, label in places]].mean(0))
        np.testing.assert_allclose(np.abs(panel.centres[name]), centre, rtol=1e-3)


def test_another_seed_draws_other_intervals_of_the_same_numbers():
    keys = {"kind": "clean", "measures": [{"name": "logit-attribution", "components": "dec-cross-1.*"}]}
    one, again, other = (ask(MODEL, TWO, **keys, seed=seed).rows for seed in (0, 0, 1))
    assert one == again
    assert [row.value for row in one] == [row.value for row in other]
    assert all((a.low, a.high) != (b.low, b.high) for a, b in zip(one, other, strict=True) if a.position is None)
