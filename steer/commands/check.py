"""`steer check`: what one must know about a file of prompts before believing a number."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steer.base.shipped import DEFAULT
from steer.commands.options import CheckpointOption, DeviceOption, DtypeOption, JsonOption, MemoryOption

if TYPE_CHECKING:
    from rich.table import Table

    from steer.experiments.check import Checked
    from steer.tasks.prompts.check import ShownLine


def check(
    file: Annotated[Path, typer.Argument(help="A file of prompts: JSONL, JSON, CSV or Parquet.")],
    checkpoint: CheckpointOption = DEFAULT,
    format: Annotated[
        str, typer.Option(help="Whose columns: steer, eap-ig, auto-circuit, mib or causalab; mib:FILE says the same.")
    ] = "steer",
    show: Annotated[int, typer.Option(min=0, help="How many lines to show as tokens.")] = 3,
    device: DeviceOption = "cpu",
    dtype: DtypeOption = "float32",
    memory: MemoryOption = "4G",
    json: JsonOption = False,
) -> None:
    """Check a file of prompts against a model: tokens, rivals, counterparts, spans, and how often it is right."""
    from json import dumps

    from steer.experiments.examining import check as examine

    checked = examine(file, checkpoint, format=format, show=show, device=device, dtype=dtype, memory=memory)
    typer.echo(dumps(checked.to_json(), indent=1) if json else _page(checked))


def _page(checked: Checked) -> str:
    from steer.drawing.tables import make_table, pairs, render

    parts: list[Table | str] = [f"{checked.file} on {checked.checkpoint}", "", pairs(checked.lines)]
    parts += ["", make_table(("", "", ""), checked.groups)] if checked.groups else []
    for text in checked.remarks:
        parts += [text] if text.startswith("  ") else ["", text]
    for one in checked.facts.shown:
        parts += ["", pairs(_shown(one))]
    return render(*parts)


def _shown(one: ShownLine) -> list[tuple[str, str]]:
    lines = [(one.place, _parted(one.prompt)), ("  answer", _parted(one.answer))]
    lines += [("  wrong", _parted(wrong)) for wrong in one.wrong]
    for name, (prompt, answer) in one.counterparts.items():
        lines += [(f"  {name}", _parted(prompt)), ("    answer", _parted(answer) if answer else "not known")]
    return lines + [(f"  span {name}", _parted(tokens)) for name, tokens in one.spans.items()]


def _parted(tokens: tuple[str, ...]) -> str:
    """Tokens one by one; a blank that is part of one is seen."""
    return " · ".join(token.replace(" ", "␣") for token in tokens)
