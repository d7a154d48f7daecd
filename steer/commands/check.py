"""`steer check`: what one must know about a file of prompts before believing a number."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steer.base.shipped import DEFAULT
from steer.commands.options import CheckpointOption, DeviceOption, DtypeOption, JsonOption, MemoryOption

if TYPE_CHECKING:
    from rich.table import Table

    from steer.experiments.check import Checked
    from steer.results.rows import Row
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

    facts = checked.facts
    few, most = facts.prompt_tokens
    counts = ", ".join(f"{tokens} ({lines} lines)" for tokens, lines in facts.answer_tokens.items())
    head = [("lines", f"{facts.lines:,}"), ("tokens of a prompt", f"{few}" if few == most else f"{few} to {most}")]
    head += [
        ("tokens of an answer", counts),
        ("exact match", _share(checked.exact)),
        ("first token", _share(checked.first)),
    ]
    groups = [("counterpart", name, counted) for name, counted in facts.counterparts.items()]
    groups += [("span", name, counted) for name, counted in facts.spans.items()]
    lines = [(kind, name, ", ".join(f"{n:,} {word}" for word, n in tally.items())) for kind, name, tally in groups]
    parts: list[Table | str] = [f"{checked.file} on {checked.checkpoint}", "", pairs(head)]
    parts += ["", make_table(("", "", ""), lines)] if lines else []
    for text in _remarks(checked):
        parts += [text] if text.startswith("  ") else ["", text]
    for one in facts.shown:
        parts += ["", pairs(_shown(one))]
    return render(*parts)


def _share(row: Row | None) -> str:
    from steer.drawing.tables import interval
    from steer.results.rows import number

    if row is None:
        return "not asked"
    return f"{number(row.value)} ({interval(row.low, row.high)}) of {row.counted:,}"


def _remarks(checked: Checked) -> Iterator[str]:
    if checked.unanswered:
        yield f"The model was not asked: {checked.unanswered}"
    if checked.is_weak:
        yield "The model is wrong on most of these lines: what is measured on them says little about how it is right."
    for remark in checked.facts.remarks:
        more = f" and {remark.count - len(remark.lines):,} more" * (remark.count > len(remark.lines))
        yield f"{remark.about}, {remark.count:,} of {checked.facts.lines:,} lines: {remark.text}"
        yield f"  {', '.join(remark.lines)}{more}"


def _shown(one: ShownLine) -> list[tuple[str, str]]:
    lines = [(one.place, _parted(one.prompt)), ("  answer", _parted(one.answer))]
    lines += [("  wrong", _parted(wrong)) for wrong in one.wrong]
    for name, (prompt, answer) in one.counterparts.items():
        lines += [(f"  {name}", _parted(prompt)), ("    answer", _parted(answer) if answer else "not known")]
    return lines + [(f"  span {name}", _parted(tokens)) for name, tokens in one.spans.items()]


def _parted(tokens: tuple[str, ...]) -> str:
    """Tokens one by one; a blank that is part of one is seen."""
    return " · ".join(token.replace(" ", "␣") for token in tokens)
