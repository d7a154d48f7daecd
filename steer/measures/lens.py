"""logit-lens: what the stream would say if the model ended here.

Every point of the stream that the logits read goes through the model's own last norm and unembedding (nostalgebraist,
2020). At the last point that is the model's own answer; before it, how far the answer has come. It says what can be
read off, not what is used: for that the point is edited.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from steer.anatomy.keyed import KeyedNames
from steer.anatomy.layout import Layout
from steer.anatomy.named import AnySites
from steer.anatomy.nodes import Site
from steer.base.errors import Key
from steer.measures.measure import Measure, Reads, Sums
from steer.measures.setting import Counted, Setting
from steer.results.rows import Labels, Row
from steer.tasks.task import ANSWER, Task

if TYPE_CHECKING:
    from torch import Tensor

    from steer.models.protocol import Batch, Reading
    from steer.results.tally import Floats

ALL = "all"


class LensMeasure(Measure):
    """How likely each point of the stream, read out as if the model ended there, makes the right next token."""

    by_site: ClassVar[bool] = True
    step_by_step: ClassVar[bool] = True
    name: Literal["logit-lens"]
    sites: Annotated[AnySites, Field(description="points of the stream that the logits read (default: all)")] = ()
    value: Annotated[
        Literal["probability", "accuracy"], Field(description="of the token, or how often it is the likeliest")
    ] = "probability"
    against: Annotated[Literal["answer", "counterfactual"], Field(description="whose tokens")] = "answer"

    @property
    def apart(self) -> bool:
        return True

    def reads(self, names: KeyedNames, task: Task, key: Key) -> Reads:
        points = lens_points(names.layout)
        named = names.sites((*key, "sites"), self.sites) if self.sites else points
        for site in named:
            if site not in points:
                text = (
                    f"{site} is no point of the stream that the logits read; there are: {', '.join(map(str, points))}"
                )
                names.fault((*key, "sites"), text, site)
        rows = tuple((self.name, f"of {site}", self.against) for site in named)
        return Reads(tuple(named), tuple(named), rows)

    def sums(self, setting: Setting) -> Sums:
        return Lens(setting, self)

    def compared(self, setting: Setting, batch: Batch, value: Tensor) -> Tensor:
        return batch.at(ANSWER, value)


def lens_points(layout: Layout) -> list[Site]:
    """The points of the stream that the logits read."""
    return [point for point, stream in layout.points.items() if stream == layout.streams[-1].name]


class Lens(Counted):
    def __init__(self, setting: Setting, measure: LensMeasure) -> None:
        super().__init__(setting)
        self.measure = measure
        named = [site for text in measure.sites for site in setting.names.sites(text)]
        self.points = list(dict.fromkeys(named)) or lens_points(setting.model.layout)

    def add(self, batch: Batch, condition: str, values: Reading) -> None:
        target = self.setting.target(batch, self.measure.against)
        counted, accuracy = self.setting.scoring.counts(target), self.measure.value == "accuracy"
        for point in self.points:
            logits = self.setting.model.lens(batch.at(ANSWER, values[point])).double()  # B T V
            tokens = self.setting.known(target)[..., None]
            likely = logits.softmax(-1).gather(-1, tokens)[..., 0]
            numbers = (logits.argmax(-1) == target).double() if accuracy else likely
            labels = Labels(condition, self.measure.name, str(point), self.measure.against)
            self.book.put(batch, self.positions, numbers, counted, accuracy, labels)

    def rows(self, weights: Floats) -> list[Row]:
        """With the point as their site and the step as their place, for the map."""
        return [
            replace(row, site=row.of, place=ALL if row.position is None else str(row.position))
            for row in super().rows(weights)
        ]
