"""A file of prompts and a model: what its tokens tell, and how often the model is right."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from steer.base.errors import SteerError
from steer.base.json import Json
from steer.experiments.api import build_recipe, run
from steer.models.families import load_subject, tokenizer_of
from steer.results.rows import Row, find
from steer.tasks.prompts.check import Facts, facts_of
from steer.tasks.prompts.formats import FormatName
from steer.tasks.prompts.read import read_lines
from steer.tasks.prompts.task import read_prompts

MEASURES = [{"name": "exact-match"}, {"name": "token-accuracy"}]
WEAK = 0.5  # exact match below this: what is measured is mostly of wrong answers


@dataclass(frozen=True)
class Checked:
    file: str
    checkpoint: str
    facts: Facts
    exact: Row | None  # whole answers that are right
    first: Row | None  # first tokens that are
    unanswered: str = ""  # why the model was not asked

    @property
    def is_weak(self) -> bool:
        return self.exact is not None and self.exact.value < WEAK

    def to_json(self) -> Json:
        rows = {name: row and asdict(row) for name, row in (("exact_match", self.exact), ("first_token", self.first))}
        content = {"file": self.file, "checkpoint": self.checkpoint, **asdict(self.facts), **rows}
        return content | ({"unanswered": self.unanswered} if self.unanswered else {})


def check_prompts(
    path: Path, form: FormatName, checkpoint: str, show: int = 3, device: str = "cpu", dtype: str = "float32",
    memory: str = "4G",
) -> Checked:  # fmt: skip
    """Faults of the file are raised before the model is loaded."""
    tokenizer = tokenizer_of(checkpoint)
    facts = facts_of(read_prompts(path, form, tokenizer, str(path)), read_lines(path, form)[0], tokenizer, show)
    task = {"file": str(path.resolve()), "format": form}
    recipe = build_recipe("check", kind="clean", checkpoint=checkpoint, task=task, measures=MEASURES, figure="none")
    subject = load_subject(checkpoint, device, dtype)
    try:
        rows = run(recipe, subject, memory=memory).rows
    except SteerError as error:
        return Checked(str(path), checkpoint, facts, None, None, "; ".join(error.faults))
    first = find(rows, position=1, measure="token-accuracy")
    return Checked(str(path), checkpoint, facts, find(rows, measure="exact-match"), first)
