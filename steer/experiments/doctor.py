"""A Hugging Face model examined: its steps, its tokens, and both on a user's own prompts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from steer.base.errors import SteerError
from steer.models.families import family_of
from steer.models.huggingface.doctor import LONGEST_WINDOW, Report, examine
from steer.models.huggingface.family import HuggingFaceFamily
from steer.models.huggingface.load import load_model
from steer.models.huggingface.model import HuggingFaceModel
from steer.models.huggingface.place import resolve
from steer.models.huggingface.same_tokens import same_tokens
from steer.tasks.prompts.formats import named
from steer.tasks.prompts.read import read_lines
from steer.tasks.prompts.task import read_prompts
from steer.tasks.task import Example

UNCOMPARED = (
    "how texts are cut was not compared: transformers reads no tokenizer by this folder's tokenizer_config.json"
)
TEXTS = ("a", "The cat sat on the mat.", " two  blanks, a tab\tand 3,141.59 euros", "naïve café – «quoted» 北京 🙂")


def examine_model(checkpoint: str, task: Path | None, device: str, dtype: str) -> Report:
    from steer.models.devices import check_device, check_dtype

    family, name = family_of(checkpoint)
    if not isinstance(family, HuggingFaceFamily):
        raise SteerError(f"{checkpoint} is no Hugging Face model: its steps are its only forward pass (say hf:FOLDER)")
    check_dtype(dtype)
    check_device(device)
    place = resolve(name)
    tokenizer = family.tokenizer(name)
    file = named(task) if task else None
    shown = read_prompts(*file, tokenizer, str(task)).split("all", 0) if file else ()
    texts = [line.prompt for line in read_lines(*file)[0].values()][:100] if file else list(TEXTS)
    model = load_model(place, device, dtype)
    report = examine(model, (), checkpoint)
    if shown:
        ordered = sorted(shown, key=lambda example: len(example.prompt) + len(example.answer))
        more = examine(model, [ordered[-1], ordered[0]], checkpoint)
        own = (replace(finding, words=f"{finding.words} (your prompts)") for finding in more.findings)
        report = replace(report, findings=(*report.findings, *own), notes=(*report.notes, *more.notes))
    other = same_tokens(place, tokenizer, texts)
    notes = (*report.notes, *notes_of(model, shown), *(() if other else (UNCOMPARED,)))
    return replace(report, findings=(*report.findings, *([other] if other else ())), notes=notes)


def notes_of(model: HuggingFaceModel, shown: Sequence[Example]) -> tuple[str, ...]:
    """What these checks cannot have seen."""
    longest = max((len(example.prompt) + len(example.answer) for example in shown), default=LONGEST_WINDOW)
    beyond = sorted(window for window in model.module.windows if window > longest)
    text = "no text was longer than the model's window of {:,} tokens: give prompts that long with --task"
    return tuple(text.format(window) for window in beyond[:1])
