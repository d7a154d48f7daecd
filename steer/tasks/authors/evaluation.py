"""The groups of questions in accuracy reports: those that the support answers, and those that it does not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeGuard

from steer.tasks.authors.episode import AuthorsEpisode
from steer.tasks.authors.files import AuthorsExample
from steer.tasks.compositional import evaluation
from steer.tasks.compositional.episode import Demonstration
from steer.tasks.compositional.program import is_determined
from steer.tasks.compositional.slices import repeats_argument

NESTED, DETERMINED, OPEN = "nested or strung together", "determined by the support", "not determined by the support"
NOTES = {OPEN: "the asked function is not shown, or only with one argument twice: nothing in the prompt tells"}


def kind(example: AuthorsExample) -> str:
    return evaluation.kind(example) if isinstance(example, AuthorsEpisode) else NESTED


def is_answered(example: AuthorsExample) -> TypeGuard[AuthorsEpisode]:
    """Is it an episode whose support tells the answer?"""
    return isinstance(example, AuthorsEpisode) and is_determined(example)


def is_shown(episode: AuthorsEpisode) -> bool:
    """Does the question stand in the support?"""
    return any(isinstance(item, Demonstration) and item.call == episode.question for item in episode.support)


GROUPS: Mapping[str, Callable[[AuthorsEpisode], bool]] = {
    DETERMINED: is_answered,
    OPEN: lambda episode: not is_answered(episode),
    "one argument twice": repeats_argument,
    "question stands in the support": is_shown,
}


def groups(examples: Sequence[AuthorsExample]) -> Mapping[str, Sequence[bool]]:
    groups = {
        name: [isinstance(example, AuthorsEpisode) and belongs(example) for example in examples]
        for name, belongs in GROUPS.items()
    }
    kinds = list(map(kind, examples))
    if len(set(kinds)) > 1:
        groups |= {name: [one == name for one in kinds] for name in dict.fromkeys(kinds)}
    return {name: rows for name, rows in groups.items() if any(rows)}
