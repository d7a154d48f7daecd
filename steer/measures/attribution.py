"""logit-attribution: how much of the right token's logit each component writes.

The logit of a token is linear in what was written once the scale of every norm behind it is held at its clean value
(on most models that is the final norm alone), so each component has its own share of it.
Shares are of the right token's logit relative to the mean over its alternatives, or to other answers (a logit
difference); with the constant part they sum to that number exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from steer.anatomy.keyed import KeyedNames
from steer.anatomy.layout import Layout
from steer.anatomy.named import Nodes
from steer.anatomy.nodes import Node, Site
from steer.base.errors import Key
from steer.measures.measure import Measure, Reads, Sums, rows_of
from steer.measures.right import PAPER, Definition
from steer.measures.rivals import Rivals, RivalTokens, Steps
from steer.measures.setting import Counted, Setting
from steer.measures.variance import SHARE, VarianceShares, variance_sites
from steer.results.rows import Labels, Row
from steer.tasks.task import ANSWER, Task

if TYPE_CHECKING:
    from torch import Tensor

    from steer.models.protocol import Batch, Model, Reading
    from steer.results.tally import Floats

Alternatives = Sequence[tuple[int, ...]]  # for each example, the tokens that a logit is compared with
CONSTANT = "constant"  # biases: of attention outputs, of the final LayerNorm, of the unembedding


class AttributionMeasure(Measure):
    """How much of the right token's logit (above the mean {token}'s) each component writes."""

    name: Literal["logit-attribution"]
    components: Annotated[Nodes, Field(description="what the logits read: heads, MLPs, embeddings; globs allowed")] = (
        "*",
    )
    against: Annotated[
        Literal["answer", "wrong", "counterfactual"],
        Field(description="answer: above the mean alternative; else: above wrong answers, or the counterpart's answer"),
    ] = "answer"
    steps: Annotated[Steps, Field(description="of the answer: its first token, or the mean over all")] = "all"
    definition: Definition = PAPER

    @property
    def apart(self) -> bool:
        """A share of variance is of the whole stream's; a share of the logit is of its component's write alone."""
        return self.definition == PAPER

    def reads(self, names: KeyedNames, task: Task, key: Key) -> Reads:
        nodes = self._writers(names, (*key, "components"))
        writes = tuple(map(names.layout.write, nodes))
        if self.definition != PAPER:
            return Reads(tuple(variance_sites(names.layout, nodes)), writes, rows_of(SHARE, nodes))
        return Reads(tuple(attribution_sites(names.layout)), writes, rows_of(self.name, nodes, self.against))

    def _writers(self, names: KeyedNames, key: Key) -> list[Node]:
        """The named nodes whose writes the logits read. A plain name must be one; a glob means those that are."""
        named = names.nodes(key, self.components)
        writers = [node for node in named if names.layout.reaches_logits(node)]
        for node in named:
            if node not in writers and (names.is_single(key, node) or not writers):
                names.fault(key, f"{node} does not write into the stream that the logits read", node)
        return writers

    def sums(self, setting: Setting) -> Sums:
        if self.definition != PAPER:
            named = [node for text in self.components for node in setting.names.nodes(text)]
            writers = [node for node in named if setting.model.layout.reaches_logits(node)]
            return VarianceShares(setting, list(dict.fromkeys(writers)))
        return Attribution(setting, self)


class Attribution(Counted):
    def __init__(self, setting: Setting, measure: AttributionMeasure) -> None:
        super().__init__(setting)
        self.measure = measure
        self.writers = [node for node in setting.model.layout.nodes if setting.model.layout.reaches_logits(node)]
        self.rivals = None if measure.against == "answer" else RivalTokens(setting, measure.against, measure.steps)
        if measure.steps == "first":
            self.positions = 1
        named = [node for text in measure.components for node in setting.names.nodes(text)]
        self.components = [str(node) for node in named if node in self.writers]
        # Of the batch at hand, what the norms took their scale from in the clean run.
        self.clean: tuple[int, dict[Site, Tensor]] = (-1, {})

    def add(self, batch: Batch, condition: str, values: Reading) -> None:
        target, layout = self.setting.target(batch, "answer"), self.setting.model.layout
        writes = {node: batch.at(ANSWER, values[layout.written(node)]) for node in self.writers}
        if batch.number != self.clean[0]:  # the clean run comes first
            self.clean = batch.number, {site: batch.at(ANSWER, values[site]) for site in layout.scales}
        rivals, counted = self._held_against(batch, target)
        shares = logit_attribution(self.setting.model, writes, self.clean[1], target, rivals)
        for component in dict.fromkeys((*self.components, CONSTANT)):
            labels = Labels(condition, self.measure.name, component, self.measure.against, unit="logit")
            self.book.put(batch, self.positions, shares[component].double(), counted, False, labels)

    def _held_against(self, batch: Batch, target: Tensor) -> tuple[Alternatives | Rivals, Tensor]:
        """What the right token's logit is held against, and the steps that count."""
        if self.rivals is None:
            return self.setting.alternatives(batch), self.setting.scoring.counts(target)
        rivals = self.rivals.of(batch, target.shape[1])
        return rivals, rivals.counted

    def rows(self, weights: Floats) -> list[Row]:
        rows = super().rows(weights)
        return rows if self.rivals is None else [replace(row, warning=self.rivals.warning) for row in rows]


def attribution_sites(layout: Layout) -> list[Site]:
    """What logit attribution reads: every write into the stream that the logits read, and what the norms scale by."""
    return [*(layout.write(node) for node in layout.nodes if layout.reaches_logits(node)), *layout.scales]


def logit_attribution(
    model: Model,
    writes: Mapping[Node, Tensor],
    clean: Mapping[Site, Tensor],
    target: Tensor,
    alternatives: Alternatives | Rivals,
) -> dict[str, Tensor]:
    """Each node's share of the relative logit, B T, every norm behind it frozen at its scale in the clean run.

    `alternatives`: what the target's logit is held against, the same at every step or others at each.
    """
    readout = model.readout
    difference = readout.rows[target] - mean_of(readout.rows, alternatives)  # B T D
    directions = model.directions(clean, difference)
    shares = {str(node): (write * directions.of[node]).sum(-1) for node, write in writes.items()}
    shares[CONSTANT] = directions.constant + readout.bias[target] - mean_of(readout.bias, alternatives)
    return shares


def mean_of(table: Tensor, alternatives: Alternatives | Rivals) -> Tensor:
    """The mean of each example's alternatives in a table of tokens: B 1 …, or B T …"""
    import torch

    if isinstance(alternatives, Rivals):
        return alternatives.mean(table)
    means = {tokens: table[list(tokens)].mean(0) for tokens in set(alternatives)}
    return torch.stack([means[tokens] for tokens in alternatives])[:, None]
