"""A file of prompts and a model: what its tokens tell, and how often the model is right."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from steer.base.errors import SteerError
from steer.base.json import Json
from steer.base.shown import Card, Shown
from steer.drawing.tables import interval
from steer.experiments.api import build_recipe, run
from steer.models.families import load_subject, tokenizer_of
from steer.results.rows import Row, find, number
from steer.tasks.prompts.check import Facts, facts_of
from steer.tasks.prompts.formats import FormatName
from steer.tasks.prompts.read import read_lines
from steer.tasks.prompts.task import read_prompts

MEASURES = [{"name": "exact-match"}, {"name": "token-accuracy"}]
WARNING = "The model is wrong on most of these lines: what is measured on them says little about how it is right."
WEAK = 0.5  # exact match below this: what is measured is mostly of wrong answers


@dataclass(frozen=True, repr=False)
class Checked(Shown):
    file: str
    checkpoint: str
    facts: Facts
    exact: Row | None  # whole answers that are right
    first: Row | None  # first tokens that are
    unanswered: str = ""  # why the model was not asked

    @property
    def is_weak(self) -> bool:
        return self.exact is not None and self.exact.value < WEAK

    def card(self) -> Card:
        return Card(f"{self.file} on {self.checkpoint}", self.lines, ("", "", ""), self.groups, "\n".join(self.remarks))

    @property
    def lines(self) -> list[tuple[str, str]]:
        """How many lines and tokens there are, and how often the model is right."""
        few, most = self.facts.prompt_tokens
        counts = (f"{tokens} ({lines} lines)" for tokens, lines in self.facts.answer_tokens.items())
        return [
            ("lines", f"{self.facts.lines:,}"),
            ("tokens of a prompt", f"{few}" if few == most else f"{few} to {most}"),
            ("tokens of an answer", ", ".join(counts)),
            ("exact match", _share(self.exact)),
            ("first token", _share(self.first)),
        ]

    @property
    def groups(self) -> list[tuple[str, ...]]:
        """Each counterpart and each span, with what was counted of it."""
        groups = [("counterpart", name, counted) for name, counted in self.facts.counterparts.items()]
        groups += [("span", name, counted) for name, counted in self.facts.spans.items()]
        return [(kind, name, ", ".join(f"{n:,} {word}" for word, n in tally.items())) for kind, name, tally in groups]

    @property
    def remarks(self) -> list[str]:
        """What to know before believing a number; lines that it is about stand indented under it."""
        said = [f"The model was not asked: {self.unanswered}"] if self.unanswered else []
        said += [WARNING] if self.is_weak else []
        for remark in self.facts.remarks:
            more = f" and {remark.count - len(remark.lines):,} more" * (remark.count > len(remark.lines))
            said += [f"{remark.about}, {remark.count:,} of {self.facts.lines:,} lines: {remark.text}"]
            said += [f"  {', '.join(remark.lines)}{more}"]
        return said

    def to_json(self) -> Json:
        rows = {name: row and asdict(row) for name, row in (("exact_match", self.exact), ("first_token", self.first))}
        content = {"file": self.file, "checkpoint": self.checkpoint, **asdict(self.facts), **rows}
        return content | ({"unanswered": self.unanswered} if self.unanswered else {})


def _share(row: Row | None) -> str:
    if row is None:
        return "not asked"
    return f"{number(row.value)} ({interval(row.low, row.high)}) of {row.counted:,}"


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
