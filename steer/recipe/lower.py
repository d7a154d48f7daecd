"""From a recipe to a plan. What each kind means is in `kinds/`; this file calls the stages in order.

Names are checked against the model's layout on the way, what the measures read is theirs to say, and whether an
edit can change what is measured comes from `reach`. Every fault is gathered and raised once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from steer.anatomy.keyed import KeyedNames
from steer.anatomy.layout import carrier
from steer.anatomy.names import Names
from steer.anatomy.nodes import Site
from steer.base.errors import KeyedError
from steer.plan.plan import CLEAN, Edit, Run, make_plan
from steer.plan.runs import written_greedily
from steer.recipe.edits import frozen
from steer.recipe.lowering import Lowered, Lowering
from steer.recipe.meant import check_unused
from steer.recipe.measured import check_figures, measured_sites
from steer.recipe.reach import Reach
from steer.recipe.schema import Recipe


def lower(recipe: Recipe, model: Names, lengths: Mapping[str, int] | None = None, folder: Path = Path()) -> Lowered:
    """`lengths`: how many places each sequence of the model has in every example, once these are known. `folder`: that
    the files which the recipe names are relative to."""
    names = KeyedNames(model)
    measured = measured_sites(recipe, names)
    numbers = tuple(reads.numbers for reads in measured)
    tensors = names.sites(("tensors",), recipe.tensors)
    reads = tuple(dict.fromkeys([*(site for one in measured for site in one.all), *tensors]))
    names.wanted(("measures",), reads)
    freeze = tuple(frozen(site) for site in names.sites(("freeze",), recipe.freeze))
    reach = Reach(names, numbers, tensors, freeze)
    lowering = Lowering(recipe, names, freeze, reads, reach, lengths, folder)
    check_unused(recipe, names)
    lowering.check_ablation()
    runs = recipe.runs(lowering)
    check_freeze(names, freeze, runs)
    check_figures(recipe, names)
    unmoved = reach.unmoved(runs) if not names.faults else frozenset()
    if names.faults:
        raise KeyedError(names.faults)
    clean = Run(CLEAN, (), reads, recipe.clean_name, end=recipe.clean_end)
    written = _written(recipe, [clean, *runs], unmoved, model.layout.logits)
    return Lowered(
        make_plan(clean, [*runs, *written]),
        unmoved,
        numbers,
        recipe.clean_name,
        lowering.stored,
        tuple(lowering.searches),
        tuple(lowering.used),
    )


def _written(recipe: Recipe, runs: Sequence[Run], unmoved: frozenset[tuple[str, int]], logits: Site) -> list[Run]:
    """Runs once more with the model's own tokens fed back, where a measure asks for that."""
    greedy = [number for number, measure in enumerate(recipe.measures) if measure.decodes]
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
