"""What the measures of a recipe read, and whether they make sense for it."""

from __future__ import annotations

from steer.anatomy.keyed import KeyedNames
from steer.base.errors import Key
from steer.measures import MEASURES
from steer.measures.measure import Reads
from steer.recipe.schema import Recipe


def measured_sites(recipe: Recipe, names: KeyedNames) -> list[Reads]:
    """What each measure reads."""
    measured: list[Reads] = []
    for number, measure in enumerate(recipe.measures):
        key: Key = ("measures", number)
        if measure.foresees and not recipe.foretells:
            text = "only a swap, a steer or values of a counterpart have a counterfactual answer"
            names.fault((*key, "against"), text)
        if measure.step_by_step and measure.foresees and not recipe.keeps_length:
            text = "the changed answer may be of another length, so it cannot be compared step by step"
            names.fault((*key, "against"), text)
        reads = measure.reads(names, recipe.task, key)
        for row in reads.rows:
            if any(row in before.rows for before in measured):
                names.fault(key, f"{' '.join(filter(None, row))} is measured twice")
        measured.append(reads)
    return measured


def check_figures(recipe: Recipe, names: KeyedNames) -> None:
    """Note a fault for a figure of something that is not measured: it would be omitted silently."""
    by_site = recipe.goes_from_site_to_site or any(measure.by_site for measure in recipe.measures)
    if "heatmap" in recipe.figure and not by_site:
        text = f"a heatmap is of kinds that go from site to site, or of a logit lens; {recipe.kind} does not"
        names.fault(("figure", recipe.figure.index("heatmap")), text)
    if "dose" in recipe.figure and not recipe.varies:
        text = "a dose is of something that varies: several scales of a direction, several k, or a sweep"
        names.fault(("figure", recipe.figure.index("dose")), text)
    drawn = dict.fromkeys(pair for one in MEASURES for pair in MEASURES[one].figures.items())
    measured = {measure.name for measure in recipe.measures}
    for number, figure in enumerate(recipe.figure):
        for needed in (name for of, name in drawn if of == figure and name not in measured):
            names.fault(("figure", number), f"{figure} draws {needed}, which is not among the measures")
