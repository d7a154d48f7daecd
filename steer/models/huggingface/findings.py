"""What the doctor finds: a check, the largest difference, what is allowed, and where."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Finding:
    check: str
    words: str  # what was checked
    difference: float  # the largest, as a part of the value's own spread; of effects, the least
    tolerance: float
    place: str = ""  # where it is largest; of steps, the first that parts
    is_effect: bool = False  # must be more than the tolerance, not less
    of: int = 0  # how many things were compared
    rounded: str = ""  # where it failed in the model's own dtype, if this is what float64 says
    refuses: bool = False  # is it made before every run, which it then refuses?

    @property
    def note(self) -> str:
        """What must be said of a check that holds in float64 alone."""
        if not self.rounded or not self.ok:
            return ""
        return f"{self.words}: in float64; in the model's own numbers it rounds away at {self.rounded}"

    @property
    def ok(self) -> bool:
        return self.difference > self.tolerance if self.is_effect else self.difference <= self.tolerance

    @property
    def cells(self) -> tuple[str, ...]:
        """What a table shows: check, whether it holds, difference, what is allowed, of how many, and where it fails."""
        allowed = f"more than {self.tolerance:.0g}" if self.is_effect else f"{self.tolerance:.0e}"
        state, shown = ("ok", "") if self.ok else ("FAILS", self.place)
        return (self.words, state, f"{self.difference:.1e}", allowed, f"{self.of:,}", shown)


class Worst:
    """The largest difference so far, where it was, and the first place beyond the tolerance."""

    def __init__(self, tolerance: float) -> None:
        self.tolerance, self.count = tolerance, 0
        self.largest, self.place, self.first = 0.0, "", ""

    def see(self, place: str, given: Tensor, wanted: Tensor, real: Tensor | None = None) -> None:
        """`real`: which tokens count; the values' first axes are its own."""
        gap = difference(given, wanted, real)
        self.count += 1
        if gap > self.largest:
            self.largest, self.place = gap, place
        if gap > self.tolerance and not self.first:
            self.first = place

    def fail(self, place: str) -> None:
        """Something is wrong that has no size."""
        self.largest, self.first = math.inf, self.first or place

    def finding(self, check: str, words: str) -> Finding:
        return Finding(check, words, self.largest, self.tolerance, self.first or self.place, of=self.count)


def difference(given: Tensor, wanted: Tensor, real: Tensor | None = None) -> float:
    """The largest difference as a part of the spread of what is wanted. Another shape or a NaN is infinitely far."""
    if given.shape != wanted.shape:
        return math.inf
    one, two = (value.double() if real is None else value.double()[real] for value in (given, wanted))
    gap = (one - two).abs().max().item() if one.numel() else 0.0
    spread = two.std(unbiased=False).item() if two.numel() else 1.0
    return math.inf if math.isnan(gap) else gap / (spread if spread > 0 else 1.0)
