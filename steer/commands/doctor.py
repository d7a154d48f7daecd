"""`steer doctor`: is the model that experiments run on the model that was trained?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steer.base.json import Json
from steer.commands.options import DeviceOption, DtypeOption, JsonOption

if TYPE_CHECKING:
    from steer.models.huggingface.doctor import Report
    from steer.models.huggingface.findings import Finding


def doctor(
    checkpoint: Annotated[str, typer.Option("--checkpoint", "-c", help="hf:FOLDER or hf:NAME of the Hub.")],
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

    titles = ("check", "", "largest difference", "allowed", "of", "where")
    table = make_table(titles, map(_line, report.findings), ("largest difference", "allowed", "of"))
    runs = "runs refuse the model" if report.refused else "runs do not look for that: know why before you trust them"
    verdict = (
        "every check holds" if report.ok else f"{len(report.failed)} of {len(report.findings)} checks fail; {runs}"
    )
    below = "differences are parts of a value's own spread; of effects it is the least, in logits"
    return render(f"{report.name}, {report.dtype}: {verdict}", table, below, *report.notes)


def _line(finding: Finding) -> tuple[str, ...]:
    allowed = f"more than {finding.tolerance:.0g}" if finding.is_effect else f"{finding.tolerance:.0e}"
    shown = finding.place if not finding.ok else ""
    state = "ok" if finding.ok else "FAILS"
    return (finding.words, state, f"{finding.difference:.1e}", allowed, f"{finding.of:,}", shown)
