"""From a recipe to a plan. What each kind means is in `kinds/`; this file calls them in order.

Names are checked against the model's layout on the way, what the measures read comes from `measures`, and whether an
edit can change what is measured from `reach`. Every fault is gathered and raised once.
"""

from __future__ import annotations

from collections.abc import Sequence

from steer.anatomy.keyed import KeyedNames
from steer.anatomy.layout import carrier
from steer.anatomy.names import Names
from steer.anatomy.nodes import Site
from steer.base.errors import KeyedError
from steer.measures.measured import check_figures, measured_sites
from steer.plan.plan import NOTHING, Edit, Run, make_plan, written_greedily
from steer.recipe.kinds.chained_patch import chain
from steer.recipe.kinds.one_source import one_at_a_time
from steer.recipe.kinds.position_swap import swap
from steer.recipe.kinds.sets import ablate_set, compare, keep_set
from steer.recipe.kinds.steer import BEFORE, steer
from steer.recipe.lowering import Lowered, Lowering, frozen
from steer.recipe.reach import Reach
from steer.recipe.schema import (
    AblateOnlyOne,
    AblateSet,
    AnswerMeasure,
    ChainedPatch,
    CleanRun,
    Compare,
    KeepOnlyOne,
    KeepSet,
    PositionSwap,
    Recipe,
    Steer,
)  # fmt: skip

CLEAN_CONDITION = "clean"


def lower(recipe: Recipe, model: Names) -> Lowered:
    names = KeyedNames(model)
    measured = measured_sites(recipe, names)
    numbers = tuple(reads.numbers for reads in measured)
    tensors = names.sites(("tensors",), recipe.tensors)
    reads = tuple(dict.fromkeys([*(site for one in measured for site in one.all), *tensors]))
    names.wanted(("measures",), reads)
    freeze = tuple(frozen(site) for site in names.sites(("freeze",), recipe.freeze))
    reach = Reach(names, numbers, tensors, freeze)
    clean, runs = _runs(recipe, Lowering(recipe, names, freeze, reads, reach))
    check_freeze(names, freeze, runs)
    check_figures(recipe, names)
    unmoved = reach.unmoved(runs) if not names.faults else frozenset()
    if names.faults:
        raise KeyedError(names.faults)
    written = _written(recipe, [Run("clean", (), reads, clean), *runs], unmoved, model.layout.logits)
    return Lowered(make_plan(Run("clean", (), reads, clean), [*runs, *written]), unmoved, numbers, clean)


def _runs(recipe: Recipe, lowering: Lowering) -> tuple[str, list[Run]]:
    """The name of the clean condition, and the runs of the others."""
    if not isinstance(recipe, PositionSwap | Steer | CleanRun):
        lowering.check_reference()
    match recipe:
        case KeepOnlyOne() | AblateOnlyOne():
            return NOTHING, one_at_a_time(recipe, lowering)
        case ChainedPatch():
            return NOTHING, chain(recipe, lowering)
        case PositionSwap():
            return BEFORE, swap(recipe, lowering)
        case Steer():
            return BEFORE, steer(recipe, lowering)
        case AblateSet():
            return NOTHING, ablate_set(recipe, lowering)
        case KeepSet():
            return NOTHING, keep_set(recipe, lowering)
        case Compare():
            return CLEAN_CONDITION, compare(recipe, lowering)
        case CleanRun():
            return CLEAN_CONDITION, []


def _written(recipe: Recipe, runs: Sequence[Run], unmoved: frozenset[tuple[str, int]], logits: Site) -> list[Run]:
    """Runs once more with the model's own tokens fed back, where a measure asks for that."""
    answers = [(n, one) for n, one in enumerate(recipe.measures) if isinstance(one, AnswerMeasure)]
    greedy = [number for number, measure in answers if measure.decoding == "greedy"]
    longest = recipe.task.longest_answer + 1  # with the end token
    return [
        written_greedily(run, logits, longest)
        for run in runs
        if run.condition is not None and any((run.condition, number) not in unmoved for number in greedy)
    ]


def check_freeze(names: KeyedNames, freeze: Sequence[Edit], runs: Sequence[Run]) -> None:
    """A site cannot be held at its clean value and edited as well. (A head's `z` and `out` are one.)"""
    edited = {carrier(edit.site) for run in runs for edit in run.edits if edit not in freeze}
    for edit in freeze:
        if carrier(edit.site) in edited:
            names.fault(("freeze",), f"{edit.site} is frozen and edited in one recipe", edit.site)
