"""What to know before believing a number, and directions for recipes: `check`, `doctor`, `direction` from Python."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

from steer.base.errors import SteerError, unknown
from steer.base.memory import parse_memory
from steer.base.shipped import DEFAULT
from steer.experiments.given import CheckpointLike, check_split, subject_of

if TYPE_CHECKING:
    from steer.experiments.check import Checked
    from steer.models.huggingface.doctor import Report
    from steer.results.directions import Direction


def check(
    file: Path | str,
    checkpoint: str = DEFAULT,
    *,
    format: str = "steer",  # noqa: A002
    show: int = 3,
    device: str = "cpu",
    dtype: str = "float32",
    memory: str = "4G",
) -> Checked:
    """What to know about a file of prompts: tokens, rivals, counterparts, spans, how often the model is right."""
    from steer.experiments.check import check_prompts
    from steer.models.devices import check_device, check_dtype
    from steer.tasks.prompts.formats import FORMATS, FormatName, named

    if format not in FORMATS:
        raise SteerError(f"--format: {unknown('format', str(format), list(FORMATS))}")
    check_device(device)
    check_dtype(dtype)
    parse_memory(memory)
    given = {"device": device, "dtype": dtype, "memory": memory}
    path, form = named(file) if format == "steer" else (Path(file), cast(FormatName, format))
    return check_prompts(path, form, checkpoint, show, **given)


def doctor(checkpoint: str, *, task: Path | str | None = None, device: str = "cpu", dtype: str = "float32") -> Report:
    """Is the model that experiments run on the model itself? A Hugging Face model's steps against its own pass."""
    from steer.experiments.doctor import examine_model

    return examine_model(checkpoint, None if task is None else Path(task), device, dtype)


def direction(
    out: Path | str | None = None, *, site: str = "", way: Literal["difference", "principal", "probe"] = "difference",
    label: str = "", tokens: str = "", values: tuple[int, int] | None = None, variable: str = "", rows: int = 1,
    sae: Path | str | None = None, feature: int = 0, checkpoint: CheckpointLike = DEFAULT, episodes: int = 500,
    split: str = "", seed: int = 0, task: Path | str | None = None, device: str = "cpu",
) -> Direction:  # fmt: skip
    """A direction at a site, for recipes to add or project out; written to a file, if `out` names one."""
    from steer.experiments.direction import Wanted, find_direction, from_sae
    from steer.results.directions import write_direction

    if sae is not None:
        if site or label or variable:
            raise SteerError("--sae says itself where its rows belong: leave out --site, --label and --variable")
        made = from_sae(Path(sae), feature)
    else:
        if not site or bool(label) == bool(variable):
            raise SteerError("give --site and one of --label and --variable (or --sae)")
        subject = subject_of(checkpoint, device, task=task)
        split = split or [subject.task.splits[0], *subject.task.splits][-2]  # not the one that recipes are judged on
        check_split(split, subject.task)
        wanted = Wanted(site, way, label, tokens, values, variable, rows, seed)
        chosen = subject.task.selection(split=split, count=episodes, seed=seed)
        examples = subject.task.examples(chosen, subject.data_seed, variable or None)
        made = find_direction(subject, wanted, examples)
    if out is not None:
        write_direction(made, Path(out))
    return made
