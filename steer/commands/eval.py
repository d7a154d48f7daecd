"""`steer eval`: how right a checkpoint is on the held-out episodes."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from steer.base.shipped import DEFAULT
from steer.commands.options import CheckpointOption, DeviceOption, JsonOption, OutOption, QuietOption
from steer.tasks.compositional.splits import SplitName


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
    from steer.commands.pictures import draw_or_warn
    from steer.commands.progress import bar
    from steer.experiments.accuracy import accuracy, strict
    from steer.models.checkpoint import load_checkpoint
    from steer.models.devices import check_device
    from steer.results.result import results_folder
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
        rows = strict(loaded.model, slices, lambda done: advance(done, ""))
        result = accuracy(loaded.model, episodes, lambda done: advance(strictly + done, ""), trained)
    report = {"checkpoint": loaded.name, "split": split, "strict": rows} | result
    write_atomically(folder / "result.json", dumps(report, indent=1) + "\n")

    from steer.drawing.figures.accuracy import draw_accuracy

    picture = draw_or_warn(lambda: draw_accuracy(report, folder), "accuracy")
    if json:
        typer.echo(dumps(report, indent=1))
        return
    typer.echo(_table(report) + (f"\n\npicture: {picture}" if picture else ""))


def _table(report: dict[str, Any]) -> str:
    from steer.experiments.accuracy import NEW

    strictly = ["questions that must be composed", *(_line(row) for row in report["strict"]), ""]
    lines = [f"{'':52}{'episodes':>9}{'exact match':>13}   95 % interval", *(strictly if report["strict"] else [])]
    lines += [f"the {report['split']} split", *(_line(row) for row in report["groups"])]
    if any(row["group"] == NEW for row in report["groups"]):
        lines.append(f"\n{NEW}: in no training episode, whatever its symbols and colours are called and in which order")
    lines.append(f"token accuracy {report['token_accuracy']:.2%}, perplexity {report['perplexity']:.4g}")
    return "\n".join([f"{report['checkpoint']}, greedy decoding", *lines])


def _line(row: dict[str, Any]) -> str:
    if not row["episodes"]:
        return f"  {row['group']:50}{'–':>9}   longer than the model's prompts"
    low, high = row["interval"]
    return f"  {row['group']:50}{row['episodes']:>9,}{row['exact_match']:>12.1%}   {low:.1%} to {high:.1%}"
