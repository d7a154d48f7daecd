"""Names of a recipe against a model: every name read, every fault noted with the key it belongs to.

Who has the file at hand turns the key into a line and column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, TypeVar

from steer.anatomy.names import INPUT_PORTS, Node, Shape, Site, is_glob, is_group
from steer.base.errors import SteerError
from steer.plan.plan import Put, Run

Key = tuple[str | int, ...]
T = TypeVar("T")


class LoweringError(SteerError):
    """A recipe that does not fit the model; `placed` has the key of each fault."""

    def __init__(self, placed: list[tuple[Key, str]]) -> None:
        self.placed = placed
        super().__init__(*(f"{'.'.join(map(str, key))}: {text}" for key, text in placed))


@dataclass
class Context:
    """The model's shape and the faults found so far."""

    shape: Shape
    faults: list[tuple[Key, str]] = field(default_factory=list)
    keys: dict[tuple[Key, Any], Key] = field(default_factory=dict)  # (list, thing) -> the entry that named the thing
    plain: set[tuple[Key, Any]] = field(default_factory=set)  # things that were named one by one, not by a glob

    def fault(self, key: Key, text: str, thing: Any = None) -> None:
        """Note a fault, at the entry of a list that named the thing, if one is given."""
        self.faults.append((self.keys.get((key, thing), key), text))

    def each(self, key: Key, texts: Iterable[str], read: Callable[[str], list[T]]) -> list[T]:
        """Read every name of a list, each thing once, noting the names that cannot be read."""
        found: list[T] = []
        for number, text in enumerate(texts):
            try:
                things = read(text)
            except SteerError as error:
                self.faults += [((*key, number), fault) for fault in error.faults]
                continue
            found += things
            self.keys |= {(key, thing): (*key, number) for thing in things}
            if not is_glob(text) and not is_group(text):
                self.plain |= {(key, thing) for thing in things}
        return list(dict.fromkeys(found))

    def is_plain(self, key: Key, thing: Any) -> bool:
        """Was this very thing named, rather than a glob or a role of several heads that it is part of?"""
        return (key, thing) in self.plain

    def rename(self, key: Key, things: Mapping[Any, Any]) -> None:
        """Let other things (the sites of named nodes) stand for the entries that named these."""
        for old, new in things.items():
            if (key, old) in self.keys:
                self.keys[key, new] = self.keys[key, old]
            if (key, old) in self.plain:
                self.plain.add((key, new))

    def nodes(self, key: Key, texts: Iterable[str]) -> list[Node]:
        return self.each(key, texts, self.shape.expand_nodes)

    def sources(self, key: Key, texts: Iterable[str], targets: list[Site]) -> list[Node]:
        """Nodes that feed these targets directly. A glob means those of its matches that do; a plain name must."""
        return self.each(key, texts, lambda text: self._sources(text, targets))

    def _sources(self, text: str, targets: list[Site]) -> list[Node]:
        named = self.shape.expand_nodes(text)
        for target in targets:
            direct = self.shape.sources(target)
            strays = [node for node in named if node not in direct]
            if strays and (not is_glob(text) or len(strays) == len(named)):
                who = f"nothing that {text!r} matches feeds" if is_glob(text) else f"{strays[0]} does not feed"
                raise SteerError(f"{who} {target} directly; {self._direct(target)}")
            named = [node for node in named if node in direct]
        return named

    def connect(self, number: int, one: Site, two: Site) -> None:
        """The next port of a chain reads what the head before it writes."""
        if one.node not in self.shape.sources(two):
            self.fault(("chain", number), f"{one.node} does not feed {two} directly; {self._direct(two)}")

    def _direct(self, target: Site) -> str:
        direct = self.shape.sources(target)
        kinds = dict.fromkeys(str(node) if node.layer is None else f"{node.kind}-{node.layer}" for node in direct)
        return f"its direct sources are {', '.join(kinds) or 'none'}"

    def wanted(self, key: Key, found: Sequence[object]) -> None:
        """`$role:any` without a head must not become an intervention that does nothing."""
        if not found and not self.faults:
            self.fault(key, "no head of this checkpoint plays these roles")

    def heads(self, key: Key, texts: Iterable[str]) -> list[Node]:
        return self.each(key, texts, self.shape.expand_heads)

    def sites(self, key: Key, texts: Iterable[str]) -> list[Site]:
        return self.each(key, texts, self.shape.expand_sites)

    def site(self, key: Key, text: Any) -> Site | None:
        try:
            return self.shape.site(text) if isinstance(text, str) else None
        except SteerError as error:
            self.faults += [(key, fault) for fault in error.faults]
            return None

    def ports(self, key: Key, texts: Iterable[str]) -> list[Site]:
        """q, k or v of one or more heads (`enc-self-0.*.v`), or an MLP (`enc-mlp-1`)."""
        return self.each(key, texts, self._ports)

    def _ports(self, text: str) -> list[Site]:
        mlps = [Site(node) for node in self.shape.mlps if fnmatchcase(str(node), text.strip().lower())]
        if mlps:
            return mlps
        head, _, port = text.strip().rpartition(".")
        if port.lower() not in INPUT_PORTS:
            raise SteerError(
                f"{text!r} must end in .q, .k or .v (or be an MLP): paths are patched into what a head reads"
            )
        return [Site(node, port.lower()) for node in self.shape.expand_heads(head)]

    def link(self, number: int, text: str) -> Site | None:
        """One port of a chain: a head by its name, no glob."""
        try:
            found = self._ports(text)
        except SteerError as error:
            self.faults += [(("chain", number), fault) for fault in error.faults]
            return None
        if len(found) > 1:
            self.fault(("chain", number), f"{text!r} stands for {len(found)} ports; a chain's link is one head's")
        self.wanted(("chain", number), found)
        return found[0] if len(found) == 1 else None


def name_faults(data: Any, shape: Shape) -> list[tuple[Key, str]]:
    """The names in a recipe's raw data that the model does not have: for files that fail the schema as well."""
    context = Context(shape)
    if not isinstance(data, dict):
        return []
    ports, nodes, sites = context.ports, context.nodes, context.sites
    readers = {"target": ports, "ports": ports, "chain": ports, "sources": nodes, "nodes": nodes}
    for key, read in (readers | {"freeze": sites, "tensors": sites}).items():
        read((key,), _texts(data.get(key)))
    measures = data.get("measures")
    for number, measure in enumerate(measures if isinstance(measures, list) else []):
        if isinstance(measure, dict):
            context.heads(("measures", number, "heads"), _texts(measure.get("heads")))
            context.nodes(("measures", number, "components"), _texts(measure.get("components")))
            context.site(("measures", number, "site"), measure.get("site"))
    sets = data.get("sets")
    for number, one in enumerate(sets if isinstance(sets, list) else []):
        if isinstance(one, dict):
            context.sites(("sets", number, "sites"), _texts(one.get("sites")))
    conditions = data.get("conditions")
    for number, condition in enumerate(conditions if isinstance(conditions, list) else []):
        for key in ("ablate", "keep", "among") if isinstance(condition, dict) else ():
            context.nodes(("conditions", number, key), _texts(condition.get(key)))
    return context.faults


def _texts(value: Any) -> list[str]:
    listed = value if isinstance(value, list) else [value]
    return [text for text in listed if isinstance(text, str)]


def check_freeze(context: Context, freeze: Sequence[Put], runs: list[Run]) -> None:
    """A site cannot be held at its clean value and edited as well. (A head's `z` and `out` are one.)"""
    edited = {(edit.site.path, edit.site.node) for run in runs for edit in run.edits if edit not in freeze}
    for put in freeze:
        if (put.site.path, put.site.node) in edited:
            context.fault(("freeze",), f"{put.site} is frozen and edited in one recipe", put.site)
