"""An experiment done part by part, in any order and some parts twice: the rows must be those of the whole."""

from __future__ import annotations

import pickle
import random
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from steer.experiments.experiment import Experiment, Gathering, merged
from steer.experiments.one import finished
from steer.models.subject import Subject
from steer.recipe.load import Loaded
from steer.results.result import Result
from steer.results.rows import Row

NUMBERS = ("value", "low", "high", "chance")
ANSWERS = [{"name": "exact-match", "decoding": "greedy"}, {"name": "token-accuracy"}, {"name": "answer-probability"}]
LOOKS = [
    {"name": "attention-accuracy", "heads": ["dec-cross-1.*"]},
    {"name": "attention-mass", "heads": ["dec-cross-1.0"], "definition": "authors"},
    {"name": "attention-pattern", "heads": ["dec-cross-1.0"], "episode": 2},
]
WRITES = [{"name": "logit-attribution"}, {"name": "logit-attribution", "definition": "authors"}]
CARRIES = [
    {"name": "r-squared", "site": "dec-cross-1.0.z", "label": "relative-index", "tokens": "steps"},
    {"name": "ov-alignment", "heads": ["dec-cross-1.0"]},
]
# Every way in which numbers come about: means by position and by token, another's values, none; every measure.
RECIPES: dict[str, dict[str, Any]] = {
    "mean": {"kind": "keep-only-one", "target": "dec-cross-1.0.k", "sources": "enc-self-2.*", "measures": LOOKS},
    "reference": {
        "kind": "ablate-set", "nodes": ["enc-self-1.*", "enc-mlp-1"], "measures": [*ANSWERS, *WRITES],
        "ablation": {"value": "mean", "over": "token", "reference": "validation"},
    },
    "padded": {
        "kind": "ablate-only-one", "target": "dec-cross-1.0.k", "sources": ["enc-self-2.0", "enc-self-2.1"],
        "measures": LOOKS[:1], "ablation": {"value": "mean", "over": "padded", "reference": "validation"},
    },
    "resample": {
        "kind": "ablate-only-one", "target": "dec-cross-1.0.q", "sources": "dec-self-*.*", "measures": LOOKS,
        "ablation": {"value": "resample"},
    },
    "keep-set": {
        "kind": "keep-set", "nodes": ["enc-self-*.1", "dec-cross-*.*"], "within": "heads-and-mlps",
        "measures": [*ANSWERS, *CARRIES],
    },
    "chain": {
        "kind": "chained-patch", "sources": "enc-self-0.*", "chain": ["enc-self-1.2.v", "dec-cross-1.0.k"],
        "tensors": ["dec-cross-1.0.k"], "measures": LOOKS[:1],
    },
    "swap": {"kind": "position-swap", "ports": "enc-self-1.2.v", "freeze": "dec-cross-1.0.q", "measures": ANSWERS},
}  # fmt: skip


def in_parts(loaded: Loaded, subject: Subject, seed: int = 0, again: int = 2) -> Result:
    """Every part by an experiment of its own, sent as workers send; `again`: parts that are done twice."""
    rng, one = random.Random(seed), Experiment(loaded, subject)
    cut = one.cut()
    first = {number: sent(one.average(*cut.first[number])) for number in _shuffled(range(len(cut.first)), rng)}
    averages = merged(first[number] for number in sorted(first)) if first else None
    found: dict[int, Gathering] = {}
    worker = Experiment(loaded, subject)  # another, which does one part after the other
    numbers = _shuffled([*range(len(cut.parts)), *rng.choices(range(len(cut.parts)), k=again)], rng)
    for number in numbers:
        found[number] = sent(worker.gather(cut.parts[number], averages))
    assert len(cut.parts) > 3
    worker.merge(found[number] for number in sorted(found))
    return finished(worker, 0.0)


def sent(thing: Any) -> Any:
    return pickle.loads(pickle.dumps(thing))


def _shuffled(things: Iterable[Any], rng: random.Random) -> list[Any]:
    mixed = list(things)
    rng.shuffle(mixed)
    return mixed


def assert_same_rows(one: list[Row], two: list[Row], tolerance: float = 1e-6) -> None:
    """The same rows in the same order, intervals included."""
    assert len(one) == len(two) > 0
    for mine, theirs in zip(one, two, strict=True):
        first, second = asdict(mine), asdict(theirs)
        for name in NUMBERS:
            a, b = first.pop(name), second.pop(name)
            assert (a is None and b is None) or abs(a - b) <= tolerance, (name, mine, theirs)
        assert first == second


def scheduler(port: int = 0):
    """A cluster of somebody else's, in this process: its scheduler's address is all that a command knows of it."""
    from distributed import LocalCluster

    return LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, protocol="tcp", host="127.0.0.1", scheduler_port=port,
        dashboard_address="127.0.0.1:0", silence_logs=50,
    )  # fmt: skip
