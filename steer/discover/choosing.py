"""Questions in which something is chosen: two arguments, of which each token of the answer is the colour of one.

With one argument there is one colour to write, and a head that always looks there is right without any selection.
"""

from __future__ import annotations

from collections.abc import Sequence

from steer.tasks.compositional.episode import Episode


def choices(episodes: Sequence[Episode]) -> list[Episode]:
    """Those in which an argument has to be chosen; all of them, if there is none."""
    return [episode for episode in episodes if chooses(episode)] or list(episodes)


def chooses(episode: Episode) -> bool:
    return len(episode.question.arguments) == 2


def rivals(episode: Episode) -> tuple[str, ...]:
    """For each token of the answer, the colour of the argument that was not chosen; itself, where nothing was."""
    if not chooses(episode):
        return episode.answer
    colour_of = {primitive.symbol: primitive.colour for primitive in episode.primitives}
    one, two = (colour_of[symbol] for symbol in episode.question.arguments)
    return tuple({one: two, two: one}[colour] for colour in episode.answer)
