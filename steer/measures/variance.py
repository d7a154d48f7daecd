"""Logit attribution as the code of the paper's authors has it: a share of variance.

y is the decoder's output behind its last LayerNorm at the first two steps, x what a component writes, divided by that
norm's scale and times its gain (the mean is not taken off). All numbers of all steps and features are pooled, and the
share of x is (var x + 2 cov(x, y - x)) / var y. No unembedding comes into it, and shares do not sum to one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from steer.anatomy.layout import Layout
from steer.anatomy.nodes import Node, Site
from steer.base.errors import KeyedError
from steer.measures.measure import Sums
from steer.measures.setting import Setting
from steer.results.rows import Row
from steer.tasks.task import ANSWER

if TYPE_CHECKING:
    from torch import Tensor

    from steer.models.protocol import Batch, Reading

STEPS = 2  # the first ones
SHARE = "variance-share (authors)"
Floats = NDArray[np.float64]


def variance_sites(layout: Layout, nodes: Sequence[Node]) -> list[Site]:
    """What the shares are made from: the writes, the stream that the last norm scales, and what it makes of it."""
    return [*map(layout.write, nodes), *_last(layout)]


def _last(layout: Layout) -> tuple[Site, ...]:
    normed = layout.streams[-1].read_as
    return (layout.stream(layout.logits), *([] if normed is None else [normed]))


class VarianceShares(Sums):
    """For each example how many numbers there are at its first steps, and the sums of y, y², x, x² and xy over them."""

    gathers = ("sums",)

    def __init__(self, setting: Setting, components: Sequence[Node]) -> None:
        self.setting, self.components = setting, components
        layout, gain = setting.model.layout, setting.model.readout.gain
        if gain is None or not layout.is_sum(layout.logits):
            text = "a share of variance needs a model whose logits are read behind a single norm"
            raise KeyedError([(("definition",), text)])
        self.gain: Tensor = gain
        self.sums: dict[tuple[str, int], tuple[list[int], Floats]] = {}  # (condition, batch) -> rows; B, components, 6

    def add(self, batch: Batch, condition: str, values: Reading) -> None:
        layout, table = self.setting.model.layout, np.zeros((len(batch.rows), len(self.components), 6))
        said = self.setting.target(batch, "answer")[:, :STEPS] != self.setting.model.pad  # B 2
        stream, output = (batch.at(ANSWER, values[site])[:, :STEPS] for site in _last(layout))
        scale = self.gain / stream.std(-1, unbiased=False, keepdim=True)
        for number, node in enumerate(self.components):
            written = batch.at(ANSWER, values[layout.written(node)])[:, :STEPS]
            table[:, number] = moments(written * scale, output, said)
        self.sums[condition, batch.number] = batch.rows, table

    def tables(self) -> dict[str, Floats]:
        """Condition -> examples, components, 6."""
        tables: dict[str, Floats] = {}
        for (condition, _), (rows, table) in self.sums.items():
            whole = tables.setdefault(condition, np.zeros((len(self.setting.episodes), *table.shape[1:])))
            whole[rows] = table
        return tables

    def rows(self, weights: Floats) -> list[Row]:
        return [
            self._row(condition, str(node), table[:, number], weights)
            for condition, table in self.tables().items()
            for number, node in enumerate(self.components)
        ]

    def _row(self, condition: str, node: str, table: Floats, weights: Floats) -> Row:
        low, high = map(float, np.percentile(share(weights @ table), [2.5, 97.5]))
        value, steps = float(share(table.sum(0)[None])[0]), int(table[:, 0].sum()) // len(self.gain)
        return Row(condition, SHARE, value, low, high, steps, len(table), node, unit="ratio")


def moments(x: Tensor, y: Tensor, counted: Tensor) -> Floats:
    """B 6: how many numbers there are at the counted steps, and the sums of y, y², x, x² and xy over them."""
    import torch

    mask = counted[..., None].double()
    parts = (torch.ones_like(mask).expand_as(x), y, y * y, x, x * x, x * y)
    sums: Floats = torch.stack([(part.double() * mask).sum((1, 2)) for part in parts], dim=1).cpu().numpy()
    return sums


def share(sums: Floats) -> Floats:
    """(var x + 2 cov(x, y - x)) / var y for each row of sums; zero where y does not vary."""
    y, yy, x, xx, xy = (sums[:, 1:] / sums[:, :1]).T
    var_y, var_x, together = yy - y * y, xx - x * x, xy - x * y
    shares: Floats = np.where(var_y > 0, (var_x + 2 * (together - var_x)) / np.where(var_y > 0, var_y, 1.0), 0.0)
    return shares
