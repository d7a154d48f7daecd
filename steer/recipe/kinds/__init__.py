"""The kinds of experiments by name, a file each: its keys in a recipe, and the runs that they stand for."""

from __future__ import annotations

from steer.base.registry import Registry
from steer.recipe.schema import Recipe

KINDS: Registry[type[Recipe]] = Registry(
    "steer.kinds",
    {
        "keep-only-one": "steer.recipe.kinds.one_source:KeepOnlyOne",
        "ablate-only-one": "steer.recipe.kinds.one_source:AblateOnlyOne",
        "chained-patch": "steer.recipe.kinds.chained_patch:ChainedPatch",
        "position-swap": "steer.recipe.kinds.position_swap:PositionSwap",
        "chained-swap": "steer.recipe.kinds.chained_swap:ChainedSwap",
        "steer": "steer.recipe.kinds.steer:Steer",
        "activation-patch": "steer.recipe.kinds.activation_patch:ActivationPatch",
        "intervene": "steer.recipe.kinds.intervene:Intervene",
        "align": "steer.recipe.kinds.align:Align",
        "ablate-set": "steer.recipe.kinds.ablate_set:AblateSet",
        "ablate-each": "steer.recipe.kinds.ablate_each:AblateEach",
        "keep-set": "steer.recipe.kinds.keep_set:KeepSet",
        "compare": "steer.recipe.kinds.compare:Compare",
        "clean": "steer.recipe.kinds.clean:CleanRun",
    },
)
