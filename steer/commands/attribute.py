"""`steer attribute`: which components write the answer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steer.base.shipped import DEFAULT
from steer.commands.attend import EpisodeOption, PromptOption
from steer.commands.options import CheckpointOption, JsonOption, OutOption, QuietOption
from steer.commands.subjects import TaskOption, load_with_task

if TYPE_CHECKING:
    from rich.table import Table

    from steer.anatomy.nodes import Node
    from steer.experiments.component import Page
    from steer.models.subject import Subject
    from steer.results.rows import Row
    from steer.tasks.task import Example

RECIPE = "paper/fig02a_logit_attribution"
TITLES = {
    "logit-attribution": "logit contribution (final norm frozen)",
    "attention-accuracy": "attention accuracy",
}


def attribute(
    head: Annotated[str | None, typer.Option(help="One head or MLP: its page.")] = None,
    checkpoint: CheckpointOption = DEFAULT,
    episodes: Annotated[int, typer.Option(min=1, max=2_000, help="How many test episodes.")] = 2_000,
    episode: EpisodeOption = None,
    prompt: PromptOption = None,
    task: TaskOption = None,
    out: OutOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Logit attribution of every component that the logits read, or (--head) one component's page."""
    from steer.base.errors import SteerError

    if head is None:
        if episode is not None or prompt is not None:
            raise SteerError("--episode and --prompt show one head's attention: give --head as well")
        _everything(checkpoint, task, episodes, out or Path("results"), json, quiet)
        return
    from steer.commands.folders import results_folder
    from steer.experiments.attend import choose_episode
    from steer.experiments.component import component_page
    from steer.models.families import names_of

    nodes = names_of(checkpoint).nodes(head)
    if len(nodes) != 1:
        raise SteerError(f"--head: {head!r} stands for {len(nodes)} components; one is wanted")
    loaded = load_with_task(checkpoint, task)
    example = choose_episode(loaded, episode, prompt)
    chosen = loaded.task.examples(loaded.task.selection(count=episodes), loaded.data_seed)
    page = component_page(loaded, nodes[0], chosen)
    _show(page, loaded, nodes[0], example, out or results_folder("attribute", checkpoint, str(nodes[0])), json)


def _everything(checkpoint: str, task: Path | None, episodes: int, out: Path, json: bool, quiet: bool) -> None:
    from json import dumps

    from steer.commands.run import run

    changes = [
        f"checkpoint={dumps(checkpoint)}",
        f"episodes.count={episodes}",
    ]  # quoted so that a name like 007 is not read as a number
    brought = [] if task is None else [f"task={dumps(str(task.resolve()))}"]
    run([RECIPE, *changes, *brought], out=out, json=json, quiet=quiet)


def _show(page: Page, loaded: Subject, node: Node, example: Example, folder: Path, json: bool) -> None:
    from dataclasses import asdict
    from json import dumps

    from steer.base.files import make_folder, write_atomically
    from steer.commands.pictures import draw_or_warn
    from steer.drawing.figures.pattern import draw_pattern
    from steer.drawing.tables import pattern_text
    from steer.experiments.attend import attention_pattern

    make_folder(folder)
    content, pattern = asdict(page), None
    if node.is_head:
        pattern = attention_pattern(loaded, node, example)
        content |= {"pattern": asdict(pattern), "picture": str(folder / "pattern.png")}
    text = dumps(content, indent=1)
    write_atomically(folder / "page.json", text + "\n")
    picture = None if pattern is None else draw_or_warn(lambda: draw_pattern(pattern, folder), "pattern")
    if json:
        typer.echo(text)
        return
    typer.echo(_text(page, loaded.task.words.token))
    if pattern is not None:
        typer.echo(f"\n{pattern_text(pattern)}" + (f"\n\npicture: {picture}" if picture else ""))


def _text(page: Page, token: str) -> str:
    from steer.drawing.tables import interval, make_table, number, render

    parts: list[Table | str] = [
        f"{page.component} of {page.checkpoint}, {page.examples:,} test episodes (95 % intervals)",
        *filter(None, (page.numbering,)),
    ]
    for measure, title in TITLES.items():
        rows = [row for row in page.rows if row.measure == measure]
        lines = [(f"  {_place(r)}", number(r.value, r.unit), interval(r.low, r.high, r.unit)) for r in rows]
        parts += ["", title, make_table(("", "value", "95 % interval"), lines, ("value",))] if rows else []
    if page.alignment:
        own, others = page.alignment.own, page.alignment.others
        samples = {"  own row": own, "  other rows": others}
        lines = [(name, f"{s.mean:.2f}", f"{s.low:.2f} to {s.high:.2f}") for name, s in samples.items()]
        parts += ["", "OV alignment with the unembedding (middle 95 % of tokens)"]
        parts += [make_table(("", "mean", "middle 95 %"), lines, ("mean",))]
        above, tokens = page.alignment.above_null, page.alignment.tokens
        parts += [f"  above 97.5 % of the others: {above:.1%} of {tokens:,} {token} tokens"]
    return render(*parts, *(f"({note})" for note in page.left_out))


def _place(row: Row) -> str:
    return row.group or ("overall" if row.position is None else f"position {row.position}")
