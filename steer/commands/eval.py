"""`steer eval`: accuracy of a checkpoint on the held-out episodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import typer

from steer.base.shipped import DEFAULT
from steer.commands.options import (
    CheckpointOption,
    DeviceOption,
    JsonOption,
    OutOption,
    QuietOption,
    SplitOption,
    check_split,
)

if TYPE_CHECKING:
    from steer.results.evaluation import Evaluation, GroupScore


def evaluate(
    checkpoint: CheckpointOption = DEFAULT,
    split: SplitOption = "test",
    out: OutOption = None,
    device: DeviceOption = "cpu",
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Exact match under greedy decoding: on questions that must be composed, then on a split by kind of question."""
    from json import dumps

    from steer.base.files import make_folder, write_atomically
    from steer.commands.folders import results_folder
    from steer.commands.pictures import draw_or_warn
    from steer.commands.progress import bar
    from steer.experiments.accuracy import accuracy, strict
    from steer.models.checkpoint import load_checkpoint
    from steer.models.devices import check_device
    from steer.results.evaluation import Evaluation

    check_device(device)
    loaded = load_checkpoint(checkpoint, device)
    task, seed = loaded.task, loaded.record.data_seed
    check_split(split, task)
    folder = out or results_folder("eval", checkpoint)
    make_folder(folder)
    trained_on, *_, held_out = task.splits
    episodes, trained = task.split(split, seed), () if split == trained_on else task.split(trained_on, seed)
    slices = task.slices(seed) if split == held_out else {}
    strictly = sum(len(part.examples) for part in slices.values())
    with bar("evaluating", strictly + len(episodes), quiet, unit="episodes") as advance:
        scores = strict(loaded, slices, lambda done: advance(done, ""))
        result = accuracy(loaded, episodes, lambda done: advance(strictly + done, ""), trained)
    report = Evaluation(loaded.name, split, tuple(scores), result, task.words.slices)
    text = dumps(report.to_json(), indent=1)
    write_atomically(folder / "result.json", text + "\n")

    from steer.drawing.figures.accuracy import draw_accuracy

    picture = draw_or_warn(lambda: draw_accuracy(report, folder), "accuracy")
    if json:
        typer.echo(text)
        return
    typer.echo(_table(report, task.notes) + (f"\n\npicture: {picture}" if picture else ""))


def _table(report: Evaluation, notes: Mapping[str, str]) -> str:
    from steer.drawing.tables import make_table, render

    groups, accuracy = report.accuracy.groups, report.accuracy
    lines = [(report.strict_title, "", "", ""), *map(_line, report.strict), ("",) * 4]
    lines = [*(lines if report.strict else []), (f"the {report.split} split", "", "", ""), *map(_line, groups)]
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
