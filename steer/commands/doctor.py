"""`steer doctor`: is the model that experiments run on the model that was trained?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steer.base.json import Json
from steer.commands.completion import complete_model
from steer.commands.options import DeviceOption, DtypeOption, JsonOption

if TYPE_CHECKING:
    from steer.models.huggingface.doctor import Report


def doctor(
    checkpoint: Annotated[
        str, typer.Option("--checkpoint", "-c", help="hf:FOLDER or hf:NAME of the Hub.", autocompletion=complete_model)
    ],
    task: Annotated[
        Path | None, typer.Option(help="A file of prompts: checks are made on its longest and shortest, too.")
    ] = None,
    device: DeviceOption = "cpu",
    dtype: DtypeOption = "float32",
    json: JsonOption = False,
) -> None:
    """Check a Hugging Face model's steps against its own forward pass: what was compared, and by how much it holds."""
    from json import dumps

    from steer.experiments.examining import doctor as examine

    report = examine(checkpoint, task=task, device=device, dtype=dtype)
    typer.echo(dumps(_json(report), indent=1) if json else _text(report))
    if not report.ok:
        raise typer.Exit(1)


def _json(report: Report) -> Json:
    from dataclasses import asdict

    return {"checkpoint": report.name, "dtype": report.dtype, "ok": report.ok, "notes": list(report.notes)} | {
        "checks": [asdict(finding) | {"ok": finding.ok} for finding in report.findings]
    }


def _text(report: Report) -> str:
    from steer.drawing.tables import make_table, render

    card = report.card()
    return render(card.title, make_table(card.columns, card.rows, card.columns[2:5]), *card.text.splitlines())
