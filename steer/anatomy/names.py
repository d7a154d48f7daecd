"""Names in one model: the parts that a text stands for, or an error with the nearest name that the model has."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias, TypeVar

from steer.anatomy.layout import Layout
from steer.anatomy.nodes import INPUT_PORTS, PORTS, Node, Site
from steer.anatomy.patterns import FORMS, Glob, InRole, Pattern, matches, parse_pattern
from steer.base.errors import SteerError, unknown

T = TypeVar("T")
Roles: TypeAlias = Mapping[str, tuple[Node, ...]]  # role -> the heads that play it, the lead first


@dataclass(frozen=True)
class Names:
    """A model's parts by name, and which heads play which role in one checkpoint."""

    layout: Layout
    roles: Roles = field(default_factory=dict)
    role_words: tuple[str, ...] = ()  # every role that the checkpoint's task knows

    def spelled(self, text: str) -> str:
        """A name as this project spells it; papers and other tools may spell it otherwise."""
        for alias, name in self.layout.aliases:
            match = re.fullmatch(alias, text.strip(), re.IGNORECASE)
            if match:
                return match.expand(name)
        return text

    def pattern(self, text: str) -> Pattern:
        return parse_pattern(self.spelled(text))

    def _unknown(self, kind: str, text: str, allowed: Sequence[object]) -> SteerError:
        why = dict(self.layout.absent).get(self.spelled(text).strip().lower())
        return SteerError(f"no {kind} named {text!r}: {why}" if why else unknown(kind, text, list(map(str, allowed))))

    def nodes(self, text: str) -> list[Node]:
        """The nodes that a name, a role or a glob stands for."""
        pattern = self.pattern(text)
        if isinstance(pattern, InRole):
            return self.in_role(pattern)
        nodes = [node for node in self.layout.nodes if matches(pattern, str(node))]
        if nodes:
            return nodes
        if isinstance(pattern, Glob):
            raise SteerError(f"no head or node is matched by {text!r}")
        raise self._unknown("head or node", text, self.layout.nodes)

    def heads(self, text: str) -> list[Node]:
        """The heads that a name, a role or a glob stands for."""
        pattern = self.pattern(text)
        if isinstance(pattern, InRole):
            return self.in_role(pattern)
        if isinstance(pattern, Glob):
            return [node for node in self.nodes(text) if node.is_head]
        return [self.head(text)]

    def head(self, text: str) -> Node:
        """The one head that a name or a role stands for."""
        pattern = self.pattern(text)
        if isinstance(pattern, InRole):
            return _one(self.in_role(pattern), text, "heads")
        heads = [node for node in self.layout.heads if str(node) == pattern.text]
        if not heads:
            raise self._unknown("head", text, self.layout.heads)
        return heads[0]

    def sites(self, text: str) -> list[Site]:
        """The sites that a name, a glob (`dec-cross-1.*.q`) or a role with a port (`$output.k`) stands for."""
        pattern = self.pattern(text)
        if isinstance(pattern, InRole):
            if pattern.port not in PORTS:
                role = text.strip().partition(".")[0]
                raise SteerError(f"{text!r} must end in a port: {', '.join(f'{role}.{name}' for name in PORTS)}")
            return [Site(node, pattern.port) for node in self.in_role(pattern)]
        sites = [site for site in self.layout.sites if matches(pattern, str(site))]
        if not sites:
            raise self._unknown("site", text, self.layout.sites)
        return sites

    def site(self, text: str) -> Site:
        return _one(self.sites(text), text, "sites")

    def ports(self, text: str) -> list[Site]:
        """What a path can be patched into: q, k or v of one or more heads (`enc-self-0.*.v`), or an MLP."""
        pattern = self.pattern(text)
        if not isinstance(pattern, InRole):
            mlps = [Site(node) for node in self.layout.mlps if matches(pattern, str(node))]
            if mlps:
                return mlps
        head, _, port = self.spelled(text).strip().rpartition(".")
        if port.lower() not in INPUT_PORTS:
            raise SteerError(
                f"{text!r} must end in .q, .k or .v (or be an MLP): paths are patched into what a head reads"
            )
        return [Site(node, port.lower()) for node in self.heads(head)]

    @cached_property
    def _in_role(self) -> dict[InRole, list[Node]]:
        return {}  # what was looked up before

    def in_role(self, pattern: InRole) -> list[Node]:
        """The heads that play a role in this checkpoint, in the form that the pattern asks for."""
        if pattern not in self._in_role:
            self._in_role[pattern] = self._look_up(pattern)
        return list(self._in_role[pattern])

    def _look_up(self, pattern: InRole) -> list[Node]:
        role, form, heads = pattern.role, pattern.form, self.roles.get(pattern.role, ())
        if role not in self.role_words:
            raise SteerError(unknown("role", f"${role}", [f"${name}" for name in self.role_words]))
        if form not in ("", *FORMS):
            forms = ", ".join(f"`${role}:{name}`" for name in FORMS)
            raise SteerError(f"{pattern.text!r}: a role is `${role}` (its lead head), or {forms}")
        if not heads:
            if form == "any":
                return []
            raise SteerError(self._missing(pattern))
        if form == "block":
            return list(self.layout.siblings(heads[0]))
        return list(heads) if form else [heads[0]]

    def _missing(self, pattern: InRole) -> str:
        known = ", ".join(f"${role}" for role, heads in self.roles.items() if heads)
        if known:
            return f"this checkpoint has no head for the role ${pattern.role}; it has {known}"
        return f"{pattern.text!r}: no roles of this checkpoint are known (`steer discover` looks for them)"

    def plays(self, head: Node) -> list[str]:
        """The roles that a head plays."""
        return [role for role, heads in self.roles.items() if head in heads]


def _one(things: Sequence[T], text: str, what: str) -> T:
    if len(things) != 1:
        raise SteerError(f"{text!r} stands for {len(things)} {what}; exactly one is needed")
    return things[0]
