"""Things by name: those that come with the package, and those that installed packages offer.

A name stands for `module:object`, which is imported when the name is first used. Other packages add theirs by an entry
point of the registry's group:

    [project.entry-points."steer.tasks"]
    mine = "my_package.task:TASK"
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar, cast

from steer.base.errors import SteerError, unknown

T = TypeVar("T")


class Registry(Generic[T]):
    def __init__(self, group: str, shipped: Mapping[str, str]) -> None:
        """`group`: of entry points, `steer.tasks`; its last word says what a thing is. `shipped`: name -> place."""
        self.group, self.shipped = group, dict(shipped)
        self._loaded: dict[str, T] = {}

    @cached_property
    def places(self) -> Mapping[str, str]:
        """Name -> `module:object`. Two objects of one name are a fault."""
        offered = entry_points(group=self.group)
        named = [*self.shipped.items(), *((point.name, point.value) for point in offered)]
        twice = sorted({name for name, place in named for other in named if other[0] == name and other[1] != place})
        if twice:
            raise SteerError(*(self._offered_twice(name, [p for n, p in named if n == name]) for name in twice))
        return dict(named)

    def _offered_twice(self, name: str, places: list[str]) -> str:
        return f"{self.group}: {name!r} is offered twice, by {' and by '.join(places)}"

    def __getitem__(self, name: str) -> T:
        if name not in self._loaded:
            if name not in self.places:
                raise SteerError(unknown(self.group.rpartition(".")[2].removesuffix("s"), name, list(self)))
            self._loaded[name] = self._load(name)
        return self._loaded[name]

    def _load(self, name: str) -> T:
        point = EntryPoint(name, self.places[name], self.group)
        try:
            return cast(T, getattr(import_module(point.module), point.attr))
        except (ImportError, AttributeError) as error:
            raise SteerError(f"{self.group}: {name!r} cannot be loaded from {point.value}: {error}") from error

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __contains__(self, name: object) -> bool:
        return name in self.places
