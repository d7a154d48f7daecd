"""`steer episodes`: look at the task."""

from __future__ import annotations

from typing import Annotated

import typer

from steer.commands.options import JsonOption
from steer.task.splits import SplitName


def episodes(
    n: Annotated[int, typer.Option("--n", "-n", min=1, help="How many to print.")] = 5,
    split: Annotated[SplitName, typer.Option(help="Which of the fixed sets.")] = "test",
    start: Annotated[int, typer.Option(min=0, help="Number of the first one.")] = 0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the sets.")] = 0,
    json: JsonOption = False,
) -> None:
    """Print episodes, with the variables that the paper's Algorithm 1 finds on the way to the answer."""
    from json import dumps

    from steer.errors import SteerError
    from steer.task.program import solve
    from steer.task.splits import make_splits

    drawn = make_splits(seed)[split]
    if start + n > len(drawn):
        raise SteerError(f"the {split} split has {len(drawn):,} episodes; {start} + {n} goes beyond it")
    rows = []
    for number in range(start, start + n):
        episode, solution = drawn[number], solve(drawn[number])
        rows.append(
            {
                "episode": number,
                "split": split,
                "prompt": str(episode),
                "answer": list(episode.answer),
                "symbol_to_colour": dict(solution.symbol_to_colour),
                "index_in_question": dict(solution.index_in_question),
                "relative_index_on_lhs": list(solution.relative_index),
            }
        )
    if json:
        typer.echo(dumps(rows, indent=1))
        return
    for row in rows:
        typer.echo(f"{split} {row['episode']}: {row['prompt']}")
        typer.echo(f"  answer                 {' '.join(row['answer'])}")
        typer.echo(f"  index-in-question      {' '.join(f'{s}={i}' for s, i in row['index_in_question'].items())}")
        typer.echo(f"  relative-index-on-LHS  {' '.join(map(str, row['relative_index_on_lhs']))}\n")
