"""`steer direction`: a direction at a site, found and written to a file that recipes can add or project out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from steer.base.shipped import DEFAULT
from steer.commands.completion import complete_site
from steer.commands.options import CheckpointOption, DeviceOption, JsonOption
from steer.commands.subjects import TaskOption


def direction(
    out: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write it (.safetensors).")],
    site: Annotated[
        str,
        typer.Option(help="Whose features: enc-self-0.5.z, enc-mlp-1, dec-resid-1.mid.", autocompletion=complete_site),
    ] = "",
    way: Annotated[
        Literal["difference", "principal", "probe"],
        typer.Option("--by", help="Of two groups' means; principal components; a linear probe."),
    ] = "difference",
    label: Annotated[str, typer.Option(help="The label whose tokens are looked at (index-in-question).")] = "",
    tokens: Annotated[str, typer.Option(help="Which tokens carry the label, if several kinds do.")] = "",
    values: Annotated[
        tuple[int, int] | None,
        typer.Option(metavar="A B", help="Two values of the label: the mean of B's minus that of A's."),
    ] = None,
    variable: Annotated[str, typer.Option(help="The difference between counterparts in this variable.")] = "",
    rows: Annotated[int, typer.Option(min=1, help="How many principal components.")] = 1,
    sae: Annotated[Path | None, typer.Option(help="A SAELens folder: take one of its decoder rows instead.")] = None,
    feature: Annotated[int, typer.Option(min=0, help="Which row of it.")] = 0,
    checkpoint: CheckpointOption = DEFAULT,
    episodes: Annotated[int, typer.Option(min=1, max=10_000, help="How many examples to look at.")] = 500,
    split: Annotated[str, typer.Option(help="Of which split (default: not the one that recipes are judged on).")] = "",
    seed: Annotated[int, typer.Option(min=0, help="Of the choice of examples and of the probe's.")] = 0,
    task: TaskOption = None,
    device: DeviceOption = "cpu",
    json: JsonOption = False,
) -> None:
    """Find a direction at a site. Recipes name the file: `add: {direction: FILE, scale: 2}`."""
    from json import dumps

    from steer.experiments.examining import direction as find

    made = find(
        out, site=site, way=way, label=label, tokens=tokens, values=values, variable=variable, rows=rows, sae=sae,
        feature=feature, checkpoint=checkpoint, episodes=episodes, split=split, seed=seed, task=task, device=device,
    )  # fmt: skip
    about = made.about.model_dump(mode="json") | {"file": str(out), "rows": len(made.rows), "features": made.size}
    if json:
        typer.echo(dumps(about, indent=1))
        return
    typer.echo(f"{made.about.words}: {len(made.rows)} x {made.size} at {made.about.site or 'no site'}")
    for name, score in made.about.scores.items():
        typer.echo(f"  {name:<20} {score:.3f}")
    typer.echo(f"written to {out}")
