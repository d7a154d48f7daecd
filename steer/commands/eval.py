"""`steer eval`: accuracy of a checkpoint on the held-out episodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
    from steer.models.checkpoint import Checkpoint
    from steer.results.evaluation import Evaluation, GroupScore
    from steer.tasks.task import Example, Slice


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
    from steer.commands.folders import results_folder
    from steer.models.checkpoint import load_checkpoint
    from steer.models.devices import check_device

    check_device(device)
    loaded = load_checkpoint(checkpoint, device)
    check_split(split, loaded.task)
    shown = _shown_of_folder(loaded, episodes) if episodes else _shown_of_split(loaded, split)
    own = (episodes.resolve().name,) if episodes else ()
    _report(loaded, shown, out or results_folder("eval", checkpoint, *own), json, quiet)


@dataclass(frozen=True)
class Shown:
    """The examples on which a model is evaluated."""

    name: str
    episodes: Sequence[Example]
    trained: Sequence[Example] = ()  # what it was trained on, to tell what is new
    slices: Mapping[str, Slice] = field(default_factory=dict)
    folder: str = ""  # that they were read from; empty: a split of the task


def _shown_of_folder(loaded: Checkpoint, folder: Path) -> Shown:
    from steer.experiments.examples import check_lengths

    episodes = loaded.task.read(folder)
    check_lengths(episodes, loaded)
    return Shown(folder.resolve().name, episodes, folder=str(folder))


def _shown_of_split(loaded: Checkpoint, split: str) -> Shown:
    task, seed = loaded.task, loaded.record.data_seed
    trained_on, *_, held_out = task.splits
    trained = () if split == trained_on else task.split(trained_on, seed)
    slices = task.slices(seed) if split == held_out else {}
    return Shown(split, task.split(split, seed), trained, slices)


def _report(loaded: Checkpoint, shown: Shown, folder: Path, json: bool, quiet: bool) -> None:
    from json import dumps

    from steer.base.files import make_folder, write_atomically
    from steer.commands.pictures import draw_or_warn
    from steer.commands.progress import bar
    from steer.experiments.accuracy import accuracy, strict
    from steer.results.evaluation import Evaluation

    make_folder(folder)
    strictly = sum(len(part.examples) for part in shown.slices.values())
    with bar("evaluating", strictly + len(shown.episodes), quiet, unit="episodes") as advance:
        scores = strict(loaded, shown.slices, lambda done: advance(done, ""))
        result = accuracy(loaded, shown.episodes, lambda done: advance(strictly + done, ""), shown.trained)
    report = Evaluation(loaded.name, shown.name, tuple(scores), result, loaded.task.words.slices, shown.folder)
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
