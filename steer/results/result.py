"""The result of one experiment."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from steer.base.arguments import checked
from steer.base.json import Json
from steer.base.shown import Card, Shown, counted
from steer.results.details import Detail
from steer.results.provenance import Provenance
from steer.results.rows import ROW_TITLES, Row, flat, overall, row_lines

if TYPE_CHECKING:
    import pandas as pd
    from torch import Tensor

    from steer.results.directions import Direction
    from steer.results.labelled import Activations, Axes
    from steer.results.samples import Samples

D = TypeVar("D")


@dataclass(repr=False)
class Result(Shown):
    """Rows, what figures need beyond them, the tensors that the recipe names, and where all of it comes from."""

    provenance: Provenance
    rows: list[Row]
    tensors: Mapping[str, Tensor] = field(default_factory=dict)  # `condition/site`: examples first
    details: list[Detail] = field(default_factory=list)
    folder: Path | None = None
    axes: Axes | None = None  # what the axes of the tensors mean, where they were not read from a file
    samples: Samples | None = None  # what each example gave, where that is known
    subspaces: Mapping[str, Direction] = field(default_factory=dict)  # that were learnt, by name; files of their own

    def card(self) -> Card:
        origin, shown = self.provenance, overall(self.rows)
        examples = counted(origin.examples, "example")
        title = f"{origin.name} on {origin.checkpoint.name}: {examples}, {counted(len(self.rows), 'row')}"
        pairs = [("folder", str(self.folder))] if self.folder else []
        pairs += [("tensors", ", ".join(self.tensors))] if self.tensors else []
        return Card(title, pairs, ROW_TITLES, row_lines(shown))

    @property
    def frame(self) -> pd.DataFrame:
        """The rows as a table."""
        import pandas as pd

        frame = pd.DataFrame(map(flat, self.rows))
        return frame.astype({"position": "Int64"}) if len(frame) else frame  # whole numbers; missing: all positions

    def of_kind(self, kind: type[D]) -> list[D]:
        """The details of one class: `result.of_kind(Pattern)`."""
        return [detail for detail in self.details if isinstance(detail, kind)]

    @property
    def known_axes(self) -> Axes | None:
        """What the axes of the tensors mean. A file of tensors is only opened when they are asked for."""
        return self.axes or getattr(self.tensors, "axes", None)

    def activations(self, condition: str) -> Activations:
        """The tensors of one condition by site, with prompts, tokens and lengths beside them."""
        from steer.results.labelled import activations_of

        return activations_of(self.provenance.checkpoint.name, condition, self.tensors, self.known_axes)

    @checked
    def save(self, folder: Path | str) -> Path:
        """Write the result as `steer run` does, without the figures (`steer draw` makes them). Returns the folder."""
        from steer.results.files import write_result

        write_result(self, Path(folder))
        return Path(folder)


def content_hash(recipe: Json, checkpoint_sha256: str, version: str, settings: Json) -> str:
    """The hash of an experiment: the same question about the same weights has the same hash."""
    content = json.dumps([recipe, checkpoint_sha256, version, settings], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()
