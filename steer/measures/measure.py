"""What a measure is: one file with a subclass of `Measure`. Its fields are its keys in a recipe.

Recipes are checked without torch, so nothing in this room imports torch while it is loaded.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from steer.anatomy.keyed import KeyedNames
from steer.anatomy.layout import Layout
from steer.anatomy.nodes import Node, Site
from steer.base.errors import Key
from steer.base.fields import Fields
from steer.base.yaml import Strict
from steer.tasks.task import Task

if TYPE_CHECKING:
    from torch import Tensor

    from steer.measures.setting import Setting
    from steer.models.protocol import Batch, Reading
    from steer.results.details import Detail
    from steer.results.rows import Row
    from steer.results.tally import Floats, Tally

RowNames: TypeAlias = tuple[tuple[str, ...], ...]
Gathered: TypeAlias = dict[str, dict[Any, Any]]  # by the name of a dictionary


@dataclass(frozen=True)
class Reads:
    """What one measure reads, and which of it its numbers are made of."""

    all: tuple[Site, ...]
    numbers: tuple[Site, ...]
    rows: RowNames  # the names of its rows: no two measures may give the same


class Sums(ABC):
    """One measure in every condition. Rows are tidy numbers; details are what a figure needs beyond them.

    Parts of an experiment (some batches, some conditions) may be run apart, each with sums of its own, and be merged.
    So what is gathered stands in dictionaries, each entry under its condition and batch: parts that share an entry have
    it alike, and merging them counts it once.
    """

    gathers: ClassVar[tuple[str, ...] | None] = None  # its dictionaries; None: experiments with it are not cut

    @abstractmethod
    def add(self, batch: Batch, condition: str, values: Reading) -> None:
        """What a condition's run read on a batch. The clean condition comes first."""

    def add_written(self, batch: Batch, condition: str, written: Tensor) -> None:  # noqa: B027 (most have no use for it)
        """What the model wrote itself in a condition, where the measure `decodes`."""

    @abstractmethod
    def rows(self, weights: Floats) -> list[Row]: ...

    def take(self) -> Gathered:
        """Hand out all that was gathered, to be merged elsewhere, and begin again with nothing."""
        gathered = {name: dict(getattr(self, name)) for name in self.gathers or ()}
        for name in gathered:
            getattr(self, name).clear()
        return gathered

    def merge(self, gathered: Gathered) -> None:
        """Add what other sums of the same measure have handed out."""
        for name, entries in gathered.items():
            getattr(self, name).update(entries)

    def details(self) -> Sequence[Detail]:
        return ()

    def tallies(self) -> Sequence[Tally]:
        """What each example gave, where rows are means over examples."""
        return ()


class Measure(Strict):
    """What a recipe may say about one measure. A class adds its keys, `name` and `against` among them."""

    figures: ClassVar[Mapping[str, str]] = {}  # a figure that draws nothing else -> the name of what it draws
    step_by_step: ClassVar[bool] = False  # held against an answer token by token: both must be of one length
    by_site: ClassVar[bool] = False  # are its rows of sites and places, for a heatmap?
    if TYPE_CHECKING:  # for pydantic a base class's keys would come first
        name: str
        against: str

    @property
    def looked_at(self) -> str:
        """The span of the prompt that it is about, if it is about one."""
        return ""

    @classmethod
    def task_fields(cls, task: Task) -> Fields:
        """Keys whose choices or words are the task's, as `create_model` takes them."""
        return {}

    @property
    def apart(self) -> bool:
        """Is each row made of the values of one node, or of one site, alone?"""
        return False

    @property
    def foresees(self) -> bool:
        """Is it held against the answer that is expected under the intervention?"""
        return self.against in ("counterfactual", "neither")

    @property
    def decodes(self) -> bool:
        """Is it of answers that the model writes itself?"""
        return False

    def reads(self, names: KeyedNames, task: Task, key: Key) -> Reads:
        """What it reads of this model. What does not fit the model or the task is noted as a fault, at `key`."""
        raise NotImplementedError

    def sums(self, setting: Setting) -> Sums:
        """Empty sums, to be fed by a session."""
        raise NotImplementedError

    def compared(self, setting: Setting, batch: Batch, value: Tensor) -> Tensor:
        """The part of a value it reads that its numbers are made of."""
        return value


def rows_of(name: str, nodes: Iterable[Node], how: str = "") -> RowNames:
    return tuple((name, f"of {node}", how) for node in nodes)


def pattern_reads(heads: list[Node], rows: RowNames) -> Reads:
    sites = tuple(Site(node, "pattern") for node in heads)
    return Reads(sites, sites, rows)


def is_crossing(layout: Layout, node: Node) -> bool:
    """A head that looks from the answer at the prompt."""
    if not node.is_head:
        return False
    return (layout.sequence(Site(node, "q")), layout.looks_at(node)) == (layout.answer, layout.prompt)


def crossing_heads(names: KeyedNames, texts: tuple[str, ...], key: Key, what: str) -> list[Node]:
    """The named heads, all of which must look from the answer at the prompt."""
    heads = names.heads(key, texts)
    for node in heads:
        if not is_crossing(names.layout, node):
            names.fault(key, f"{node}: {what} is measured on heads that look from the answer at the prompt", node)
    return heads
