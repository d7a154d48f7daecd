"""nnsight without `.save` on every object of the process, and without transformers before somebody needs it.

When it is imported, nnsight adds this method to `object` itself. A program that imported nnsight before steer may use
the method, and keeps it. Otherwise the method is removed at once (`nnsight.save(x)` does the same), so that importing
steer does not change other code. nnsight can only be configured otherwise in a settings file, which is the user's.

It also imports transformers, for no other reason than to have it loaded before that method is added: half a second and
more. While nnsight is imported, something stands in for transformers; it gives way when a name of the real one is used.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any

HEAVY = "transformers"
theirs = "nnsight" in sys.modules


class StandIn(ModuleType):
    """A module that is imported when one of its names is asked for."""

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(import_module(self.__name__), name)


@contextmanager
def put_off(name: str) -> Iterator[None]:
    """In this block, whoever imports a module that is not there yet gets a stand-in."""
    if name in sys.modules:
        yield
        return
    stand_in = sys.modules[name] = StandIn(name)
    try:
        yield
    finally:
        if sys.modules.get(name) is stand_in:
            del sys.modules[name]


with put_off(HEAVY):
    from nnsight import NNsight
    from nnsight._c import unmount

__all__ = ["NNsight"]

if not theirs and hasattr(object, "save"):
    unmount("save")
