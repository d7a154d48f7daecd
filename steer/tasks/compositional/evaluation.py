"""The groups of episodes in accuracy reports: by number of arguments, and those that are new up to names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from steer.tasks.compositional.episode import Episode
from steer.tasks.compositional.renaming import canonical

KINDS = ("bare primitives", "one argument", "two arguments")  # by number of arguments
NEW = "new up to names"
NOTES = {NEW: "in no training episode, whatever its symbols and colours are called and in which order"}


def kind(episode: Episode) -> str:
    return KINDS[len(episode.question.arguments) if episode.question.function else 0]


def groups(episodes: Sequence[Episode], trained: Sequence[Episode]) -> Mapping[str, Sequence[bool]]:
    """Each kind of question. With training episodes, also the questions that are not among them under other names."""
    groups = {name: [kind(episode) == name for episode in episodes] for name in KINDS}
    if trained:
        seen = set(map(canonical, trained))
        groups[NEW] = [canonical(episode) not in seen for episode in episodes]
        both = zip(groups[NEW], episodes, strict=True)
        groups[f"{NEW}, {KINDS[2]}"] = [new and episode.has_two_arguments for new, episode in both]
    return {name: rows for name, rows in groups.items() if any(rows)}


def rivals(episode: Episode) -> tuple[str, ...]:
    """For each token of the answer the other argument's colour; the token itself where there is one argument."""
    if not episode.has_two_arguments:
        return episode.answer
    colour_of = {primitive.symbol: primitive.colour for primitive in episode.primitives}
    one, two = (colour_of[symbol] for symbol in episode.question.arguments)
    return tuple({one: two, two: one}[colour] for colour in episode.answer)
