"""Does an edit reach what is measured? The values that each measure reads, compared with the clean run.

A recipe that cannot change what it measures is refused before it runs. Some cases show only in the data: an ablation
value that equals the value itself, a counterpart that does not differ there, a step that is not counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from steer.anatomy.nodes import Site, parse_site
from steer.measures.setting import Setting

if TYPE_CHECKING:
    from torch import Tensor

    from steer.models.protocol import Batch, Reading

Change: TypeAlias = tuple[str, int, str]  # a condition, the number of a measure, a site that it reads
ROUNDING = 64  # times the dtype's precision: the change that summing a stream again may cause
NOTHING_ARRIVED = "the same as in the clean run: nothing that was edited arrives here"


class Arrived:
    """The largest relative change that each condition makes to each measure."""

    def __init__(self, setting: Setting, numbers: Sequence[Sequence[Site]], clean: str | None) -> None:
        self.setting, self.numbers, self.clean = setting, numbers, clean
        self.before: Mapping[Site, Tensor] = {}  # the clean run of the batch at hand, which comes first
        self.largest: dict[Change, float] = {}

    def add(self, batch: Batch, condition: str, values: Reading, measures: Sequence[int]) -> None:
        if condition == self.clean:
            self.before = values
            return
        for number in measures:
            for site in self.numbers[number]:
                self.merge({(condition, number, str(site)): self._change(batch, values, site, number)})

    def take(self) -> dict[Change, float]:
        """Hand out what was gathered, and begin again with nothing."""
        largest, self.largest = self.largest, {}
        return largest

    def merge(self, changes: Mapping[Change, float]) -> None:
        for key, change in changes.items():
            self.largest[key] = max(self.largest.get(key, 0.0), change)

    def _change(self, batch: Batch, values: Reading, site: Site, number: int) -> float:
        import torch

        measure = self.setting.measures[number]
        one, two = (measure.compared(self.setting, batch, reading[site]) for reading in (self.before, values))
        limit = ROUNDING * torch.finfo(one.dtype).eps * float(one.abs().max())
        return max(0.0, float((one - two).abs().max()) - limit)

    def warning(self, condition: str, number: int, of: str = "") -> str:
        """`of`: the node or site that a row is about, where each row is made of its values alone."""
        here = (condition, number)
        changes = {site: change for (run, one, site), change in self.largest.items() if (run, one) == here}
        own = [change for site, change in changes.items() if of in (site, str(parse_site(site).node))]
        return NOTHING_ARRIVED if changes and max(own or changes.values()) == 0.0 else ""
