"""`steer eval`: accuracy of a checkpoint on the held-out episodes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steer.base.shipped import DEFAULT
from steer.commands.options import CheckpointOption, DeviceOption, JsonOption, OutOption, QuietOption, SplitOption

if TYPE_CHECKING:
    from steer.results.evaluation import Evaluation, GroupScore


def evaluate(
    checkpoint: CheckpointOption = DEFAULT,
    split: SplitOption = "test",
    episodes: Annotated[
        Path | None, typer.Option(help="A folder of episode files instead of a split, if the task can read such files.")
    ] = None,
    out: OutOption = None,
    device: DeviceOption = "cpu",
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Exact match under greedy decoding: on questions that must be composed, then on a split by kind of question."""
    from json import dumps

    from steer.base.files import make_folder, write_atomically
    from steer.commands.pictures import draw_or_warn
    from steer.commands.progress import bar
    from steer.experiments.evaluating import evaluate as evaluated
    from steer.experiments.folders import results_folder
    from steer.experiments.given import check_split, checkpoint_of

    own = (episodes.resolve().name,) if episodes else ()
    folder = out or results_folder("eval", checkpoint, *own)
    loaded = checkpoint_of(checkpoint, device)
    check_split(split, loaded.task)
    make_folder(folder)  # once the input is known to be good, and before the long work
    with bar("evaluating", 1.0, quiet) as advance:
        report = evaluated(
            loaded, split=split, episodes=episodes,
            tell=lambda done, total: advance(done / total, f"{done:,} of {total:,} episodes"),
        )  # fmt: skip
    text = dumps(report.to_json(), indent=1)
    write_atomically(folder / "result.json", text + "\n")

    from steer.drawing.figures.accuracy import draw_accuracy

    picture = draw_or_warn(lambda: draw_accuracy(report, folder), "accuracy")
    if json:
        typer.echo(text)
        return
    typer.echo(_table(report, loaded.task.notes) + (f"\n\npicture: {picture}" if picture else ""))


def _table(report: Evaluation, notes: Mapping[str, str]) -> str:
    from steer.drawing.tables import make_table, render

    groups, accuracy = report.accuracy.groups, report.accuracy
    lines = [(report.strict_title, "", "", ""), *map(_line, report.strict), ("",) * 4]
    lines = [*(lines if report.strict else []), (report.title, "", "", ""), *map(_line, groups)]
    below = [text for score in groups if score.group in notes for text in ("", f"{score.group}: {notes[score.group]}")]
    below += [f"token accuracy {accuracy.token_accuracy:.2%}, perplexity {accuracy.perplexity:.4g}"]
    titles = ("", "episodes", "exact match", "95 % interval")
    table = make_table(titles, lines, ("episodes", "exact match"))
    return render(f"{report.checkpoint}, greedy decoding", table, *below)


def _line(score: GroupScore) -> tuple[str, str, str, str]:
    from steer.drawing.tables import interval

    name = f"  {score.group}"
    if score.exact_match is None or score.interval is None:
        return name, "–", "", "longer than the model's prompts"
    return name, f"{score.episodes:,}", f"{score.exact_match:.1%}", interval(*score.interval)
