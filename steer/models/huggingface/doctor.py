"""Is a wired model the model? All checks on one page, or the quick ones before every run."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch

from steer.base.errors import CheckpointError
from steer.base.shown import Card, Shown
from steer.models.huggingface import checks, edits, exact
from steer.models.huggingface.findings import Finding
from steer.models.huggingface.model import HuggingFaceModel
from steer.tasks.task import Example, PlainExample

PROMPTS, ANSWERS = (11, 6, 9), (3, 4, 2)  # tokens of the examples that are made up where none are given
LONGEST_WINDOW = 64  # windows up to here are seen by made-up examples, which are then longer


TITLES = ("check", "", "largest difference", "allowed", "of", "where")
UNITS = "differences are parts of a value's own spread; of effects it is the least, in logits"


@dataclass(frozen=True, repr=False)
class Report(Shown):
    name: str
    dtype: str
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()  # what could not be checked, or is too small for the dtype

    @property
    def ok(self) -> bool:
        return all(finding.ok for finding in self.findings)

    @property
    def refused(self) -> bool:
        """Does a run refuse the model?"""
        return any(finding.refuses for finding in self.failed)

    @property
    def failed(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if not finding.ok)

    def card(self) -> Card:
        runs = "runs refuse the model" if self.refused else "runs do not look for that: know why before you trust them"
        verdict = (
            f"{len(self.failed)} of {len(self.findings)} checks fail; {runs}" if self.failed else "every check holds"
        )
        rows = [finding.cells for finding in self.findings]
        return Card(f"{self.name}, {self.dtype}: {verdict}", (), TITLES, rows, "\n".join((UNITS, *self.notes)))


@torch.no_grad()
def examine(model: HuggingFaceModel, examples: Sequence[Example] = (), name: str = "") -> Report:
    """Every check."""
    return _report(model, name, findings(model, examples or made_up(model)))


def findings(model: HuggingFaceModel, examples: Sequence[Example]) -> Iterator[Finding]:
    """The cheap ones first."""
    batch = model.encode(examples, list(range(len(examples))))
    yield from _quick(model, examples)
    yield from checks.identities(model, batch)
    yield checks.shares(model, batch)
    yield checks.padded(model, examples)
    yield checks.mates(model, examples)
    yield edits.own_values(model, batch)
    yield from exact.other_values(model, batch)


def _quick(model: HuggingFaceModel, examples: Sequence[Example]) -> Iterator[Finding]:
    batch = model.encode(examples, list(range(len(examples))))
    yield replace(checks.forward(model, batch), refuses=True)
    yield replace(checks.alone(model, examples), refuses=True)
    yield from (replace(finding, refuses=True) for finding in checks.causal(model, batch))


@torch.no_grad()
def check_quickly(model: HuggingFaceModel, examples: Sequence[Example], name: str) -> None:
    """Before a run: the longest and the shortest of its examples, or made-up ones. A model that fails is refused."""
    ordered = sorted(examples, key=lambda example: len(example.prompt) + len(example.answer))
    refuse(_report(model, name, _quick(model, [ordered[-1], ordered[0]] if ordered else made_up(model))))


def refuse(report: Report) -> None:
    if report.ok:
        return
    worst = report.failed[0]
    size = f"{worst.difference:.2g} of the values' spread, {worst.tolerance:.0e} is allowed"
    raise CheckpointError(
        f"{report.name}: refused, because its steps here are not the model's own: {worst.words} does not hold "
        f"({size}), first at {worst.place}; `steer doctor -c {report.name}` shows every check"
    )


def _report(model: HuggingFaceModel, name: str, findings: Iterator[Finding]) -> Report:
    made = tuple(findings)
    notes = tuple(finding.note for finding in made if finding.note)
    return Report(name, str(model.like.dtype).removeprefix("torch."), made, notes)


def made_up(model: HuggingFaceModel) -> list[Example]:
    """Texts of random tokens, one longer than the model's window where that is short."""
    words, dice = model.frame.vocabulary, random.Random(0)
    framing = {words.pad, words.start, words.end, *model.frame.before, *model.frame.after}
    known = [token for number, token in enumerate(words.tokens) if number not in framing]
    more = max((window for window in model.module.windows if window <= LONGEST_WINDOW), default=0)
    room = model.max_length - len(model.frame.before) - len(model.frame.after) - max(ANSWERS) - 1
    lengths = [max(1, min(length + more, room)) for length in PROMPTS]
    return [
        PlainExample(tuple(dice.choices(known, k=prompt)), tuple(dice.choices(known, k=answer)))
        for prompt, answer in zip(lengths, ANSWERS, strict=True)
    ]
