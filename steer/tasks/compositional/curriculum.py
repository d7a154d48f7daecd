"""From a stage of training to batches of episodes, one epoch at a time.

An epoch depends on (seed, epoch number) alone, never on what was drawn before: training can stop after any epoch and
go on in another process with the same batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import permutations

from steer.base.dice import Dice
from steer.tasks.compositional.episode import Call, Demonstration, Episode, Item, Primitive
from steer.tasks.compositional.grammar import draw, relabel
from steer.tasks.compositional.lesson import CompositionalLesson, Questions, Writing
from steer.tasks.compositional.program import functions, solve, understand
from steer.tasks.compositional.slices import held_out
from steer.tasks.compositional.splits import Conjunction, draw_outside, make_splits
from steer.tasks.compositional.vocabulary import BAR, EOS, EQUALS, SOS
from steer.tasks.task import Example, PlainExample

BUCKET = 40  # batches that are sorted by length together: long enough to save padding, short enough to stay random


@dataclass(frozen=True)
class Material:
    """What training may use: the training split, and the conjunctions that it must not show."""

    train: Sequence[Episode]
    held_out: AbstractSet[Conjunction]


@lru_cache(maxsize=4)
def material(data_seed: int) -> Material:
    return Material(make_splits(data_seed).train, held_out(data_seed))


def epoch_batches(stage: CompositionalLesson, given: Material, seed: int, epoch: int) -> list[list[Example]]:
    """Every batch of one epoch, bucketed by prompt length, in random order."""
    dice = Dice(seed, "epoch", epoch)
    questions = [ask(episode, stage.questions, dice) for episode in visit(stage, given, dice)]
    groups = dice.shuffled([[write(episode, stage.writing, dice) for episode in group] for group in questions if group])
    batches: list[list[Example]] = []
    for start in range(0, len(groups), BUCKET * stage.batch):
        bucket = sorted(groups[start : start + BUCKET * stage.batch], key=lambda group: len(group[0].prompt))
        chunks = [bucket[i : i + stage.batch] for i in range(0, len(bucket), stage.batch)]
        batches += [[episode for group in chunk for episode in group] for chunk in chunks]
    return dice.shuffled(batches)


def visit(stage: CompositionalLesson, given: Material, dice: Dice) -> list[Episode]:
    """The episodes of one epoch, relabelled or reshuffled as the stage says. None has a held-out conjunction."""
    if stage.episodes == "split":
        shown = list(given.train)
    else:
        shown = [
            draw_outside(given.held_out, lambda: draw(dice.choice(stage.grammars), dice)) for _ in range(stage.episodes)
        ]
    if stage.relabel:
        shown = [draw_outside(given.held_out, lambda e=e: relabel(e, dice)) for e in shown]  # type: ignore[misc]
    if stage.reshuffle:
        shown = [replace(episode, support=tuple(dice.shuffled(episode.support))) for episode in shown]
    return shown


def ask(episode: Episode, questions: Questions, dice: Dice) -> list[Episode]:
    """The episode once for each question about it; its own question is the first composition."""
    calls = [episode.question] if questions.compositions else []
    if questions.compositions > 1:
        calls += dice.shuffled(unseen_calls(episode))[: questions.compositions - 1]
    calls += [Call((p.symbol,)) for p in dice.shuffled(episode.primitives)[: questions.primitives]]
    calls += [shown.call for shown in dice.shuffled(episode.demonstrations)[: questions.copies]]
    return [_asking(episode, call) for call in calls]


def write(episode: Episode, writing: Writing, dice: Dice) -> Example:
    """The episode with its prompt written as the stage says; the episode itself for the default way."""
    if writing == Writing():
        return episode
    support = list(episode.support)
    if writing.order != "as drawn":
        first = episode.demonstrations[0].call.arguments if episode.demonstrations else ()
        aligned = first if writing.order == "aligned" else ()
        support.sort(key=lambda item: _rank(item, aligned))
    items = [episode.question.tokens, *(_spell(item, episode, writing, dice) for item in support)]
    prompt = tuple(token for item in items for token in (*item, BAR))[:-1]
    return PlainExample((*prompt, EOS), episode.answer)


def _rank(item: Item, aligned: tuple[str, ...]) -> int:
    if isinstance(item, Demonstration):
        return 3
    return aligned.index(item.symbol) if item.symbol in aligned else 2


def _spell(item: Item, episode: Episode, writing: Writing, dice: Dice) -> tuple[str, ...]:
    """An item's tokens, each right-hand colour as it is, as its symbol, or as its argument's place."""
    if isinstance(item, Primitive):
        return item.tokens
    symbol_of = {colour: symbol for symbol, colour in understand(episode).colours.items()}
    mark_of = dict(zip(item.call.arguments, (SOS, EOS), strict=False))

    def token(colour: str) -> str:
        toss = dice.below(1_000) / 1_000
        if colour not in symbol_of:
            return colour
        if toss < writing.marked:
            return mark_of[symbol_of[colour]]
        return symbol_of[colour] if toss < writing.marked + writing.spelled else colour

    return (*item.call.tokens, EQUALS, *map(token, item.output))


def unseen_calls(episode: Episode) -> list[Call]:
    """The compositions that the support determines but does not show, other than the episode's own question."""
    symbols = list(understand(episode).colours)
    shown = {demonstration.call for demonstration in episode.demonstrations} | {episode.question}
    known = sorted(functions(episode), key=lambda function: function.symbol)
    calls = [Call(args, f.symbol) for f in known for args in permutations(symbols, f.arity)]
    return [call for call in calls if call not in shown]


def _asking(episode: Episode, call: Call) -> Episode:
    if call == episode.question:
        return episode
    other = replace(episode, question=call, answer=())
    return replace(other, answer=solve(other).answer)
