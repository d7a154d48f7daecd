"""steer: causal experiments on transformers, stated as recipes.

    import steer

    result = steer.run(steer.load_recipe("keep_one_k", "episodes.count=200"))
    result.frame

The names below are loaded when they are first used, so that `import steer` is quick.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as in `typing`, which must not be imported before Ctrl-C is handled
if TYPE_CHECKING:
    from typing import Any

    from steer.base.errors import SteerError
    from steer.base.version import __version__
    from steer.experiments.api import build_recipe, run
    from steer.models.checkpoint import load_checkpoint
    from steer.recipe.load import load_recipe
    from steer.results.files import read_result
    from steer.tasks import solve

_HOMES = {
    "SteerError": "steer.base.errors",
    "__version__": "steer.base.version",
    "build_recipe": "steer.experiments.api",
    "run": "steer.experiments.api",
    "load_recipe": "steer.recipe.load",
    "load_checkpoint": "steer.models.checkpoint",
    "read_result": "steer.results.files",
    "solve": "steer.tasks",
}

__all__ = [
    "SteerError",
    "__version__",
    "build_recipe",
    "load_checkpoint",
    "load_recipe",
    "read_result",
    "run",
    "solve",
]


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'steer' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
