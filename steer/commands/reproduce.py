"""`steer reproduce`: every figure and claim of the paper on one checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from steer.base.shipped import DEFAULT
from steer.commands.options import (
    CheckpointOption,
    DeviceOption,
    JobsOption,
    JsonOption,
    OnOption,
    OutOption,
    QuietOption,
    WorkersOption,
)

if TYPE_CHECKING:
    from steer.paper.verdicts import Verdict


def reproduce(
    changes: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[episodes.KEY=VALUE]...",
            help="Other questions in every recipe: episodes.split=strict episodes.overlap=false.",
        ),
    ] = None,
    checkpoint: CheckpointOption = DEFAULT,
    out: OutOption = None,
    device: DeviceOption = "cpu",
    episodes: Annotated[
        int | None, typer.Option(min=10, help="At most this many for each recipe: a quick look.")
    ] = None,
    against: Annotated[
        str, typer.Option(help="paper: its claims; authors: the numbers of their notebooks, on their weights.")
    ] = "paper",
    jobs: JobsOption = None,
    workers: WorkersOption = None,
    on: OnOption = None,
    force: Annotated[bool, typer.Option("--force", help="Run again, even if results are saved.")] = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Run every recipe of the paper: figures, a table of its claims, and an index page."""
    from json import dumps

    from steer.commands.pictures import warn
    from steer.commands.progress import bar, spoken
    from steer.drawing.tables import pairs, render
    from steer.paper.api import reproduce as run_all
    from steer.paper.verdicts import tally

    with bar("reproducing", 1.0, quiet) as advance:
        made = run_all(
            checkpoint, *(changes or ()), out=out, device=device, episodes=episodes, force=force, against=against,
            tell=advance, jobs=jobs, workers=workers, on=on, say=spoken(quiet),
        )  # fmt: skip
    for outcome in made.outcomes:
        warn(*(f"{outcome.name}: {reason}" for reason in outcome.undrawn))
    if json:
        files = {outcome.name: [str(picture) for picture in outcome.pictures] for outcome in made.outcomes}
        typer.echo(dumps(made.to_json() | {"pictures": files, "index": str(made.index)}, indent=1))
        return
    quick = f" ({made.claims[0].status})" if episodes or changes else ""
    title = f"{made.checkpoint}: {len(made.claims)} claims: {tally(made.claims)}{quick}"
    typer.echo(render(title, "", pairs(map(_line, made.claims)), "", f"index: {made.index}"))


def _line(claim: Verdict) -> tuple[str, str]:
    text = f"{claim.claim}\npaper: {claim.paper}   here: {claim.here}\n{claim.verdict}   [rule: {claim.rule}]"
    return claim.figure, text
