"""The examples that a recipe means, with their counterparts; which are left out, and what must be said about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from steer.base.errors import KeyedError, SteerError, keyed
from steer.engine.session import Inputs
from steer.experiments.places import misfit
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


def examples_of(recipe: Recipe, subject: Subject, plan: Plan | None = None) -> Shown:
    """The episodes that a recipe means, their counterparts, and those that ablation means are taken over.

    `plan`: the places that it edits by name are needed of every episode.
    """
    check_task(recipe, subject)
    with keyed("episodes"):
        examples = subject.task.examples(recipe.episodes, subject.data_seed, recipe.changed_variable)
        check_lengths(examples, subject)
    needs_answer = any(measure.foresees for measure in recipe.measures)
    unfit = misfit(plan, subject.model.layout) if plan is not None else lambda example: ""
    episodes, warning = usable(recipe, examples, needs_answer, unfit)
    others = [other for other in recipe.counterparts(episodes) if other is not None]
    predicted = recipe.counterfactual(episodes) if needs_answer else ()
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


def usable(
    recipe: Recipe, episodes: Sequence[Example], needs_answer: bool, unfit: Callable[[Example], str]
) -> tuple[Sequence[Example], str]:
    """The episodes with the places that are edited, and a counterpart that can lend its values; how many have not.

    `needs_answer`: its answer is needed, too.
    """
    others = recipe.counterparts(episodes) or list(episodes)
    pairs = list(zip(episodes, others, strict=True))
    placeless = [unfit(one) for one in episodes]
    lending = [_unfit(one, other, recipe.changed_variable, needs_answer) for one, other in pairs]
    reasons = [one or other for one, other in zip(placeless, lending, strict=True)]
    counts = Counter(filter(None, reasons))
    if not counts:
        return episodes, ""
    left_out = ", ".join(f"{count} {reason}" for reason, count in counts.items())
    kept = [episode for episode, reason in zip(episodes, reasons, strict=True) if not reason]
    if not kept:
        variable = ("ablation", "variable") if recipe.ablates else ("variable",)
        key = (recipe.place_key,) if any(placeless) else variable
        raise KeyedError([(key, f"none of {len(episodes)} examples can be used: {left_out}")])
    return kept, f"{sum(counts.values())} of {len(episodes)} examples left out: {left_out}"


def _unfit(episode: Example, other: Example | None, variable: str | None, needs_answer: bool) -> str:
    """A site takes its counterpart's value place by place, so both prompts must have as many."""
    if other is None:
        return f"without a counterpart {variable!r}"
    if len(other.prompt) != len(episode.prompt):
        return f"with a counterpart {variable!r} of another length"
    return f"with a counterpart {variable!r} whose answer is not known" if needs_answer and not other.answer else ""


def reference_episodes(recipe: Recipe, subject: Subject) -> Sequence[Example]:
    """The episodes that ablation means are taken over, when they are not the recipe's own."""
    if recipe.ablation.reference == OWN:
        return ()
    return subject.task.split(recipe.ablation.reference, subject.data_seed)[:REFERENCE]
