"""`steer eval`: accuracy of a checkpoint on the held-out episodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from steer.base.shipped import DEFAULT
from steer.commands.options import CheckpointOption, DeviceOption, JsonOption, OutOption, QuietOption
from steer.tasks.compositional.splits import SplitName

if TYPE_CHECKING:
    from steer.results.evaluation import Evaluation, GroupScore


def evaluate(
    checkpoint: CheckpointOption = DEFAULT,
    split: Annotated[SplitName, typer.Option(help="Which of the fixed sets.")] = "test",
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
    from steer.tasks.compositional.slices import make_slices
    from steer.tasks.compositional.splits import make_splits

    check_device(device)
    loaded = load_checkpoint(checkpoint, device)
    folder = out or results_folder("eval", checkpoint)
    make_folder(folder)
    splits = make_splits(loaded.record.data_seed)
    episodes, trained = splits[split], () if split == "train" else splits.train
    slices = make_slices(loaded.record.data_seed) if split == "test" else {}
    strictly = sum(map(len, slices.values()))
    with bar("evaluating", strictly + len(episodes), quiet, unit="episodes") as advance:
        scores = strict(loaded.model, slices, lambda done: advance(done, ""))
        result = accuracy(loaded.model, episodes, lambda done: advance(strictly + done, ""), trained)
    report = Evaluation(loaded.name, split, tuple(scores), result)
    text = dumps(report.to_json(), indent=1)
    write_atomically(folder / "result.json", text + "\n")

    from steer.drawing.figures.accuracy import draw_accuracy

    picture = draw_or_warn(lambda: draw_accuracy(report, folder), "accuracy")
    if json:
        typer.echo(text)
        return
    typer.echo(_table(report) + (f"\n\npicture: {picture}" if picture else ""))


def _table(report: Evaluation) -> str:
    from steer.drawing.tables import make_table, render
    from steer.experiments.accuracy import NEW

    groups, accuracy = report.accuracy.groups, report.accuracy
    lines = [("questions that must be composed", "", "", ""), *map(_line, report.strict), ("",) * 4]
    lines = [*(lines if report.strict else []), (f"the {report.split} split", "", "", ""), *map(_line, groups)]
    notes = [f"token accuracy {accuracy.token_accuracy:.2%}, perplexity {accuracy.perplexity:.4g}"]
    if any(score.group == NEW for score in groups):
        text = "in no training episode, whatever its symbols and colours are called and in which order"
        notes = ["", f"{NEW}: {text}", *notes]
    titles = ("", "episodes", "exact match", "95 % interval")
    table = make_table(titles, lines, ("episodes", "exact match"))
    return render(f"{report.checkpoint}, greedy decoding", table, *notes)


def _line(score: GroupScore) -> tuple[str, str, str, str]:
    from steer.drawing.tables import interval

    name = f"  {score.group}"
    if score.exact_match is None or score.interval is None:
        return name, "–", "", "longer than the model's prompts"
    return name, f"{score.episodes:,}", f"{score.exact_match:.1%}", interval(*score.interval)
