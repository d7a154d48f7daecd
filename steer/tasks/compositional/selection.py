"""Which episodes a recipe uses: the keys under its `episodes:`, and the episodes that match them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from steer.base.dice import Dice
from steer.base.errors import KeyedError
from steer.tasks.compositional.counterparts import counterpart
from steer.tasks.compositional.episode import Episode
from steer.tasks.compositional.slices import (
    SLICES,
    function_count,
    make_slice,
    repeats_argument,
    shares_argument,
)
from steer.tasks.compositional.splits import SplitName, make_splits
from steer.tasks.task import Selection


def _from_least_to_most(ends: tuple[int, int] | None) -> tuple[int, int] | None:
    if ends and not 1 <= ends[0] <= ends[1]:
        raise ValueError("must be [least, most], from 1")
    return ends


class Episodes(Selection):
    """Which episodes are shown to the model."""

    split: Annotated[
        SplitName | Literal["strict", "long"],
        Field(description="strict: questions that must be composed; long: with ten demonstrations (see `steer eval`)"),
    ] = "test"
    arity: Annotated[Literal[1, 2] | None, Field(description="only questions with this number of arguments")] = None
    length: Annotated[
        tuple[int, int] | None,
        AfterValidator(_from_least_to_most),
        Field(description="only answers with this number of colours, [least, most]"),
    ] = None
    functions: Annotated[
        tuple[int, int] | None,
        AfterValidator(_from_least_to_most),
        Field(description="only supports with this number of functions, [least, most]"),
    ] = None
    overlap: Annotated[
        bool | None, Field(description="only questions that share an argument with a demonstration, or that share none")
    ] = None
    repeated: Annotated[bool | None, Field(description="only questions with one argument twice, or with two")] = None


def select(wanted: Episodes, data_seed: int, variable: str | None = None) -> list[Episode]:
    """The episodes of the split that match; with a variable, only those in which it can be changed."""
    return choose(wanted, _everything(wanted.split, data_seed), variable)


def choose(wanted: Episodes, everything: Sequence[Episode], variable: str | None = None) -> list[Episode]:
    """At most `wanted.count` episodes that pass the filters (and in which a variable can be changed)."""
    matching = [episode for episode in everything if _fits(episode, wanted)]
    if not matching:
        raise _no_match(wanted, everything)
    if variable is not None:
        changeable = [episode for episode in matching if counterpart(episode, variable) is not None]
        if not changeable:
            text = f"{len(matching):,} episodes match, and the {variable} of none of them can be changed"
            raise KeyedError([((), text)])
        matching = changeable
    if wanted.count < len(matching):
        chosen = Dice(wanted.seed, "select").sample(range(len(matching)), wanted.count)
        matching = [matching[row] for row in sorted(chosen)]
    return matching


def _no_match(wanted: Episodes, everything: Sequence[Episode]) -> KeyedError:
    """A fault at the filter that no episode passes, or at all filters if only together they leave nothing."""
    filters = wanted.model_dump(exclude_defaults=True, exclude={"split", "count", "seed"})
    text = ", ".join(f"{key} {value}" for key, value in filters.items())
    empty = [
        key for key, value in filters.items() if not any(_fits(e, type(wanted)(**{key: value})) for e in everything)
    ]
    return KeyedError([(tuple(empty[:1]), f"0 of {len(everything):,} {wanted.split} episodes match: {text}")])


def _everything(split: str, data_seed: int) -> Sequence[Episode]:
    if split == "strict":
        return [episode for name in SLICES if name != "long" for episode in make_slice(name, data_seed)]
    if split == "long":
        return make_slice("long", data_seed)
    return make_splits(data_seed)[split]  # type: ignore[index]


def _fits(episode: Episode, wanted: Episodes) -> bool:
    """Does an episode pass every filter that is set? (Thousands are tried: filters that are not set cost nothing.)"""
    return (
        wanted.arity in (None, len(episode.question.arguments))
        and (wanted.length is None or _within(len(episode.answer), wanted.length))
        and (wanted.functions is None or _within(function_count(episode), wanted.functions))
        and (wanted.overlap is None or wanted.overlap == shares_argument(episode))
        and (wanted.repeated is None or wanted.repeated == repeats_argument(episode))
    )


def _within(count: int, ends: tuple[int, int]) -> bool:
    return ends[0] <= count <= ends[1]
