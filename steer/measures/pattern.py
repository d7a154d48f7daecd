"""attention-pattern: attention from token to token on one episode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from steer.anatomy.keyed import KeyedNames
from steer.anatomy.layout import Layout
from steer.anatomy.named import Heads
from steer.anatomy.nodes import Node, Site
from steer.base.errors import Key, KeyedError
from steer.measures.marks import right_entries
from steer.measures.measure import Measure, Reads, Sums, pattern_reads, rows_of
from steer.measures.setting import Setting
from steer.results.details import Detail, Pattern
from steer.results.rows import Row
from steer.tasks.task import Task

if TYPE_CHECKING:
    from steer.models.protocol import Batch, Reading
    from steer.models.vocabulary import Vocabulary
    from steer.results.tally import Floats


class PatternMeasure(Measure):
    """Attention from token to token on one episode."""

    figures: ClassVar[Mapping[str, str]] = {"patterns": "attention-pattern", "story": "attention-pattern"}
    name: Literal["attention-pattern"]
    heads: Annotated[Heads, Field(description="heads to show")]
    episode: Annotated[int, Field(ge=0, description="which of the recipe's episodes, from 0")] = 0
    against: Literal["answer"] = "answer"

    def reads(self, names: KeyedNames, task: Task, key: Key) -> Reads:
        heads = names.heads((*key, "heads"), self.heads)
        return pattern_reads(heads, rows_of(self.name, heads, f"on episode {self.episode}"))

    def sums(self, setting: Setting) -> Sums:
        return Patterns(setting, self)


class Patterns(Sums):
    gathers = ("patterns",)

    def __init__(self, setting: Setting, measure: PatternMeasure) -> None:
        count = len(setting.episodes)
        if measure.episode >= count:
            text = f"attention-pattern asks for episode {measure.episode} of {count}, from 0"
            raise KeyedError([(("episode",), text)])
        self.setting, self.heads, self.number = setting, setting.heads(measure.heads), measure.episode
        self.patterns: dict[tuple[str, Node], Pattern] = {}  # (condition, head)

    def add(self, batch: Batch, condition: str, values: Reading) -> None:
        if self.number not in batch.rows:
            return
        row, episode = batch.rows.index(self.number), self.setting.episodes[self.number]
        for head in self.heads:
            queries, keys = axis_tokens(self.setting.model.layout, head, batch, row, self.setting.vocabulary)
            weights = values[Site(head, "pattern")][row, : len(queries), : len(keys)]
            rounded = tuple(tuple(round(w, 4) for w in line) for line in weights.tolist())
            roles = tuple(self.setting.names.plays(head))
            right = right_entries(self.setting.names, self.setting.task, head, episode, batch, row)
            self.patterns[condition, head] = Pattern(
                str(head), str(episode), episode.answer, queries, keys, rounded, condition, roles=roles, right=right
            )

    def rows(self, weights: Floats) -> list[Row]:
        return []

    def details(self) -> Sequence[Detail]:
        return list(self.patterns.values())


def axis_tokens(
    layout: Layout, head: Node, batch: Batch, row: int, vocabulary: Vocabulary
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The tokens that a head attends from, and those that it attends to, in one row of a batch."""
    ends = layout.sequence(Site(head, "q")), layout.looks_at(head)
    queries, keys = (vocabulary.decode(batch.tokens[end][row][batch.real[end][row]].tolist()) for end in ends)
    return queries, keys
