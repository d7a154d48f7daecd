"""From a recipe to its plan, and the runs of a session that are not written greedily."""

from __future__ import annotations

from rig import NAMES
from tokens import RECIPE

from steer.engine.session import RunOnBatch, Session
from steer.plan.plan import Plan
from steer.recipe.lower import lower


def plan_of(recipe: dict) -> Plan:
    return lower(RECIPE.validate_python(recipe), NAMES).plan


def forced(found: Session) -> list[RunOnBatch]:
    return [one for one in found if one.written is None]
