"""`steer attribute`: which components write the answer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steer.base.shipped import DEFAULT
from steer.commands.completion import complete_node
from steer.commands.options import (
    CheckpointOption,
    DeviceOption,
    DtypeOption,
    EpisodeOption,
    FormatOption,
    JsonOption,
    MemoryOption,
    OutOption,
    PromptOption,
    QuietOption,
)
from steer.commands.subjects import Given, TaskOption

if TYPE_CHECKING:
    from steer.drawing.look import Look
    from steer.experiments.component import Page
    from steer.results.details import Pattern

FEW = 50  # episodes: so few that a second thread would only wait


def attribute(
    head: Annotated[str | None, typer.Option(help="One head or MLP: its page.", autocompletion=complete_node)] = None,
    checkpoint: CheckpointOption = DEFAULT,
    episodes: Annotated[int, typer.Option(min=1, max=2_000, help="How many test episodes.")] = 2_000,
    episode: EpisodeOption = None,
    prompt: PromptOption = None,
    task: TaskOption = None,
    out: OutOption = None,
    device: DeviceOption = "cpu",
    dtype: DtypeOption = "float32",
    memory: MemoryOption = "4G",
    formats: FormatOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Who writes the answer and who is needed for it: every component, or (--head) one component's page."""
    from steer.base.errors import SteerError
    from steer.commands.glance import at_a_glance
    from steer.commands.run import run
    from steer.drawing.look import look_of

    if episodes <= FEW:
        at_a_glance()
    given: Given = {"task": task, "device": device, "dtype": dtype, "memory": memory}
    if head is None:
        if episode is not None or prompt is not None:
            raise SteerError("--episode and --prompt show one head's attention: give --head as well")
        everything = _changes(checkpoint, task, episodes)
        folder = out or Path("results")
        run(everything, folder, device, dtype, memory, formats=formats, json=json, quiet=quiet)
        if episodes > 1 and not json:  # the mean over one episode is that episode
            _both(checkpoint, episodes, folder, given, quiet)
        return
    from steer.experiments.folders import results_folder
    from steer.experiments.looking import attend, component
    from steer.models.families import names_of

    look, nodes, pattern = look_of(formats or ()), names_of(checkpoint).nodes(head), None
    if len(nodes) == 1 and nodes[0].is_head:  # first: a prompt that cannot be read is answered before the long work
        pattern = attend(str(nodes[0]), prompt, episode=episode, checkpoint=checkpoint, **given)
    page = component(head, checkpoint, episodes=episodes, **given)
    _show(page, pattern, out or results_folder("attribute", checkpoint, page.component), look, json)


def _changes(checkpoint: str, task: Path | None, episodes: int) -> list[str]:
    """The recipe that attributes to everything, with what is asked of it."""
    from json import dumps

    from steer.experiments.looking import ATTRIBUTION

    # The name is quoted so that one like 007 is not read as a number.
    changes = [f"checkpoint={dumps(checkpoint)}", f"episodes.count={episodes}"]
    return [ATTRIBUTION, *changes, *([] if task is None else [f"task={dumps(str(task.resolve()))}"])]


def _both(checkpoint: str, episodes: int, out: Path, given: Given, quiet: bool) -> None:
    """Attribution beside ablation: writing much is no proof of being needed."""
    from steer.commands.progress import bar
    from steer.drawing.tables import make_table, render
    from steer.experiments.looking import FEW as FEWER
    from steer.experiments.looking import attribute as find_writers
    from steer.experiments.looking import both_columns, needed

    with bar("ablating each", 1.0, quiet) as advance:
        left = needed(
            checkpoint, episodes=min(episodes, FEWER), out=out, tell=lambda done: advance(done, "needed"), **given
        )  # fmt: skip
    writes = find_writers(checkpoint, episodes=episodes, out=out, **given)
    clean = next(row for row in left.rows if row.end == "nothing" and row.position is None)
    titles = ("component", "writes (logit)", "95 % interval", "exact match without it", " 95 % interval")
    table = make_table(titles, both_columns(writes, left), titles[1::2])
    count = f"{writes.provenance.examples:,} and {left.provenance.examples:,} episodes"
    said = f"who writes, and who is needed ({count}; exact match of the whole model {clean.value:.1%}): {left.folder}"
    typer.echo(render("", said, "", table))


def _show(page: Page, pattern: Pattern | None, folder: Path, look: Look, json: bool) -> None:
    from dataclasses import asdict
    from json import dumps

    from steer.base.files import make_folder, write_atomically
    from steer.commands.pictures import draw_or_warn
    from steer.drawing.figures.pattern import draw_pattern
    from steer.drawing.tables import pattern_text, render
    from steer.experiments.component import page_parts

    make_folder(folder)
    content = asdict(page)
    if pattern is not None:
        content |= {"pattern": asdict(pattern), "picture": str(folder / "pattern.png")}
    text = dumps(content, indent=1)
    write_atomically(folder / "page.json", text + "\n")
    picture = None if pattern is None else draw_or_warn(lambda: draw_pattern(pattern, folder, look=look), "pattern")
    if json:
        typer.echo(text)
        return
    typer.echo(render(*page_parts(page)))
    if pattern is not None:
        typer.echo(f"\n{pattern_text(pattern)}" + (f"\n\npicture: {picture}" if picture else ""))
