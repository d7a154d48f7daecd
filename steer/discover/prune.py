"""The smallest set of heads that does the task by itself, and how far it can be trusted.

Heads outside the set are mean-ablated in the whole forward pass; MLPs and embeddings stay. Search goes from all heads
downwards: the head whose loss costs the right answer the least likelihood goes first, several at a time while accuracy
allows it. Sets are chosen on one list of episodes and judged on another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from steer.anatomy.nodes import Node
from steer.discover.lab import Lab
from steer.results.evidence import Completeness, Estimate, GroupedSpread, Kept, KeptAttention, SmallestSet, Spread

KEEP = 0.92  # of the clean exact match; a little more than is reported, because the search overfits its episodes
RANDOM = 20  # circuits of the same size drawn at random
Tell = Callable[[str], None]
Ablated = tuple[str, int | Node | None]  # what is left, or what is taken out; which of several
CIRCUIT, WITHOUT, NOTHING = ("circuit", None), ("without", None), ("nothing", None)


@dataclass(frozen=True)
class Pruned:
    """The smallest set that was found, and the accuracy at each size on the way."""

    curve: list[tuple[int, float]]  # heads kept, exact match on the search's episodes
    core: list[Node]


def prune(lab: Lab, keep: float = KEEP, tell: Tell = lambda text: None) -> Pruned:
    heads, gone = list(lab.layout.heads), []  # type: tuple[list[Node], list[Node]]
    clean = lab.mean(lab.clean(lab.exact(), 1))
    curve, core, step = [(len(heads), clean)], list(heads), len(heads) // 4
    while heads:
        tell(f"{len(heads)} heads left")
        losses = _losses(lab, heads, gone)
        cheapest = sorted(heads, key=losses.__getitem__)
        taken = cheapest[:step]
        accuracy = _accuracy(lab, [*gone, *taken])
        while (
            accuracy < keep * clean and len(taken) > 1 and core == heads
        ):  # too many at once: try fewer, cheapest first
            taken = taken[: len(taken) // 2]
            accuracy = _accuracy(lab, [*gone, *taken])
        gone, heads = [*gone, *taken], [head for head in heads if head not in taken]
        curve.append((len(heads), accuracy))
        if accuracy >= keep * clean:
            core, step = list(heads), max(1, len(taken))
        else:  # below the limit, only the curve is still of interest
            step = max(1, len(heads) // 6)
    return Pruned(curve, core)


def _losses(lab: Lab, heads: Sequence[Node], gone: Sequence[Node]) -> dict[Node, float]:
    """How much likelihood the right answer loses when each head is ablated besides those already gone."""
    runs = [lab.ablating(str(head), [*gone, head]) for head in heads]
    tallies = lab.measure(runs, lab.likelihood()[0], 1)
    return {head: -lab.mean(tallies[str(head)]) for head in heads}


def _accuracy(lab: Lab, gone: list[Node]) -> float:
    (tally,) = lab.accuracy_without({"": gone}).values()
    return lab.mean(tally)


def judge(lab: Lab, core: Sequence[Node], seed: int = 0, attention: KeptAttention | None = None) -> SmallestSet:
    """Faithfulness, completeness and minimality of a set of heads, beside random sets of its size."""
    heads, rng = lab.layout.heads, np.random.default_rng(seed)
    clean = lab.clean(lab.exact(), 1)
    outside = [head for head in heads if head not in core]
    drawn = [{heads[i] for i in rng.choice(len(heads), len(core), replace=False)} for _ in range(RANDOM)]
    # Small ones: without half of the circuit nothing is left of the task, and two zeros agree.
    sizes: list[int] = rng.integers(1, min(5, len(core)) + 1, RANDOM).tolist() if core else []
    subsets = [[core[i] for i in rng.choice(len(core), size, replace=False)] for size in sizes]
    ablated: dict[Ablated, Sequence[Node]] = {CIRCUIT: outside, WITHOUT: list(core), NOTHING: list(heads)}
    ablated |= {("random", n): [head for head in heads if head not in some] for n, some in enumerate(drawn)}
    ablated |= {("without random", n): [head for head in heads if head in some] for n, some in enumerate(drawn)}
    ablated |= {("circuit less", n): [*outside, *subset] for n, subset in enumerate(subsets)}
    ablated |= {("model less", n): subset for n, subset in enumerate(subsets)}
    ablated |= {("circuit less", head): [*outside, head] for head in core}
    tallies = lab.accuracy_without(ablated)
    share = {key: lab.share_of(tally, clean) for key, tally in tallies.items()}
    less = [(share["circuit less", n].value, share["model less", n].value) for n in range(len(subsets))]
    return SmallestSet(
        heads=len(core),
        clean=lab.estimate(clean),
        faithfulness=lab.kept(tallies[CIRCUIT], clean),
        random_circuits=_spreads([lab.kept(tallies["random", n], clean) for n in range(RANDOM)]),
        everything_ablated=share[NOTHING],
        model_without_circuit=share[WITHOUT],
        model_without_random=_spread([share["without random", n] for n in range(RANDOM)]),
        completeness=_completeness(less) if less else None,
        minimality={str(h): _round(share[CIRCUIT].value - share["circuit less", h].value) for h in core},
        output_attention=attention,
    )


def _completeness(less: Sequence[tuple[float, float]]) -> Completeness:
    """From what circuit and model keep without each subset."""
    gaps = [abs(circuit - model) for circuit, model in less]
    keeps = _round(np.mean([model for _, model in less]))
    return Completeness(
        subsets=len(less), mean_gap=_round(np.mean(gaps)), max_gap=_round(np.max(gaps)), model_keeps=keeps
    )


def needed_mlps(lab: Lab) -> dict[str, Kept]:
    """The whole model without each MLP: circuits are sets of heads, and keep all of them."""
    clean = lab.clean(lab.exact(), 1)
    tallies = lab.accuracy_without({str(node): [node] for node in lab.layout.mlps})
    return {name: lab.kept(tally, clean) for name, tally in tallies.items()}


def _spreads(shares: Sequence[Kept]) -> GroupedSpread:
    """The spread over all questions and, beside it, over each group of them."""
    groups = {name: _spread([share.groups[name] for share in shares]) for name in shares[0].groups}
    return GroupedSpread(**dict(_spread(shares)), groups=groups)


def _spread(shares: Sequence[Estimate]) -> Spread:
    values = [share.value for share in shares]
    return Spread(mean=_round(np.mean(values)), min=_round(np.min(values)), max=_round(np.max(values)))


def _round(value: object) -> float:
    return round(float(value), 4)  # type: ignore[arg-type]
