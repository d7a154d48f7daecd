"""How pictures are wanted: in which files beside the PNG, and how large. No matplotlib here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from steer.base.errors import SteerError, unknown

FORMATS = ("png", "pdf", "svg")
KINDS = ("bars", "positions", "scatter", "patterns", "histogram", "rates", "story")  # figures of results
SMALLEST, LARGEST = 0.5, 40.0  # inches


@dataclass(frozen=True)
class Look:
    """`formats`: files beside the PNG, which is always written. `size`: width, or width and height, in inches."""

    formats: tuple[str, ...] = ()
    size: tuple[float, ...] = ()


PLAIN = Look()


def look_of(formats: Sequence[str] = (), size: str | float | Sequence[float] | None = None) -> Look:
    """`look_of(["pdf"], "7x4")`; all that is wrong with either is said at once."""
    formats = (formats,) if isinstance(formats, str) else tuple(formats)
    faults = [f"--format: {unknown('format', str(one), FORMATS)}" for one in formats if one not in FORMATS]
    inches = _inches(size)
    if inches is None:
        faults.append(f"--size: inches as WIDTH or WIDTHxHEIGHT, {SMALLEST} to {LARGEST:.0f} each, not {size!r:.40}")
    if faults:
        raise SteerError(*faults)
    return Look(tuple(dict.fromkeys(formats)), inches or ())


def _inches(size: str | float | Sequence[float] | None) -> tuple[float, ...] | None:
    """Empty: as the figure has it. None: not a size."""
    if size is None:
        return ()
    try:
        words = size.lower().split("x") if isinstance(size, str) else [size] if isinstance(size, int | float) else size
        inches = tuple(float(word) for word in words)
    except (TypeError, ValueError):
        return None
    return inches if len(inches) in (1, 2) and all(SMALLEST <= side <= LARGEST for side in inches) else None
