"""Path patching against the recipe's words: sweeps over one source, and chains."""

from __future__ import annotations

import pytest
import torch
from by_hand import ablate_only_one, chained, keep_only_one, nothing, unchanged
from by_hand_net import forward, ids
from small import MIXED, ask, checkpoint, close, net_of, same, trials
from tokens import collate

MODEL = checkpoint()
NET = net_of(MODEL)
MADE = trials(NET, MIXED)
LOGITS = [{"name": "exact-match"}]


def test_the_forward_pass_by_hand_is_the_models():
    for episode in MIXED:
        batch = collate([episode])
        with torch.no_grad():
            theirs = MODEL.transformer(torch.from_numpy(batch.prompt), torch.from_numpy(batch.output))
        close(theirs[0], forward(NET, ids(episode.prompt), ids(("SOS", *episode.answer)), {})["logits"])


SWEEPS = [
    # targets, sources, and the sites that are compared beside the logits
    (["dec-cross-1.2.k"], ["enc-self-*.1", "enc-mlp-1", "enc.tok"], ["dec-cross-1.2.k", "dec-cross-1.2.pattern"]),
    (["dec-cross-0.1.v"], ["enc-self-2.*", "enc-mlp-2"], ["dec-cross-0.1.v", "dec-cross-0.1.out"]),
    (["dec-cross-1.0.q"], ["dec-*.2", "dec-mlp-*", "dec.tok"], ["dec-cross-1.0.q", "dec-cross-1.0.scores"]),
    (["dec-cross-0.2.q"], ["dec-self-0.*"], ["dec-cross-0.2.q"]),
    (["enc-self-2.1.q", "enc-self-2.1.k"], ["enc-self-1.0", "enc-mlp-0"], ["enc-self-2.1.pattern", "enc.memory"]),
    (["enc-self-1.*.v"], ["enc-self-0.*", "enc.tok"], ["enc-self-1.2.v", "enc-self-1.1.out"]),
    (["dec-self-1.2.k", "dec-self-1.0.v"], ["dec-cross-0.*", "dec-mlp-0"], ["dec-self-1.2.k", "dec-self-1.0.v"]),
    (["enc-mlp-1"], ["enc-self-1.*", "enc-mlp-0"], ["enc-mlp-1", "enc-resid-1.post"]),
    (["dec-mlp-1"], ["dec-cross-1.*", "dec-self-1.0", "dec-mlp-0"], ["dec-mlp-1", "dec.final"]),
]


def named(pattern: list[str], names: list[str]) -> list[str]:
    from fnmatch import fnmatchcase

    return [name for text in pattern for name in names if fnmatchcase(name, text)]


def spread(targets: list[str]) -> list[str]:
    return [t.replace("*", str(head)) for t in targets for head in range(NET.heads if "*" in t else 1)]


@pytest.mark.parametrize("kind", ["keep-only-one", "ablate-only-one"])
@pytest.mark.parametrize(("targets", "sources", "sites"), SWEEPS, ids=lambda x: x[0])
def test_a_sweep_over_one_source(kind: str, targets: list[str], sources: list[str], sites: list[str]):
    result = ask(MODEL, MIXED, kind=kind, target=targets, sources=sources, measures=LOGITS, tensors=[*sites, "logits"])
    into = spread(targets)
    swept = named(sources, NET.sources(into[0]))
    by_hand = keep_only_one if kind == "keep-only-one" else ablate_only_one
    conditions = {"nothing ablated": nothing, "everything ablated": keep_only_one(into, None)}
    conditions |= {source: by_hand(into, source) for source in swept}
    assert len(conditions) > 3
    same(result, conditions, MADE, [*sites, "logits"])


@pytest.mark.parametrize("kind", ["keep-only-one", "ablate-only-one"])
def test_places_and_frozen_sites_of_a_sweep(kind: str):
    """Only the named places are patched; what is frozen is clean all the way, whatever lies before it."""
    freeze = ["dec-cross-1.2.q", "dec-mlp-0", "enc-self-2.0.pattern", "dec-self-1.1.out"]
    keys = {"target": "enc-self-1.2.v", "sources": ["enc-self-0.*", "enc-mlp-0"], "places": [2, 5], "freeze": freeze}
    sites = [*freeze, "enc-self-1.2.v", "enc.memory", "logits"]
    result = ask(MODEL, MIXED, kind=kind, measures=LOGITS, tensors=sites, **keys)
    by_hand = keep_only_one if kind == "keep-only-one" else ablate_only_one
    rest = (["enc-self-1.2.v"], [2, 5], freeze)
    conditions = {"nothing ablated": nothing, "everything ablated": keep_only_one(rest[0], None, *rest[1:])}
    for source in (*NET.members("enc-self-0"), "enc-mlp-0"):
        conditions[source] = by_hand(rest[0], source, *rest[1:])
    same(result, conditions, MADE, sites)
    for row, trial in enumerate(MADE):
        close(result.tensors["everything ablated/dec-mlp-0"][row], trial.clean["dec-mlp-0"])
        moved = result.tensors["everything ablated/logits"][row, : len(trial.output)] - trial.clean["logits"]
        assert moved.abs().max() > 1e-3  # the other paths are free


CHAINS = [
    (["dec-cross-1.1.k"], ["enc-self-*.2"]),
    (["enc-self-2.1.k", "dec-cross-1.2.k"], ["enc-self-0.1", "enc-mlp-1"]),
    (["enc-self-1.0.q", "enc-self-2.2.v", "dec-cross-0.1.v"], ["enc-self-0.*"]),
    (["enc-self-1.2.v", "enc-mlp-1", "dec-cross-0.0.k"], ["enc-mlp-0"]),
    (["dec-cross-0.2.v", "dec-mlp-0", "dec-self-1.1.v"], ["enc-self-2.0"]),
]


@pytest.mark.parametrize("mode", ["keep-only-one", "ablate-only-one"])
@pytest.mark.parametrize("others", ["ablated", "clean"])
@pytest.mark.parametrize(("chain", "sources"), CHAINS, ids=lambda x: f"{len(x)} {x[0]}")
def test_a_chain(mode: str, others: str, chain: list[str], sources: list[str]):
    check_chain(chain, sources, mode, others)


def check_chain(chain: list[str], sources: list[str], mode: str, others: str, **keys) -> None:
    places, freeze = keys.get("places", ()), keys.get("freeze", ())
    sites = [chain[-1], *freeze, "logits"]
    asked = {"chain": chain, "sources": sources, "mode": mode, "others": others, **keys}
    result = ask(MODEL, MIXED, kind="chained-patch", measures=LOGITS, tensors=sites, **asked)
    by_hand = keep_only_one if mode == "keep-only-one" else ablate_only_one
    firsts = {source: by_hand(chain[:1], source, places) for source in named(sources, NET.sources(chain[0]))}
    firsts |= {"everything ablated": keep_only_one(chain[:1], None, places)}
    firsts |= {"nothing ablated before the chain": unchanged(chain[0])}
    conditions = {label: chained(chain, first, others, freeze) for label, first in firsts.items()}
    same(result, conditions | {"nothing ablated": nothing}, MADE, sites)


@pytest.mark.parametrize("others", ["ablated", "clean"])
def test_places_and_frozen_sites_of_a_chain(others: str):
    """Places are those of the first link; sites are frozen in each of its runs, before, within and after it."""
    freeze = ["enc-self-1.1.pattern", "dec-cross-0.1.q", "dec-self-1.0.z", "dec-cross-1.1.k"]
    chain = ["enc-self-1.1.v", "enc-self-2.0.k", "dec-cross-0.1.v"]
    check_chain(chain, ["enc-self-0.0", "enc-mlp-0"], "keep-only-one", others, places=[1, 4], freeze=freeze)
