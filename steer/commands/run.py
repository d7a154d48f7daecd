"""`steer run`: recipes in, results and pictures out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from steer.commands.options import DeviceOption, JsonOption, QuietOption


def run(
    recipes: Annotated[
        list[str], typer.Argument(metavar="RECIPE... [KEY=VALUE]...", help="Files, folders or shipped names; changes.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the results, one folder each.")] = Path(
        "results"
    ),
    device: DeviceOption = "cpu",
    dtype: Annotated[str, typer.Option(help="float32 or float64.")] = "float32",
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Recipes at a time, in processes of their own.")] = 1,
    force: Annotated[bool, typer.Option("--force", help="Run again what is already known.")] = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Run recipes: print a table, write rows, metadata and the figure. What is already known is not run again."""
    from json import dumps

    from steer.commands.pictures import warn
    from steer.commands.progress import bar
    from steer.experiments.many import SUMMARY, Job, run_batch, split_changes

    names, changes = split_changes(recipes)
    job = Job(changes, out, device, dtype, force)
    with bar("running", 1.0, quiet, unit="") as advance:
        outcomes = run_batch(names, job, jobs, advance)
    if json:
        done = [o.as_json() for o in outcomes]
        typer.echo(dumps(done[0] if len(done) == 1 else done, indent=1))
    else:
        many = len(outcomes) > 1
        typer.echo("\n".join([SUMMARY, *(o.line() for o in outcomes)]) if many else outcomes[0].text())
    for outcome in outcomes:
        for fault in outcome.faults:
            typer.echo(f"error: {fault}", err=True)
        warn(*(f"{outcome.name}: {reason}" for reason in outcome.undrawn))
    if any(outcome.faults for outcome in outcomes):
        raise typer.Exit(2 if len(outcomes) == 1 else 1)
