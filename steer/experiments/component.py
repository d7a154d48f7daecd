"""One component's page: what it writes, what it looks at, what it would copy.

Logit contribution overall, by output position and by token; attention accuracy by position; alignment of the OV circuit
with the unembedding against a null of other rows. What a component does not have (an encoder head has no direct
logit contribution, an MLP no attention) is left out and said so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from steer.anatomy.names import Node, Site
from steer.engine.engine import Engine, Part, Values
from steer.engine.values import site_value
from steer.measures.alignment import Alignment
from steer.measures.attention import attention_accuracy
from steer.measures.attribution import logit_attribution
from steer.measures.measured import MEMORY, attribution_sites
from steer.measures.structure import add_alignment
from steer.models.batch import collate
from steer.models.checkpoint import Checkpoint
from steer.models.scoring import Scoring
from steer.results.details import Histogram
from steer.results.rows import Labels, Row
from steer.results.tally import Tally, bootstrap_weights
from steer.tasks.task import Example


@dataclass
class Page:
    """One component. A row's `group` is a token of the answer; empty: all of them."""

    component: str
    checkpoint: str
    examples: int
    rows: list[Row]
    alignment: Histogram | None = None
    left_out: list[str] = field(default_factory=list)


@torch.no_grad()
def component_page(checkpoint: Checkpoint, node: Node, episodes: Sequence[Example], seed: int = 0) -> Page:
    engine = Engine(checkpoint)
    tallies = _tallies(node, len(episodes), engine.scoring)
    aligned = Alignment(len(episodes))
    for part in engine.parts(episodes):
        shown = [episodes[row] for row in part.rows]
        target = torch.from_numpy(collate(shown, engine.vocabulary).target).to(engine.device)
        values = engine.clean(part, _paths(engine, node))
        if node.stack == "dec":
            share = _contribution(engine, node, values, target, shown)
            _add_contribution(engine.scoring, part, share, target, tallies)
        if node.kind == "dec-cross":
            found = attention_accuracy(site_value(engine.model, values, Site(node, "pattern")), part.prompt, target)
            tallies["attention-accuracy"].put_tensors(part.rows, found, engine.scoring.counts(target))
            add_alignment(aligned, engine.model, engine.scoring, node, part, values)
    weights = bootstrap_weights(len(episodes), seed)
    page = Page(str(node), checkpoint.name, len(episodes), [r for t in tallies.values() for r in t.table(weights)])
    if node.kind == "dec-cross":
        page.alignment = aligned.histogram("clean", str(node))
    page.left_out = _left_out(node)
    return page


def _tallies(node: Node, episodes: int, scoring: Scoring) -> dict[str, Tally]:
    tallies: dict[str, Tally] = {}
    positions = scoring.task.longest_answer
    if node.stack == "dec":
        written = Labels("clean", "logit-attribution", str(node), unit="logit")
        tallies["all"] = Tally(episodes, positions, labels=written)
        tallies |= {token: Tally(episodes, 1, labels=replace(written, group=token)) for token in scoring.tokens}
    if node.kind == "dec-cross":
        labels = Labels("clean", "attention-accuracy", str(node))
        tallies["attention-accuracy"] = Tally(episodes, positions, hits=True, labels=labels)
    return tallies


def _paths(engine: Engine, node: Node) -> list[str]:
    paths = [site.path for site in attribution_sites(engine.shape)] if node.stack == "dec" else []
    if node.is_head:
        paths.append(Site(node, "pattern").path)
    return [*paths, MEMORY.path]


def _contribution(engine: Engine, node: Node, values: Values, target: Tensor, shown: Sequence[Example]) -> Tensor:
    """What a node writes into the logits of these tokens: B T."""
    final = attribution_sites(engine.shape)[-1]
    write = site_value(engine.model, values, Site(node, "out" if node.is_head else None))
    alternatives = engine.scoring.alternatives(shown)
    return logit_attribution(engine.model, {"it": write}, values[final.path], target, alternatives)["it"].double()


def _add_contribution(scoring: Scoring, part: Part, share: Tensor, target: Tensor, tallies: dict[str, Tally]) -> None:
    """Over all tokens that count, and for each of them."""
    tallies["all"].put_tensors(part.rows, share, scoring.counts(target))
    for token in scoring.tokens:
        here = (target == scoring.vocabulary.ids[token]).double()
        total = here.sum(1, keepdim=True)
        tallies[token].put_tensors(part.rows, (share * here).sum(1, keepdim=True) / total.clamp(min=1), total)


def _left_out(node: Node) -> list[str]:
    notes = []
    if node.stack == "enc":
        notes.append(
            "no logit contribution: it writes into the encoder's stream, which the logits do not read directly"
        )
    if node.kind != "dec-cross":
        notes.append("no attention accuracy and no OV alignment: it does not attend from the decoder to the prompt")
    if not node.is_head:
        notes.append("no attention pattern: it is not a head")
    return notes
