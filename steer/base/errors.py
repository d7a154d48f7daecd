"""What `steer` says when an input is at fault.

Every fault of an input is found before any work starts and raised once, as a `SteerError`: one message that
names the place, says what was found and what is allowed. The command line prints it and exits with code 2.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches


class SteerError(Exception):
    """An input that cannot be used. Carries one message for each fault."""

    def __init__(self, *faults: str) -> None:
        self.faults = faults
        super().__init__("\n".join(faults))


class CheckpointError(SteerError):
    """A checkpoint that is missing, broken or of another shape."""


class ConfigError(SteerError):
    """A configuration, preset or recipe that breaks its schema."""


class PromptError(SteerError):
    """A prompt that is not an episode of the task."""


def nearest(given: str, allowed: Iterable[str], limit: int = 3) -> list[str]:
    """The allowed names closest to the one given, best first, ignoring case."""
    names = {name.lower(): name for name in allowed}
    return [names[match] for match in get_close_matches(given.lower(), names, n=limit, cutoff=0.5)]


def unknown(kind: str, given: str, allowed: Sequence[str]) -> str:
    """One sentence for a name that does not exist: what was given, the nearest, and what there is."""
    close = nearest(given, allowed)
    hint = f"did you mean {' or '.join(close)}?" if close else f"there are: {', '.join(allowed) or 'none'}"
    return f"no {kind} named {given!r}; {hint}"
