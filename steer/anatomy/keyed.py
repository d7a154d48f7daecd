"""Names in a document, looked up in a model. A fault is noted with its key; the loader finds its line and column."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from steer.anatomy.layout import Layout
from steer.anatomy.names import Names
from steer.anatomy.nodes import Node, Site
from steer.anatomy.patterns import Glob, is_single
from steer.base.errors import Key, SteerError

T = TypeVar("T")


@dataclass
class KeyedNames:
    """A model's names, and the faults noted so far."""

    names: Names
    faults: list[tuple[Key, str]] = field(default_factory=list)
    keys: dict[tuple[Key, Any], Key] = field(default_factory=dict)  # (list, thing) -> the entry that named the thing
    single: set[tuple[Key, Any]] = field(default_factory=set)  # things that were named one by one, not by a glob

    @property
    def layout(self) -> Layout:
        return self.names.layout

    def fault(self, key: Key, text: str, thing: Any = None) -> None:
        """Note a fault at this key; with a `thing`, at the entry of the key's list that named it."""
        self.faults.append((self.keys.get((key, thing), key), text))

    def each(self, key: Key, texts: Iterable[str], read: Callable[[str], list[T]]) -> list[T]:
        """The things that a list of names stands for, each once. Names that cannot be read are noted as faults."""
        all_things: list[T] = []
        for number, text in enumerate(texts):
            try:
                things = read(text)
            except SteerError as error:
                self.faults += [((*key, number), fault) for fault in error.faults]
                continue
            all_things += things
            self.keys |= {(key, thing): (*key, number) for thing in things}
            if is_single(self.names.spelled(text)):
                self.single |= {(key, thing) for thing in things}
        return list(dict.fromkeys(all_things))

    def is_single(self, key: Key, thing: Any) -> bool:
        """Was this thing named by itself, not by a glob or a role of several heads?"""
        return (key, thing) in self.single

    def rename(self, key: Key, things: Mapping[Any, Any]) -> None:
        """Other things (the sites of named nodes) count as named by the same entries as these."""
        for old, new in things.items():
            if (key, old) in self.keys:
                self.keys[key, new] = self.keys[key, old]
            if (key, old) in self.single:
                self.single.add((key, new))

    def nodes(self, key: Key, texts: Iterable[str]) -> list[Node]:
        return self.each(key, texts, self.names.nodes)

    def heads(self, key: Key, texts: Iterable[str]) -> list[Node]:
        return self.each(key, texts, self.names.heads)

    def sites(self, key: Key, texts: Iterable[str]) -> list[Site]:
        return self.each(key, texts, self.names.sites)

    def ports(self, key: Key, texts: Iterable[str]) -> list[Site]:
        return self.each(key, texts, self.names.ports)

    def site(self, key: Key, text: Any) -> Site | None:
        try:
            return self.names.site(text) if isinstance(text, str) else None
        except SteerError as error:
            self.faults += [(key, fault) for fault in error.faults]
            return None

    def sources(self, key: Key, texts: Iterable[str], targets: list[Site]) -> list[Node]:
        """Nodes that feed these targets directly. A plain name must; of a glob's matches, those that do are taken."""
        return self.each(key, texts, lambda text: self._sources(text, targets))

    def _sources(self, text: str, targets: list[Site]) -> list[Node]:
        named, glob = self.names.nodes(text), isinstance(self.names.pattern(text), Glob)
        for target in targets:
            direct = self.layout.sources(target)
            strays = [node for node in named if node not in direct]
            if strays and (not glob or len(strays) == len(named)):
                who = f"nothing that {text!r} matches feeds" if glob else f"{strays[0]} does not feed"
                raise SteerError(f"{who} {target} directly; {self._direct(target)}")
            named = [node for node in named if node in direct]
        return named

    def connect(self, key: Key, one: Site, two: Site) -> None:
        """Note a fault unless the second port reads what the first one's node writes."""
        if one.node not in self.layout.sources(two):
            self.fault(key, f"{one.node} does not feed {two} directly; {self._direct(two)}")

    def _direct(self, target: Site) -> str:
        direct = self.layout.sources(target)
        kinds = dict.fromkeys(str(node) if node.layer is None else f"{node.kind}-{node.layer}" for node in direct)
        return f"its direct sources are {', '.join(kinds) or 'none'}"

    def wanted(self, key: Key, chosen: Sequence[object]) -> None:
        """Note a fault if nothing was named: `$role:any` without a head must not become an edit of nothing."""
        if not chosen and not self.faults:
            self.fault(key, "no head of this checkpoint plays these roles")

    def link(self, key: Key, text: str) -> Site | None:
        """One port of a chain; None (and a fault) if the text does not stand for exactly one."""
        try:
            ports = self.names.ports(text)
        except SteerError as error:
            self.faults += [(key, fault) for fault in error.faults]
            return None
        if len(ports) > 1:
            self.fault(key, f"{text!r} stands for {len(ports)} ports; a link of a chain is a single port")
        self.wanted(key, ports)
        return ports[0] if len(ports) == 1 else None
