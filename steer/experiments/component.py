"""One component's page: what it writes, what it looks at, what it would copy.

Logit contribution overall, by output position and by token; attention accuracy by position; alignment of the OV circuit
with the unembedding against a null of other rows. What a component does not have (an MLP has no attention) is left out,
with a note.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from rich.table import Table
from torch import Tensor

from steer.anatomy.layout import Layout
from steer.anatomy.nodes import Node, Site
from steer.base.shown import Card, Shown
from steer.drawing.tables import interval, make_table
from steer.engine.engine import Engine
from steer.engine.session import Inputs, Session
from steer.measures.alignment import Alignment, add_alignment, looked_at
from steer.measures.answers import exact_match
from steer.measures.attention import attention_accuracy
from steer.measures.attribution import logit_attribution
from steer.measures.measure import is_crossing
from steer.models.protocol import Batch, Reading
from steer.models.scoring import Scoring
from steer.models.subject import Subject
from steer.plan.plan import CLEAN, Edit, Mean, Run, clean_plan, make_plan
from steer.results.details import Histogram
from steer.results.rows import ROW_TITLES, Labels, Row, number, row_lines
from steer.results.tally import Tally, bootstrap_weights
from steer.tasks.task import ANSWER, Example

ABLATED = "ablated"
TITLES = {
    "logit-attribution": "logit contribution (final norm frozen)",
    "exact-match": "is it needed? exact match, right tokens fed in (ablated: its mean at each position stands in)",
    "attention-accuracy": "attention accuracy",
}


@dataclass(repr=False)
class Page(Shown):
    """One component. A row's `group` is a token of the answer; empty: all of them."""

    component: str
    checkpoint: str
    examples: int
    rows: list[Row]
    alignment: Histogram | None = None
    left_out: list[str] = field(default_factory=list)
    numbering: str = ""  # whose numbering the heads have, if they were renumbered
    token: str = "token"  # what the task calls a token that counts

    def card(self) -> Card:
        rows = row_lines([row for row in self.rows if row.position is None and not row.group])
        return Card(f"{self.component} of {self.checkpoint}: {self.examples:,} episodes", (), ROW_TITLES, rows)


@torch.no_grad()
def component_page(
    subject: Subject, node: Node, episodes: Sequence[Example], seed: int = 0, engine: Engine | None = None
) -> Page:
    subject.examine(episodes)
    engine, scoring = engine or Engine(subject.model), subject.scoring
    layout, crossing = engine.layout, is_crossing(engine.layout, node)
    tallies = _tallies(node, len(episodes), layout, scoring)
    aligned = Alignment(len(episodes))
    for ran in Session(engine, clean_plan(_reads(node, layout)), Inputs(episodes)):
        batch, values, target = ran.batch, ran.values, ran.batch.target
        if layout.reaches_logits(node):
            alternatives = scoring.alternatives([episodes[row] for row in batch.rows])
            share = _contribution(engine, node, batch, values, alternatives)
            _add_contribution(scoring, batch, share, tallies)
        if crossing:
            pattern, keys = batch.at(ANSWER, values[Site(node, "pattern")]), batch.tokens[layout.looks_at(node)]
            hits = attention_accuracy(pattern, keys, target)
            tallies["attention-accuracy"].put_tensors(batch.rows, hits, scoring.counts(target))
        if copies(layout, node):
            add_alignment(aligned, engine.model, scoring, node, batch, values)
    tallies |= _needed(engine, node, episodes)
    weights = bootstrap_weights(len(episodes), seed)
    page = Page(str(node), subject.name, len(episodes), [r for t in tallies.values() for r in t.table(weights)])
    if copies(layout, node):
        page.alignment = aligned.histogram("clean", str(node))
    page.left_out, page.numbering = _left_out(node, layout), subject.weights.numbering
    page.token = subject.task.words.token
    return page


def _needed(engine: Engine, node: Node, episodes: Sequence[Example]) -> dict[str, Tally]:
    """Exact match as it is, and without the node: what it writes says nothing about that."""
    logits, ablated = engine.layout.logits, Edit(engine.layout.write(node), Mean())
    if len(episodes) < 2 or engine.layout.is_fixed(node):  # the mean would be the value itself
        return {}
    plan = make_plan(Run(CLEAN, (), (logits,), CLEAN), [Run(ABLATED, (ablated,), (logits,), ABLATED)])
    kinds = {name: Labels(name, "exact-match", str(node)) for name in (CLEAN, ABLATED)}
    tallies = {name: Tally(len(episodes), 1, hits=True, labels=labels) for name, labels in kinds.items()}
    for ran in Session(engine, plan, Inputs(episodes)):
        said = ran.batch.at(ANSWER, ran.values[logits])
        hits, counted = exact_match(said, ran.batch.target, engine.model.pad)
        tallies[ran.run.condition or ""].put_tensors(ran.batch.rows, hits, counted)
    return tallies


def _reads(node: Node, layout: Layout) -> list[Site]:
    written = [layout.write(node), *layout.scales] if layout.reaches_logits(node) else []
    return [*written, *([Site(node, "pattern"), looked_at(layout, node)] if is_crossing(layout, node) else [])]


def _tallies(node: Node, episodes: int, layout: Layout, scoring: Scoring) -> dict[str, Tally]:
    tallies: dict[str, Tally] = {}
    positions = scoring.task.longest_answer
    if layout.reaches_logits(node):
        written = Labels("clean", "logit-attribution", str(node), unit="logit")
        tallies["all"] = Tally(episodes, positions, labels=written)
        tallies |= {token: Tally(episodes, 1, labels=replace(written, group=token)) for token in scoring.tokens}
    if is_crossing(layout, node):
        labels = Labels("clean", "attention-accuracy", str(node))
        tallies["attention-accuracy"] = Tally(episodes, positions, hits=True, labels=labels)
    return tallies


def _contribution(
    engine: Engine, node: Node, batch: Batch, values: Reading, alternatives: Sequence[tuple[int, ...]]
) -> Tensor:
    """What a node writes into the logits of the right tokens: B T."""
    layout = engine.layout
    write = {node: batch.at(ANSWER, values[layout.written(node)])}
    clean = {site: batch.at(ANSWER, values[site]) for site in layout.scales}
    return logit_attribution(engine.model, write, clean, batch.target, alternatives)[str(node)].double()


def _add_contribution(scoring: Scoring, batch: Batch, share: Tensor, tallies: dict[str, Tally]) -> None:
    """Over all tokens that count, and for each of them."""
    target = batch.target
    tallies["all"].put_tensors(batch.rows, share, scoring.counts(target))
    for token in scoring.tokens:
        here = (target == scoring.vocabulary.ids[token]).double()
        total = here.sum(1, keepdim=True)
        tallies[token].put_tensors(batch.rows, (share * here).sum(1, keepdim=True) / total.clamp(min=1), total)


def copies(layout: Layout, node: Node) -> bool:
    """Does it copy from the end of another stream to the one that the logits read?"""
    return is_crossing(layout, node) and layout.reads(Site(node, "v")) != layout.block(node).writes


def _left_out(node: Node, layout: Layout) -> list[str]:
    notes = []
    if not layout.reaches_logits(node):
        notes.append("no logit contribution: it writes into a stream that the logits do not read directly")
    if not is_crossing(layout, node):
        notes.append("no attention accuracy and no OV alignment: it does not look from the answer at the prompt")
    elif not copies(layout, node):
        notes.append("no OV alignment: it reads the stream that it writes into")
    if not node.is_head:
        notes.append("no attention pattern: it is not a head")
    return notes


def page_parts(page: Page) -> list[Table | str]:
    """The page as tables and lines."""
    parts: list[Table | str] = [
        f"{page.component} of {page.checkpoint}, {page.examples:,} test episodes (95 % intervals)",
        *filter(None, (page.numbering,)),
    ]
    for measure, title in TITLES.items():
        rows = [row for row in page.rows if row.measure == measure]
        lines = [(f"  {_place(r)}", number(r.value, r.unit), interval(r.low, r.high, r.unit)) for r in rows]
        parts += ["", title, make_table(("", "value", "95 % interval"), lines, ("value",))] if rows else []
    if page.alignment:
        own, others = page.alignment.own, page.alignment.others
        samples = {"  own row": own, "  other rows": others}
        lines = [(name, f"{s.mean:.2f}", f"{s.low:.2f} to {s.high:.2f}") for name, s in samples.items()]
        parts += ["", "OV alignment with the unembedding (middle 95 % of tokens)"]
        parts += [make_table(("", "mean", "middle 95 %"), lines, ("mean",))]
        above, tokens = page.alignment.above_null, page.alignment.tokens
        parts += [f"  above 97.5 % of the others: {above:.1%} of {tokens:,} {page.token} tokens"]
    return [*parts, *(f"({note})" for note in page.left_out)]


def _place(row: Row) -> str:
    if row.measure == "exact-match":
        return row.condition
    return row.group or ("overall" if row.position is None else f"position {row.position}")
