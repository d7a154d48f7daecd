"""The examples that a recipe means, with their counterparts; which are left out, and what must be said about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from steer.anatomy.layout import Layout
from steer.base.errors import KeyedError, SteerError, keyed
from steer.engine.session import Inputs
from steer.models.places import task_sequence, there
from steer.models.protocol import Batch
from steer.models.subject import Subject
from steer.plan.plan import Plan
from steer.recipe.schema import OWN, Recipe
from steer.tasks.task import Example

REFERENCE = 2_000  # episodes of another set that means are taken over, at most


@dataclass(frozen=True)
class Shown:
    """What is put to the model, the answers that are expected under the intervention, and how many are left out."""

    inputs: Inputs
    predicted: Sequence[Example] = ()
    warning: str = ""


def examples_of(recipe: Recipe, subject: Subject) -> Shown:
    """The episodes that a recipe means, their counterparts, and those that ablation means are taken over."""
    check_task(recipe, subject)
    with keyed("episodes"):
        found = subject.task.examples(recipe.episodes, subject.data_seed, recipe.changed_variable)
        check_lengths(found, subject)
    asked = any(measure.foresees for measure in recipe.measures)
    episodes, warning = usable(recipe, found, asked)
    others = [other for other in recipe.counterparts(episodes) if other is not None]
    predicted = recipe.counterfactual(episodes) if asked else ()
    reference = reference_episodes(recipe, subject)
    if recipe.into_counterpart:  # the same answer is right, the same tokens are fed in; only the prompts change places
        turned = [other.answering(episode.answer) for episode, other in zip(episodes, others, strict=True)]
        predicted = [other.answering(one.answer) for one, other in zip(predicted, turned, strict=False)]
        return Shown(Inputs(turned, episodes, reference), predicted, warning)
    return Shown(Inputs(episodes, others, reference), predicted, warning)


def check_task(recipe: Recipe, subject: Subject) -> None:
    if recipe.task is not subject.task:
        raise SteerError(f"the recipe is about the task {recipe.task.name!r}, {subject.name} of {subject.task.name!r}")


def check_lengths(episodes: Sequence[Example], subject: Subject) -> None:
    """Every prompt, with its answer where both stand in one sequence, must fit into the model."""
    most, layout = subject.model.max_length, subject.model.layout
    longest = max(episodes, key=lambda episode: len(episode.prompt))
    if len(longest.prompt) > most:
        where = f"{subject.task.place(longest)}: a prompt of {len(longest.prompt):,} tokens"
        raise KeyedError([(("split",), f"{where}; {subject.name} takes {most:,}")])
    answer = subject.task.longest_answer
    if layout.prompt == layout.answer and len(longest.prompt) + answer > most:
        where = f"{subject.task.place(longest)}: a prompt of {len(longest.prompt):,} tokens"
        text = f"{where}, and answers of up to {answer}; {subject.name} takes {most:,} in all"
        raise KeyedError([(("split",), text)])


def usable(recipe: Recipe, episodes: Sequence[Example], asked: bool) -> tuple[Sequence[Example], str]:
    """The episodes whose counterpart can lend its values, and how many there are beside them.

    `asked`: its answer is needed, too.
    """
    others = recipe.counterparts(episodes)
    if not others:
        return episodes, ""
    reasons = [_unfit(episode, other, asked) for episode, other in zip(episodes, others, strict=True)]
    counts = Counter(filter(None, reasons))
    if not counts:
        return episodes, ""
    told = ", ".join(f"{count} {reason}" for reason, count in counts.items())
    told = f"{told} (counterpart {recipe.changed_variable!r})"
    kept = [episode for episode, reason in zip(episodes, reasons, strict=True) if not reason]
    if not kept:
        key = ("ablation", "variable") if recipe.ablates else ("variable",)
        raise KeyedError([(key, f"none of {len(episodes)} examples can be used: {told}")])
    return kept, f"{sum(counts.values())} of {len(episodes)} examples left out: {told}"


def _unfit(episode: Example, other: Example | None, asked: bool) -> str:
    """A site takes its counterpart's value place by place, so both prompts must have as many."""
    if other is None:
        return "without one"
    if len(other.prompt) != len(episode.prompt):
        return "of another length"
    return "whose answer is not known" if asked and not other.answer else ""


def reference_episodes(recipe: Recipe, subject: Subject) -> Sequence[Example]:
    """The episodes that ablation means are taken over, when they are not the recipe's own."""
    if recipe.ablation.reference == OWN:
        return ()
    return subject.task.split(recipe.ablation.reference, subject.data_seed)[:REFERENCE]


def lengths_of(examples: Sequence[Example], batches: Sequence[Batch], layout: Layout) -> dict[str, int]:
    """How many places each sequence of the model has: the prompt's, wherever it stands, and those of what is said."""
    widest = {name: max(batch.tokens[name].shape[1] for batch in batches) for name in batches[0].tokens}
    return widest | {layout.prompt: max(len(example.prompt) for example in examples)}


def place_warnings(plan: Plan, lengths: Mapping[str, int], layout: Layout) -> dict[str, str]:
    """Conditions whose edits name places that no sequence has. Where none of them is there, nothing was edited."""
    warnings, earlier = {}, ""  # the first link of a chain has the places, the last one the condition
    for run in plan.runs:
        edits = [edit for edit in run.edits if edit.places]
        beyond = {
            place
            for edit in edits
            for place in edit.places
            if isinstance(place, int) and place > lengths[layout.sequence(edit.site)]
        }
        if edits and all(place in beyond for edit in edits for place in edit.places):
            first = min(beyond)
            key = ("places", edits[0].places.index(first))
            raise KeyedError([(key, f"no sequence has a place {first}: {run.name!r} would edit nothing")])
        text = f"no sequence has a place {', '.join(map(str, sorted(beyond)))}" if beyond else earlier
        if text and run.condition:
            warnings[run.condition] = text
        earlier = "" if run.condition else text
    return warnings


def untouched(plan: Plan, examples: Sequence[Example], layout: Layout) -> dict[str, frozenset[int]]:
    """For each condition that patches one place, the examples that do not have it: they are not counted there."""
    found: dict[str, frozenset[int]] = {}
    known: dict[tuple[str, tuple[int | str, ...]], frozenset[int]] = {}
    for run in plan.runs:
        edits = [edit for edit in run.edits if edit.places]
        if not (edits and run.condition and run.place):
            continue
        key = task_sequence(layout, edits[0].site), edits[0].places
        if key not in known:
            known[key] = frozenset(n for n, example in enumerate(examples) if not there(example, *key))
        if len(known[key]) == len(examples):
            raise KeyedError([(("places",), f"no example has {run.place!r}: {run.name!r} would edit nothing")])
        found[run.condition] = known[key]
    return found
