"""What `steer` says when an input is at fault.

Every fault of an input is found before any work starts and raised once, as a `SteerError`: one message that
names the place, says what was found and what is allowed. The command line prints it and exits with code 2.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches

Key = tuple[str | int, ...]  # of a document: ("measures", 0, "site")


class SteerError(Exception):
    """An input that cannot be used. Carries one message for each fault."""

    def __init__(self, *faults: str) -> None:
        self.faults = faults
        super().__init__("\n".join(faults))


class KeyedError(SteerError):
    """Faults of a document with the key of each. The loader finds the line and column of a key."""

    def __init__(self, placed: Sequence[tuple[Key, str]]) -> None:
        self.placed = placed
        super().__init__(*(": ".join(filter(None, (".".join(map(str, key)), text))) for key, text in placed))


@contextmanager
def keyed(*key: str | int) -> Iterator[None]:
    """Faults found in this block belong under this key."""
    try:
        yield
    except KeyedError as error:
        raise KeyedError([((*key, *theirs), text) for theirs, text in error.placed]) from error
    except SteerError as error:
        raise KeyedError([(key, fault) for fault in error.faults]) from error


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
