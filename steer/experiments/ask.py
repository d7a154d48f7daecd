"""One prompt, one variable changed: the clean answer, the predicted one, the steered one, and the attention of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from steer.anatomy.nodes import Site
from steer.base.errors import SteerError
from steer.base.shown import Card, Shown
from steer.base.yaml import Document
from steer.engine.engine import Engine
from steer.engine.session import Inputs, RunOnBatch, Session
from steer.experiments.attend import plain_numbers
from steer.measures.marks import right_entries
from steer.measures.pattern import axis_tokens
from steer.models.subject import Subject
from steer.recipe.lower import lower
from steer.recipe.schema import Recipe
from steer.recipe.tasked import recipe_schema
from steer.results.details import Pattern
from steer.tasks.task import Example, Handle, Task

STEERED = "steered"


@dataclass(frozen=True, repr=False)
class SteeredAnswer(Shown):
    """What the model says, what it should say with one variable changed, and what it says when steered."""

    prompt: str
    checkpoint: str
    variable: str
    sites: tuple[str, ...]
    right: tuple[str, ...]  # the task's
    answer: tuple[str, ...]  # the model's
    predicted: tuple[str, ...]  # the task's with the variable changed
    steered: tuple[str, ...]  # the model's, with the intervention on
    before: Pattern | None
    after: Pattern | None
    program: str  # the task's name for the program that computes its answers

    @property
    def patterns(self) -> tuple[Pattern, ...]:
        """Before and after, where the task knows whose attention to look at."""
        return tuple(filter(None, (self.before, self.after)))

    def card(self) -> Card:
        return Card(f"{self.checkpoint}, with another {self.variable}", self.lines)

    @property
    def lines(self) -> list[tuple[str, str]]:
        """What was asked and said, each with its name."""
        said = "as predicted" if self.steered == self.predicted else "not as predicted"
        return [
            ("prompt", self.prompt),
            ("answer", " ".join(self.answer) + ("" if self.answer == self.right else "   (wrong)")),
            ("predicted", f"{' '.join(self.predicted)}   ({self.program} with another {self.variable})"),
            ("steered", f"{' '.join(self.steered)}   ({said}; changed at {', '.join(self.sites)})"),
        ]


@torch.no_grad()
def ask(
    subject: Subject, episode: Example, variable: str, sites: Sequence[str] = (), engine: Engine | None = None
) -> SteeredAnswer:
    task = subject.task
    other = task.counterpart(episode, variable)
    if other is None:
        raise SteerError(f"the {variable} of this prompt cannot be changed: {task.why_fixed(episode, variable)}")
    subject.examine([episode])
    recipe = recipe_of(task, variable, sites)
    _check_sites(subject, sites)
    engine, plan = engine or Engine(subject.model), lower(recipe, subject.names).plan
    vocabulary = subject.scoring.vocabulary
    head = subject.names.head(f"${task.output_role}") if task.output_role else None

    def runs(shown: Example) -> Iterator[RunOnBatch]:
        return iter(Session(engine, plan, Inputs([shown], [other])))

    def look(condition: str, written: tuple[str, ...]) -> Pattern | None:
        if head is None:
            return None
        one = next(one for one in runs(episode.answering(written)) if one.run.condition == condition)
        queries, keys = axis_tokens(engine.layout, head, one.batch, 0, vocabulary)
        weights = plain_numbers(one.values[Site(head, "pattern")][0])
        wanted = episode.answering(other.answer) if condition == STEERED else episode  # what is to be said now
        right = right_entries(subject.names, task, head, wanted, one.batch, 0)
        return Pattern(
            str(head), str(episode), written, queries, keys, weights, condition, episode.answer,
            tuple(subject.names.plays(head)), right,
        )  # fmt: skip

    written = {one.run.condition: one.written for one in runs(episode) if one.written is not None}
    clean, steered = (vocabulary.decode_answer(written[when][0].tolist()) for when in ("before", STEERED))
    changed = tuple(str(edit.site) for run in plan.runs if run.name == STEERED for edit in run.edits)
    return SteeredAnswer(
        str(episode), subject.name, variable, changed, episode.answer, clean, other.answer, steered,
        look("before", clean), look(STEERED, steered), task.words.program,
    )  # fmt: skip


def _check_sites(subject: Subject, sites: Sequence[str]) -> None:
    faults: list[str] = []
    for name in sites:
        try:
            subject.names.sites(name)
        except SteerError as error:
            faults += [f"--at: {fault}" for fault in error.faults]
    if faults:
        raise SteerError(*faults)


def recipe_of(task: Task, variable: str, sites: Sequence[str]) -> Recipe:
    """The variable changed at these sites, or where the task knows that it can be; answers written, attention seen."""
    handle = task.handles.get(variable, Handle("counterpart", ()))
    if not sites and not handle.sites:
        raise SteerError(f"--at: at which sites should {variable} be changed? The task {task.name!r} knows none")
    looked = [{"name": "attention-pattern", "heads": f"${task.output_role}"}] if task.output_role else []
    keys = {
        "kind": "steer", "variable": variable, "by": handle.by, "episodes": dict(task.needed.keys),
        "sets": [{"name": STEERED, "sites": list(sites or handle.sites)}],
        "measures": [*looked, {"name": "exact-match", "decoding": "greedy"}],
    }  # fmt: skip
    return recipe_schema(task).check(Document("recipe", keys))
