"""`steer run`: recipes in, results and pictures out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steer.commands.completion import complete_recipe
from steer.commands.options import (
    DeviceOption,
    DtypeOption,
    FormatOption,
    JobsOption,
    JsonOption,
    MemoryOption,
    OnOption,
    QuietOption,
    WorkersOption,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steer.experiments.many import Outcome


def run(
    recipes: Annotated[
        list[str],
        typer.Argument(
            metavar="RECIPE... [KEY=VALUE]...",
            help="Files, folders or shipped names; changes.",
            autocompletion=complete_recipe,
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the results, one folder each.")] = Path(
        "results"
    ),
    device: DeviceOption = "cpu",
    dtype: DtypeOption = "float32",
    memory: MemoryOption = "4G",
    jobs: JobsOption = None,
    workers: WorkersOption = None,
    on: OnOption = None,
    remote: Annotated[bool, typer.Option("--remote", help="On a server that has the model (NDIF).")] = False,
    force: Annotated[bool, typer.Option("--force", help="Run again, even if the result is saved.")] = False,
    formats: FormatOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Run recipes: print a table, write rows, metadata and figures. Saved results are not computed again."""
    from steer.commands.progress import bar, spoken
    from steer.experiments.api import run_many
    from steer.experiments.many import split_changes

    names, changes = split_changes(recipes)
    with bar("running", 1.0, quiet) as advance:
        outcomes = run_many(
            names, changes=changes, out=out, device=device, dtype=dtype, memory=memory, jobs=jobs, force=force,
            formats=formats or (), tell=advance, workers=workers, on=on, say=spoken(quiet), remote=remote,
        )  # fmt: skip
    _print(outcomes, json)
    if any(outcome.faults for outcome in outcomes):
        raise typer.Exit(2 if len(outcomes) == 1 else 1)


def _print(outcomes: Sequence[Outcome], json: bool) -> None:
    """What was measured, then (on stderr) what went wrong."""
    from json import dumps

    from steer.commands.pictures import warn

    if json:
        done = [outcome.to_json() for outcome in outcomes]
        typer.echo(dumps(done[0] if len(done) == 1 else done, indent=1))
    else:
        typer.echo(_summary(outcomes) if len(outcomes) > 1 else _text(outcomes[0]))
    for outcome in outcomes:
        if outcome.traceback:
            typer.echo(outcome.traceback, err=True)
        for fault in outcome.faults:
            typer.echo(f"error: {fault}", err=True)
        warn(*(f"{outcome.name}: {reason}" for reason in outcome.undrawn))


def _text(outcome: Outcome) -> str:
    from steer.drawing.tables import result_text

    if outcome.result is None:
        return f"{outcome.name}: failed"
    return result_text(outcome.name, outcome.result, outcome.pictures, outcome.unchanged)


def _summary(outcomes: Sequence[Outcome]) -> str:
    """A batch: one line for each recipe."""
    from steer.drawing.tables import make_table, render

    titles = ("recipe", "state", "time", "conditions", "result")
    return render(make_table(titles, map(_line, outcomes), ("time", "conditions")))


def _line(outcome: Outcome) -> tuple[str, ...]:
    result = outcome.result
    if result is None:
        return (outcome.name, "failed", "", "", "")
    state, time = ("known", "") if outcome.unchanged else ("done", f"{result.provenance.seconds:.1f} s")
    return (outcome.name, state, time, str(len({row.condition for row in result.rows})), str(result.folder))
