"""What all measures of one experiment share: the model, the episodes and the answers they are compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from steer.anatomy.nodes import Node
from steer.measures.measure import Measure, Sums
from steer.results.rows import JOINT, Labels, Row
from steer.results.tally import Floats, Tally
from steer.tasks.task import Example

if TYPE_CHECKING:
    from torch import Tensor

    from steer.models.protocol import Batch
    from steer.models.subject import Subject


class Setting:
    def __init__(
        self, subject: Subject, episodes: Sequence[Example], measures: Sequence[Measure], seed: int = 0,
        counterfactual: Sequence[Example] = (), warnings: Mapping[str, str] | None = None, warning: str = "",
        own: str = "",
    ) -> None:  # fmt: skip
        """`counterfactual`: the episodes with the answers that an intervention predicts, where a measure asks for them.
        `seed`: of the intervals. `warnings`: condition -> what its numbers must not be read without; `warning`: the
        same of all of them. `own`: the condition in which the episodes' own prompts are answered, nothing changed."""
        self.names, self.model, self.episodes = subject.names, subject.model, episodes
        self.task, self.vocabulary, self.scoring = subject.task, subject.scoring.vocabulary, subject.scoring
        self.measures, self.seed, self.warnings, self.warning = measures, seed, warnings or {}, warning
        self.own = own
        self.answers = {"answer": list(episodes), "counterfactual": list(counterfactual)}
        self._targets: dict[tuple[int, str], Tensor] = {}

    def target(self, batch: Batch, against: str) -> Tensor:
        """The tokens that each step should say: B T."""
        key = (batch.number, against)
        if key not in self._targets:
            self._targets[key] = self.model.encode(self.answers[against], batch.rows).target
        return self._targets[key]

    def known(self, target: Tensor) -> Tensor:
        """The same ids, fit to look up a token: what fills a target behind its answer need not be one."""
        return target.clamp(0, len(self.model.readout.bias) - 1)

    def alternatives(self, batch: Batch) -> list[tuple[int, ...]]:
        """For each example of a batch the tokens whose mean logit a logit is compared with."""
        return self.scoring.alternatives([self.episodes[row] for row in batch.rows])

    def warned(self, row: Row, arrived: str = "") -> Row:
        """The row with what must be said about its condition."""
        texts = (arrived, self.warnings.get(row.condition), row.warning, self.warning)
        return replace(row, warning=JOINT.join(text for text in texts if text))

    def heads(self, texts: Sequence[str]) -> list[Node]:
        return list(dict.fromkeys(node for text in texts for node in self.names.heads(text)))


@dataclass(frozen=True)
class Page:
    """What the examples of one batch gave: rows of a tally."""

    rows: list[int]
    values: Floats  # B P
    counted: Floats  # B P
    positions: int  # of the whole tally
    hits: bool


class TallyBook(dict[tuple[Labels, int], Page]):
    """Pages by labels and number of the batch: a page that is put in twice counts once."""

    def __init__(self, episodes: int) -> None:
        super().__init__()
        self.episodes = episodes

    def put(self, batch: Batch, positions: int, values: Tensor, counted: Tensor, hits: bool, labels: Labels) -> None:
        """Extra positions are cut off."""
        numbers, counts = values[:, :positions].cpu().numpy(), counted[:, :positions].double().cpu().numpy()
        self[labels, batch.number] = Page(batch.rows, numbers, counts, positions, hits)

    @property
    def tallies(self) -> dict[Labels, Tally]:
        tallies: dict[Labels, Tally] = {}
        for (labels, _), page in self.items():
            tally = tallies.setdefault(labels, Tally(self.episodes, page.positions, page.hits, labels))
            tally.put(page.rows, page.values, page.counted)
        return tallies

    def rows(self, weights: Floats) -> list[Row]:
        return [row for tally in self.tallies.values() for row in tally.table(weights)]


class Counted(Sums):
    """A number for every episode and output position: rows from tallies."""

    gathers: ClassVar[tuple[str, ...] | None] = ("book",)

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.book = TallyBook(len(setting.episodes))
        self.positions = setting.task.longest_answer

    def rows(self, weights: Floats) -> list[Row]:
        return self.book.rows(weights)

    def tallies(self) -> Sequence[Tally]:
        return tuple(self.book.tallies.values())
