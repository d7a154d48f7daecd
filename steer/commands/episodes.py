"""`steer episodes`: look at the task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from steer.commands.options import JsonOption
from steer.tasks.compositional.splits import SplitName

if TYPE_CHECKING:
    from steer.tasks.compositional.episode import Episode


def episodes(
    n: Annotated[int, typer.Option("--n", "-n", min=1, help="How many to print.")] = 5,
    split: Annotated[SplitName, typer.Option(help="Which of the fixed sets.")] = "test",
    start: Annotated[int, typer.Option(min=0, help="Number of the first one.")] = 0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the sets.")] = 0,
    json: JsonOption = False,
) -> None:
    """Print episodes, with the variables that the paper's Algorithm 1 finds on the way to the answer."""
    from json import dumps

    from steer.base.errors import SteerError
    from steer.tasks.compositional.splits import make_splits

    drawn = make_splits(seed)[split]
    if start + n > len(drawn):
        raise SteerError(f"the {split} split has {len(drawn):,} episodes; {start} + {n} goes beyond it")
    rows = [_row(number, split, drawn[number]) for number in range(start, start + n)]
    typer.echo(dumps(rows, indent=1) if json else "\n\n".join(map(_text, rows)))


def _row(number: int, split: str, episode: Episode) -> dict[str, Any]:
    from steer.tasks.compositional.program import solve

    solution = solve(episode)
    return {
        "episode": number,
        "split": split,
        "prompt": str(episode),
        "answer": list(episode.answer),
        "symbol_to_colour": dict(solution.symbol_to_colour),
        "index_in_question": dict(solution.index_in_question),
        "relative_index_on_lhs": list(solution.relative_index),
    }


def _text(row: dict[str, Any]) -> str:
    indices = " ".join(f"{symbol}={index}" for symbol, index in row["index_in_question"].items())
    return (
        f"{row['split']} {row['episode']}: {row['prompt']}\n"
        f"  answer                 {' '.join(row['answer'])}\n"
        f"  index-in-question      {indices}\n"
        f"  relative-index-on-LHS  {' '.join(map(str, row['relative_index_on_lhs']))}"
    )
