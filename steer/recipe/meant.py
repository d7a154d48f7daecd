"""What a recipe says and its kind never looks at, and values that stand where they are put already."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from steer.anatomy.keyed import KeyedNames
from steer.anatomy.nodes import Site
from steer.base.errors import Key
from steer.recipe.lowering import Lowering
from steer.recipe.schema import Recipe


def check_unused(recipe: Recipe, names: KeyedNames) -> None:
    """Note a fault for every key that changes nothing: its number would be read as if it did."""
    said = recipe.model_fields_set
    if "ablation" in said and not recipe.ablates:
        names.fault(("ablation",), f"it says what stands in for ablated values; {recipe.kind} has none")
    elif recipe.ablation.mlps == "recomputed" and not recipe.by_paths:
        text = f"{recipe.kind} changes the whole pass, in which MLPs read the changed stream anyway"
        names.fault(("ablation", "mlps"), text)
    if recipe.places and not recipe.takes_places:
        names.fault(("places",), f"{recipe.kind} edits nothing at them; an edit's own `places` say where it is made")
    if recipe.freeze and not recipe.edits:
        names.fault(("freeze",), f"{recipe.kind} edits nothing: every site has its clean value")


def differing(said: Any, lowering: Lowering, key: Key, sites: Sequence[Site]) -> list[Site]:
    """The sites at which an edit puts another value. A plain name is a fault, a glob means those that differ."""
    wanted = said.ablate or getattr(said, "from") or (said.project and said.project.inside)
    if wanted == "counterpart":
        return lowering.differing(key, sites, lambda site: site)
    if wanted not in ("mean", "resample"):
        return list(sites)
    kept = [site for site in sites if not lowering.layout.is_fixed_at(site)]
    for site in sites:
        if site not in kept and (not kept or lowering.names.is_single(key, site)):
            text = f"{site} is the same in every episode, so that {wanted} leaves it as it is; zero does not"
            lowering.names.fault(key, text, site)
    return kept
