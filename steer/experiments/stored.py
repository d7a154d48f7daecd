"""Directions and subspaces from files, held against the model that a recipe is put to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from steer.base.errors import Key, KeyedError
from steer.engine.engine import Engine
from steer.experiments.subspaces import features
from steer.recipe.lowering import Used
from steer.results.provenance import Weights


def check_used(used: Sequence[Used], engine: Engine, weights: Weights) -> None:
    """As many features as each site has; and of these weights, where the features are a head's own."""
    if faults := [fault for one in used for fault in _faults(one, engine, weights)]:
        raise KeyedError(faults)


def _faults(one: Used, engine: Engine, weights: Weights) -> Iterator[tuple[Key, str]]:
    for site in one.sites:
        size = features(engine, site)
        if one.read.size != size:
            yield one.key, f"{one.name} has {one.read.size} features, {site} has {size}"
    heads = [site for site in one.sites if site.node.is_head]
    if heads and _is_foreign(one, weights):
        why = f"was found in other weights ({one.read.about.checkpoint}), whose {heads[0]} has other features"
        yield one.key, f"{one.name} {why}; `steer direction` and `steer align` make it again"


def strangers(used: Sequence[Used], weights: Weights) -> str:
    """What must be said where a direction of a stream was found in other weights."""
    names = dict.fromkeys(f"{one.name} ({one.read.about.checkpoint})" for one in used if _is_foreign(one, weights))
    return f"found in other weights: {', '.join(names)}" if names else ""


def _is_foreign(one: Used, weights: Weights) -> bool:
    known = one.read.about.sha256
    return bool(known and weights.sha256) and known != weights.sha256
