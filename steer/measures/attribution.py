"""logit-attribution: which part of the decoder writes the right token's logit.

The logit of a token is linear in what was written once the scale of every norm behind it is held at its clean value
(on most models that is the final norm alone), so each component has its own share of it.
Shares are of the right token's logit relative to the mean over its alternatives; with the constant part they
sum to that number exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from steer.anatomy.keyed import KeyedNames
from steer.anatomy.layout import Layout
from steer.anatomy.named import Nodes
from steer.anatomy.nodes import Node, Site
from steer.base.errors import Key
from steer.measures.measure import Measure, Reads, Sums, rows_of
from steer.measures.right import PAPER, Definition
from steer.measures.setting import Counted, Setting
from steer.measures.variance import SHARE, VarianceShares, variance_sites
from steer.results.rows import Labels
from steer.tasks.task import ANSWER, Task

if TYPE_CHECKING:
    from torch import Tensor

    from steer.models.protocol import Batch, Model, Reading

Alternatives = Sequence[tuple[int, ...]]  # for each example, the tokens that a logit is held against
CONSTANT = "constant"  # biases: of attention outputs, of the final LayerNorm, of the unembedding


class AttributionMeasure(Measure):
    """How much of the right token's logit (above the mean {token}'s) each decoder component writes."""

    name: Literal["logit-attribution"]
    components: Annotated[Nodes, Field(description="decoder heads, MLPs, embeddings; globs allowed")] = ("dec*",)
    against: Literal["answer"] = "answer"
    definition: Definition = PAPER

    def reads(self, names: KeyedNames, task: Task, key: Key) -> Reads:
        nodes = self._writers(names, (*key, "components"))
        writes = tuple(map(names.layout.write, nodes))
        if self.definition != PAPER:
            return Reads(tuple(variance_sites(names.layout, nodes)), writes, rows_of(SHARE, nodes))
        return Reads(tuple(attribution_sites(names.layout)), writes, rows_of(self.name, nodes))

    def _writers(self, names: KeyedNames, key: Key) -> list[Node]:
        nodes = names.nodes(key, self.components)
        for node in nodes:
            if not names.layout.reaches_logits(node):
                names.fault(key, f"{node}: only the decoder writes into the stream that the logits read", node)
        return nodes

    def sums(self, setting: Setting) -> Sums:
        if self.definition != PAPER:
            nodes = [node for text in self.components for node in setting.names.nodes(text)]
            return VarianceShares(setting, list(dict.fromkeys(nodes)))
        return Attribution(setting, self)


class Attribution(Counted):
    def __init__(self, setting: Setting, measure: AttributionMeasure) -> None:
        super().__init__(setting)
        self.measure = measure
        self.components = [str(node) for text in measure.components for node in setting.names.nodes(text)]
        self.writers = [node for node in setting.model.layout.nodes if setting.model.layout.reaches_logits(node)]
        self.clean: dict[int, dict[Site, Tensor]] = {}  # batch -> what the norms took their scale from in the clean run

    def add(self, batch: Batch, condition: str, values: Reading) -> None:
        target, layout = self.setting.target(batch, "answer"), self.setting.model.layout
        writes = {node: batch.at(ANSWER, values[layout.written(node)]) for node in self.writers}
        if batch.number not in self.clean:  # the clean run comes first
            self.clean[batch.number] = {site: batch.at(ANSWER, values[site]) for site in layout.scales}
        clean = self.clean[batch.number]
        alternatives, counted = self.setting.alternatives(batch), self.setting.scoring.counts(target)
        shares = logit_attribution(self.setting.model, writes, clean, target, alternatives)
        for component in dict.fromkeys((*self.components, CONSTANT)):
            labels = Labels(condition, self.measure.name, component, unit="logit")
            self.book.put(batch, self.positions, shares[component].double(), counted, False, labels)


def attribution_sites(layout: Layout) -> list[Site]:
    """What logit attribution reads: every write into the stream that the logits read, and what the norms scale by."""
    return [*(layout.write(node) for node in layout.nodes if layout.reaches_logits(node)), *layout.scales]


def logit_attribution(
    model: Model,
    writes: Mapping[Node, Tensor],
    clean: Mapping[Site, Tensor],
    target: Tensor,
    alternatives: Alternatives,
) -> dict[str, Tensor]:
    """Each node's share of the relative logit, B T, every norm behind it frozen at its scale in the clean run."""
    readout = model.readout
    difference = readout.rows[target] - mean_of(readout.rows, alternatives)  # B T D
    found = model.directions(clean, difference)
    shares = {str(node): (write * found.of[node]).sum(-1) for node, write in writes.items()}
    shares[CONSTANT] = found.constant + readout.bias[target] - mean_of(readout.bias, alternatives)
    return shares


def mean_of(table: Tensor, alternatives: Alternatives) -> Tensor:
    """The mean of each example's alternatives in a table of tokens: B 1 …"""
    import torch

    means = {tokens: table[list(tokens)].mean(0) for tokens in set(alternatives)}
    return torch.stack([means[tokens] for tokens in alternatives])[:, None]
