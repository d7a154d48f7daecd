"""nnsight without `.save` on every object of the process, and without transformers before somebody needs it.

At import it writes a method of that name into `object` itself. Who imported nnsight before may use it and keeps it;
otherwise it is taken out again at once (`nnsight.save(x)` does the same), so that steer changes nothing of others.
It can only be kept from doing so by a settings file, which is the user's.

It also imports transformers, for no other reason than to be there before that method is: half a second and more.
While it is imported something stands in for transformers, and gives way as soon as a name of the real one is used.
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
