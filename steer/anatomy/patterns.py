"""How users name parts of a model: by a name, a glob (`enc-self-*.*`) or a role (`$output`)."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TypeAlias

FORMS = ("all", "any", "block")


@dataclass(frozen=True)
class Named:
    """One thing by its name; upper and lower case are the same."""

    text: str


@dataclass(frozen=True)
class Glob:
    """All things whose names match."""

    text: str


@dataclass(frozen=True)
class InRole:
    """`$output`: the lead head of this role. `$output:all`: all its heads. `$output:any`: all, if any.

    `$output:block`: every head of the block that the lead is in. A port may follow: `$output:all.k`.
    """

    text: str
    role: str
    form: str = ""
    port: str = ""


Pattern: TypeAlias = Named | Glob | InRole


def parse_pattern(text: str) -> Pattern:
    written = text.strip()
    if written.startswith("$"):
        heads, _, port = written.partition(".")
        role, _, form = heads.lower().removeprefix("$").partition(":")
        return InRole(text, role, form, port.lower())
    return Glob(written.lower()) if any(sign in written for sign in "*?[") else Named(written.lower())


def matches(pattern: Named | Glob, name: str) -> bool:
    return fnmatchcase(name, pattern.text)


def is_single(text: str) -> bool:
    """Does this text name one thing, not a glob or all heads of a role?"""
    pattern = parse_pattern(text)
    return isinstance(pattern, Named) or (isinstance(pattern, InRole) and not pattern.form)
