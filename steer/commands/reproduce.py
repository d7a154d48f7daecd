"""`steer reproduce`: every figure and claim of the paper on one checkpoint."""

from __future__ import annotations

from typing import Annotated

import typer

from steer.base.shipped import DEFAULT
from steer.commands.options import CheckpointOption, DeviceOption, JsonOption, OutOption, QuietOption


def reproduce(
    checkpoint: CheckpointOption = DEFAULT,
    out: OutOption = None,
    device: DeviceOption = "cpu",
    episodes: Annotated[int | None, typer.Option(min=10, help="At most so many for each recipe: a quick look.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Run again what is already known.")] = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Run every recipe of the paper: figures, a table of its claims, and an index page."""
    from json import dumps

    from steer.base.files import make_folder
    from steer.commands.pictures import warn
    from steer.commands.progress import bar
    from steer.experiments.many import interrupted
    from steer.models.checkpoint import load_checkpoint
    from steer.models.devices import check_device
    from steer.paper.reproduce import paper_recipes
    from steer.paper.reproduce import reproduce as run_all
    from steer.paper.verdicts import tally
    from steer.results.result import RESULT, results_folder

    check_device(device)
    loaded = load_checkpoint(checkpoint, device)
    folder = out or results_folder("reproduce", checkpoint)
    make_folder(folder)
    try:
        with bar("reproducing", 1.0, quiet) as advance:
            found = run_all(loaded, folder, advance, episodes, force)
    except KeyboardInterrupt as error:
        raise interrupted(len(list(folder.glob(f"*/{RESULT}"))), len(paper_recipes())) from error
    for outcome in found.outcomes:
        warn(*(f"{outcome.name}: {reason}" for reason in outcome.undrawn))
    if json:
        files = {outcome.name: [str(picture) for picture in outcome.pictures] for outcome in found.outcomes}
        told = {"checkpoint": found.checkpoint, "claims": found.claims, "pictures": files, "index": str(found.index)}
        typer.echo(dumps(told, indent=1))
        return
    quick = f" ({found.claims[0]['status']})" if episodes else ""
    typer.echo(f"{found.checkpoint}: {len(found.claims)} claims: {tally(found.claims)}{quick}\n")
    for claim in found.claims:
        typer.echo(f"{claim['figure']:7}{claim['claim']}\n{'':7}paper: {claim['paper']}   here: {claim['here']}")
        typer.echo(f"{'':7}{claim['verdict']}   [rule: {claim['rule']}]")
    typer.echo(f"\nindex: {found.index}")
