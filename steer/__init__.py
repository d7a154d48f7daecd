"""steer: causal experiments on transformers, stated as recipes.

    import steer

    result = steer.run("keep_one_k", changes={"episodes.count": 200})
    result.frame

Every verb of the command line is a function here, with the same defaults and the same messages (docs/python.md). The
names below are loaded when they are first used, so that `import steer` is quick.
"""

from __future__ import annotations

import sys
from types import FunctionType, ModuleType

TYPE_CHECKING = False  # as in `typing`, which must not be imported before Ctrl-C is handled
if TYPE_CHECKING:
    from typing import Any

    from steer.base.errors import SteerError
    from steer.base.version import __version__
    from steer.discover.api import discover
    from steer.experiments.activations import activations
    from steer.experiments.aligning import align
    from steer.experiments.api import build_recipe, plan, run, run_many, schema, validate
    from steer.experiments.evaluating import evaluate
    from steer.experiments.examining import check, direction, doctor
    from steer.experiments.given import load_checkpoint
    from steer.experiments.importing import import_weights
    from steer.experiments.listing import cp, episodes, ls
    from steer.experiments.looking import ask, attend, attend_all, attribute, component, needed
    from steer.experiments.migrating import migrate
    from steer.experiments.saved import compare, draw, results
    from steer.experiments.training import train
    from steer.paper.api import renumber, reproduce
    from steer.recipe.load import load_recipe
    from steer.results.circuit import load_circuit
    from steer.results.files import read_result
    from steer.tasks import solve

_HOMES = {
    "SteerError": "steer.base.errors",
    "__version__": "steer.base.version",
    "activations": "steer.experiments.activations",
    "align": "steer.experiments.aligning",
    "ask": "steer.experiments.looking",
    "attend": "steer.experiments.looking",
    "attend_all": "steer.experiments.looking",
    "attribute": "steer.experiments.looking",
    "build_recipe": "steer.experiments.api",
    "check": "steer.experiments.examining",
    "compare": "steer.experiments.saved",
    "component": "steer.experiments.looking",
    "cp": "steer.experiments.listing",
    "direction": "steer.experiments.examining",
    "discover": "steer.discover.api",
    "doctor": "steer.experiments.examining",
    "draw": "steer.experiments.saved",
    "episodes": "steer.experiments.listing",
    "evaluate": "steer.experiments.evaluating",
    "import_weights": "steer.experiments.importing",
    "load_checkpoint": "steer.experiments.given",
    "load_circuit": "steer.results.circuit",
    "load_recipe": "steer.recipe.load",
    "ls": "steer.experiments.listing",
    "migrate": "steer.experiments.migrating",
    "needed": "steer.experiments.looking",
    "plan": "steer.experiments.api",
    "read_result": "steer.results.files",
    "renumber": "steer.paper.api",
    "reproduce": "steer.paper.api",
    "results": "steer.experiments.saved",
    "run": "steer.experiments.api",
    "run_many": "steer.experiments.api",
    "schema": "steer.experiments.api",
    "solve": "steer.tasks",
    "train": "steer.experiments.training",
    "validate": "steer.experiments.api",
}
_ROOMS = ("discover", "plan", "results")  # verbs that are the names of rooms as well

__all__ = [
    "SteerError",
    "__version__",
    "activations",
    "align",
    "ask",
    "attend",
    "attend_all",
    "attribute",
    "build_recipe",
    "check",
    "compare",
    "component",
    "cp",
    "direction",
    "discover",
    "doctor",
    "draw",
    "episodes",
    "evaluate",
    "import_weights",
    "load_checkpoint",
    "load_circuit",
    "load_recipe",
    "ls",
    "migrate",
    "needed",
    "plan",
    "read_result",
    "renumber",
    "reproduce",
    "results",
    "run",
    "run_many",
    "schema",
    "solve",
    "train",
    "validate",
]


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'steer' has no attribute {name!r}")
    from importlib import import_module

    return import_module(f"steer.{name}") if name in _ROOMS else _verb(name)


def _verb(name: str) -> Any:
    from importlib import import_module

    verb = getattr(import_module(_HOMES[name]), name)
    if not isinstance(verb, FunctionType):
        return verb
    from steer.base.arguments import checked

    return checked(verb)


class _Room(ModuleType):
    """A room whose name is a verb: `steer.plan` is the package `steer/plan`, and `steer.plan("chain_k")` plans."""

    def __call__(self, *given: Any, **named: Any) -> Any:
        return _verb(self.__name__.rpartition(".")[2])(*given, **named)


class _Package(ModuleType):
    """Python sets a subpackage as an attribute once it is imported: those that are verbs are made so here."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _ROOMS and isinstance(value, ModuleType):
            value.__class__ = _Room
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
