"""`steer reproduce`: every figure and claim of the paper on one checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from steer.base.shipped import DEFAULT
from steer.commands.options import CheckpointOption, DeviceOption, JsonOption, OutOption, QuietOption

if TYPE_CHECKING:
    from steer.paper.verdicts import Verdict


def reproduce(
    checkpoint: CheckpointOption = DEFAULT,
    out: OutOption = None,
    device: DeviceOption = "cpu",
    episodes: Annotated[
        int | None, typer.Option(min=10, help="At most this many for each recipe: a quick look.")
    ] = None,
    against: Annotated[
        str, typer.Option(help="paper: its claims; authors: the numbers of their notebooks, on their weights.")
    ] = "paper",
    force: Annotated[bool, typer.Option("--force", help="Run again, even if results are saved.")] = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Run every recipe of the paper: figures, a table of its claims, and an index page."""
    from json import dumps

    from steer.base.errors import SteerError, unknown
    from steer.base.files import make_folder
    from steer.commands.folders import results_folder
    from steer.commands.pictures import warn
    from steer.commands.progress import bar
    from steer.drawing.tables import pairs, render
    from steer.experiments.many import interrupted
    from steer.models.checkpoint import load_checkpoint
    from steer.models.devices import check_device
    from steer.paper.reproduce import AGAINST
    from steer.paper.reproduce import reproduce as run_all
    from steer.paper.verdicts import tally
    from steer.results.files import RESULT

    check_device(device)
    if against not in AGAINST:
        raise SteerError(f"--against: {unknown('table of claims', against, list(AGAINST))}")
    loaded = load_checkpoint(checkpoint, device)
    folder = out or results_folder("reproduce", checkpoint, *([] if against == "paper" else [against]))
    make_folder(folder)
    try:
        with bar("reproducing", 1.0, quiet) as advance:
            made = run_all(loaded, folder, advance, episodes, force, AGAINST[against])
    except KeyboardInterrupt as error:
        raise interrupted(len(list(folder.glob(f"*/{RESULT}"))), len(AGAINST[against].recipes())) from error
    for outcome in made.outcomes:
        warn(*(f"{outcome.name}: {reason}" for reason in outcome.undrawn))
    if json:
        files = {outcome.name: [str(picture) for picture in outcome.pictures] for outcome in made.outcomes}
        typer.echo(dumps(made.to_json() | {"pictures": files, "index": str(made.index)}, indent=1))
        return
    quick = f" ({made.claims[0].status})" if episodes else ""
    title = f"{made.checkpoint}: {len(made.claims)} claims: {tally(made.claims)}{quick}"
    typer.echo(render(title, "", pairs(map(_line, made.claims)), "", f"index: {made.index}"))


def _line(claim: Verdict) -> tuple[str, str]:
    text = f"{claim.claim}\npaper: {claim.paper}   here: {claim.here}\n{claim.verdict}   [rule: {claim.rule}]"
    return claim.figure, text
