"""What `steer` says when an input is at fault.

All faults of an input are gathered before any work starts and raised together, as one `SteerError`. A fault names its
place, says what is wrong there and what is allowed. The command line prints every fault and exits with code 2.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches

from typing_extensions import Self

Key = tuple[str | int, ...]  # where a value stands in a document: ("measures", 0, "site")


class Fault(str):
    """One thing that is wrong with an input: the message as it is printed, and the parts that it is made of."""

    place: str  # file, line and column, or the argument of the command line; empty if it has none
    key: Key  # of the value at fault; empty if no key is
    text: str  # what is wrong, without the place

    def __new__(cls, place: str, key: Key, text: str) -> Self:
        fault = super().__new__(cls, ": ".join(filter(None, (place or dotted(key), text))))
        fault.place, fault.key, fault.text = place, key, text
        return fault

    def __getnewargs__(self) -> tuple[str, Key, str]:  # type: ignore[override]
        return self.place, self.key, self.text  # so that a fault survives the way between processes


def dotted(key: Key) -> str:
    """A key as people write it: `measures.0.site`."""
    return ".".join(map(str, key))


class SteerError(Exception):
    """An input that cannot be used, with every fault that was found in it."""

    def __init__(self, *faults: str) -> None:
        """A plain text is a fault without place or key."""
        self.faults = tuple(fault if isinstance(fault, Fault) else Fault("", (), fault) for fault in faults)
        super().__init__("\n".join(faults))


class KeyedError(SteerError):
    """Faults of a document by their keys. Whoever has the document adds the line and column."""

    def __init__(self, placed: Sequence[tuple[Key, str]]) -> None:
        super().__init__(*(Fault("", key, text) for key, text in placed))

    @property
    def placed(self) -> list[tuple[Key, str]]:
        return [(fault.key, fault.text) for fault in self.faults]


@contextmanager
def keyed(*key: str | int) -> Iterator[None]:
    """Put this key in front of the keys of all faults raised in the block."""
    try:
        yield
    except KeyedError as error:
        raise KeyedError([((*key, *fault.key), fault.text) for fault in error.faults]) from error
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
    """One sentence about a name that does not exist, with the nearest valid names, or with all of them."""
    close = nearest(given, allowed)
    hint = f"did you mean {' or '.join(close)}?" if close else f"there are: {', '.join(allowed) or 'none'}"
    return f"no {kind} named {given!r}; {hint}"
