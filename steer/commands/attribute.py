"""`steer attribute`: who writes the answer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steer.base.shipped import DEFAULT
from steer.commands.attend import EpisodeOption, PromptOption
from steer.commands.options import CheckpointOption, JsonOption, OutOption, QuietOption

if TYPE_CHECKING:
    from steer.anatomy.names import Node
    from steer.experiments.component import Page
    from steer.models.checkpoint import Checkpoint
    from steer.tasks.compositional.episode import Episode

RECIPE = "paper/fig02a_logit_attribution"


def attribute(
    head: Annotated[str | None, typer.Option(help="One head or MLP: its page.")] = None,
    checkpoint: CheckpointOption = DEFAULT,
    episodes: Annotated[int, typer.Option(min=1, max=2_000, help="How many test episodes.")] = 2_000,
    episode: EpisodeOption = None,
    prompt: PromptOption = None,
    out: OutOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Logit attribution of every decoder component, or (--head) one component's page."""
    from steer.base.errors import SteerError

    if head is None:
        if episode is not None or prompt is not None:
            raise SteerError("--episode and --prompt show one head's attention: give --head as well")
        _everything(checkpoint, episodes, out or Path("results"), json, quiet)
        return
    from steer.experiments.attend import choose_episode
    from steer.experiments.component import component_page
    from steer.models.checkpoint import load_checkpoint
    from steer.plan.text import shape_of
    from steer.recipe.schema import Episodes
    from steer.results.result import results_folder
    from steer.tasks.compositional.selection import select

    nodes = shape_of(checkpoint).expand_nodes(head)
    if len(nodes) != 1:
        raise SteerError(f"--head: {head!r} stands for {len(nodes)} components; one is wanted")
    loaded = load_checkpoint(checkpoint)
    example = choose_episode(loaded, episode, prompt)
    page = component_page(loaded, nodes[0], select(Episodes(count=episodes), loaded.record.data_seed))
    _show(page, loaded, nodes[0], example, out or results_folder("attribute", checkpoint, str(nodes[0])), json)


def _everything(checkpoint: str, episodes: int, out: Path, json: bool, quiet: bool) -> None:
    from json import dumps

    from steer.commands.run import run

    changes = [f"checkpoint={dumps(checkpoint)}", f"episodes.count={episodes}"]  # quoted: 007 is a name, too
    run([RECIPE, *changes], out=out, json=json, quiet=quiet)


def _show(page: Page, loaded: Checkpoint, node: Node, example: Episode, folder: Path, json: bool) -> None:
    from json import dumps

    from steer.base.files import make_folder, write_atomically
    from steer.commands.pictures import draw_or_warn
    from steer.drawing.figures.pattern import draw_pattern
    from steer.experiments.attend import attention_pattern

    told = dict(vars(page))
    make_folder(folder)
    pattern = None
    if node.is_head:
        pattern = attention_pattern(loaded, node, example)
        told |= {"pattern": pattern.as_json(), "picture": str(folder / "pattern.png")}
    write_atomically(folder / "page.json", dumps(told, indent=1) + "\n")
    picture = None if pattern is None else draw_or_warn(lambda: draw_pattern(pattern, folder), "pattern")
    if json:
        typer.echo(dumps(told, indent=1))
        return
    typer.echo(_text(page))
    if pattern is not None:
        typer.echo(f"\n{pattern.text()}" + (f"\n\npicture: {picture}" if picture else ""))


def _text(page: Page) -> str:
    lines = [f"{page.component} of {page.checkpoint}, {page.episodes:,} test episodes (95 % intervals)"]
    titles = {
        "logit-attribution": "logit contribution (final LayerNorm frozen)",
        "attention-accuracy": "attention accuracy",
    }
    for measure, title in titles.items():
        rows = [row for row in page.rows if row["measure"] == measure]
        lines += ["", title] if rows else []
        for row in rows:
            place = (
                row["token"]
                if row["token"] != "all"
                else "overall"
                if row["position"] == "all"
                else f"position {row['position']}"
            )
            how = ".1%" if measure == "attention-accuracy" else ".3f"
            lines.append(f"  {place:12}{row['value']:>8{how}}   {row['low']:{how}} to {row['high']:{how}}")
    if page.alignment:
        a = page.alignment
        lines += ["", "OV alignment with the unembedding (middle 95 % of tokens)"]
        lines.append(f"  own row     {a['own_mean']:8.2f}   {a['own_low']:.2f} to {a['own_high']:.2f}")
        lines.append(f"  other rows  {a['null_mean']:8.2f}   {a['null_low']:.2f} to {a['null_high']:.2f}")
        lines.append(f"  above 97.5 % of the others: {a['above_null']:.1%} of {a['tokens']:,} colour tokens")
    return "\n".join([*lines, *(f"({note})" for note in page.left_out)])
