"""align: in how few dimensions of some sites does a variable live? The subspaces are learnt, then exchanged.

Distributed alignment search (Geiger et al., 2024). For each set of sites and each k: the k dimensions of every site
that make the model give the counterpart's answer are learnt on other examples, and taken from the counterpart's run. A
search always finds something, so the same is done with random dimensions, at other heads, with counterparts that belong
to other examples, and in a model with random weights; beside them stand the whole sites.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, ClassVar, Literal, TypeAlias

from pydantic import BeforeValidator, Field, ValidationError, model_validator
from typing_extensions import Self

from steer.anatomy.nodes import BETWEEN_TOKENS, Site
from steer.base.dice import Dice
from steer.base.errors import Key
from steer.base.fields import Fields, one_of, refined
from steer.base.yaml import AT_LEAST_ONE
from steer.plan.plan import COUNTERPART, Current, Edit, Of, Run, Value, Within
from steer.recipe.edits import as_counterpart
from steer.recipe.lowering import Lowering
from steer.recipe.schema import BEFORE, CEILING, Learning, Recipe, Twin
from steer.recipe.sets import SteeredSet, others
from steer.results.rows import CONTROL, SET, Level
from steer.tasks.task import Example, Selection, Task

ControlName: TypeAlias = Literal["random", "other-heads", "shuffled", "random-weights"]
ALL_CONTROLS: tuple[ControlName, ...] = ("random", "other-heads", "shuffled", "random-weights")
WHOLE, DIMENSIONS = "whole", "k"
TRAINED_ON = 300  # examples
Size: TypeAlias = Annotated[int, Field(ge=1)] | Literal["all"]


def _several(given: object) -> object:
    return given if isinstance(given, list | tuple) else [given]


def _trained_on(task: Task) -> Selection:
    """Examples of the first split that recipes may choose: the authors' episodes have no training split to choose."""
    for split in task.splits:
        try:
            return task.selection(split=split, count=TRAINED_ON, **task.needed.keys)
        except ValidationError:
            continue
    return task.selection(count=TRAINED_ON)


class Align(Recipe):
    """The few dimensions of some sites in which a variable lives, learnt on some examples and judged on others.

    Beside them the whole sites, and controls: random dimensions, other heads, counterparts of others, random weights.
    """

    clean_condition: ClassVar[str] = BEFORE
    ablates: ClassVar[bool] = False
    predicts: ClassVar[bool] = True
    kind: Literal["align"]
    variable: Annotated[str, Field(description="in which examples and counterparts differ")]
    sets: Annotated[tuple[SteeredSet, ...], AT_LEAST_ONE, Field(description="sites that are aligned together")]
    k: Annotated[
        tuple[Size, ...],
        AT_LEAST_ONE,
        BeforeValidator(_several, json_schema_input_type=int | Literal["all"] | list[int | Literal["all"]]),
        Field(description="how many dimensions of each site; several are several conditions"),
    ]
    train: Annotated[Selection, Field(description="what it is learnt on; whatever it is judged on is left out")]
    epochs: Annotated[int, Field(ge=1, le=1000, description="how often each training example is seen")] = 20
    rate: Annotated[float, Field(gt=0, le=10, description="of Adam, falling to zero")] = 0.02
    controls: Annotated[tuple[ControlName, ...], Field(description="what is done beside it (default: all)")] = (
        ALL_CONTROLS
    )
    no_controls: Annotated[str, Field(description="with `controls: []`, why there are none")] = ""

    @classmethod
    def task_fields(cls, task: Task) -> Fields:
        return {
            "variable": refined(cls, "variable", one_of(task.variables)),
            "train": refined(cls, "train", task.selection, _trained_on(task)),
        }

    @model_validator(mode="after")
    def _controlled(self) -> Self:
        names = [one.name for one in self.sets]
        if len({*names, BEFORE, CEILING}) < len(names) + 2:
            raise ValueError(f"sets: each needs a name of its own, and {BEFORE} and {CEILING} are taken")
        if len(set(self.k)) < len(self.k):
            raise ValueError("k: a number stands there twice")
        if not self.controls and not self.no_controls.strip():
            raise ValueError("controls: [] needs no_controls: why nothing runs beside it")
        return self

    def runs(self, lowering: Lowering) -> list[Run]:
        lowering.check_selection("alignment")
        runs = [run for number in range(len(self.sets)) for run in self._set(number, lowering)]
        if lowering.names.faults:
            return []
        return [*runs, Run(CEILING, (as_counterpart(lowering.layout),), lowering.reads, CEILING)]

    def _set(self, number: int, lowering: Lowering) -> Iterator[Run]:
        name, key = self.sets[number].name, ("sets", number, "sites")
        sites = _sites(self, number, lowering)
        away = others(lowering.names.names, sites, Dice(self.seed, "other-heads"))
        lone = len(away) < len(sites)
        if lone and "other-heads" in self.controls and "controls" in self.model_fields_set:
            lowering.names.fault(key, "not every site has another head in its block that plays no role: no other-heads")
        if lowering.names.faults:
            return
        yield self._run(
            f"{name}, {WHOLE}",
            [(site, Of(COUNTERPART)) for site in sites],
            ((SET, name), (DIMENSIONS, WHOLE)),
            lowering,
        )
        for place, k in enumerate(self.k):
            called, levels = f"{name}, k = {k}", ((SET, name), (DIMENSIONS, k))
            spot: Key = ("k", place)
            yield self._learnt(called, sites, k, levels, lowering, spot)
            if "random" in self.controls:
                yield self._learnt(
                    f"{called}, random", sites, k, _beside(levels, "random"), lowering, spot, random=True
                )
            if "other-heads" in self.controls and not lone:
                beside = _beside(levels, "other heads")
                yield self._learnt(f"{called}, other heads", away, k, beside, lowering, spot)

    def _learnt(
        self, called: str, sites: Sequence[Site], k: int | str, levels: tuple[Level, ...], lowering: Lowering,
        key: Key, random: bool = False,
    ) -> Run:  # fmt: skip
        size = k if isinstance(k, int) else None
        control = any(name == CONTROL for name, _ in levels)
        search = lowering.search(called, sites, size, key, random, control)
        rows = [(site, Within(stored, Of(COUNTERPART), Current())) for site, stored in search.rows]
        return self._run(called, rows, levels, lowering)

    def _run(
        self, called: str, values: Sequence[tuple[Site, Value]], levels: tuple[Level, ...], lowering: Lowering
    ) -> Run:
        edits = tuple(Edit(site, value, self.places) for site, value in values)
        return Run(called, (*lowering.freeze, *edits), lowering.reads, called, levels=levels)

    @property
    def changed_variable(self) -> str | None:
        return self.variable

    @property
    def varies(self) -> bool:
        return True  # dimensions, and the whole sites

    @property
    def shown(self) -> str:
        return f"{self.sets[-1].name}, k = {self.k[-1]}"

    @property
    def learning(self) -> Learning:
        return Learning(self.train, self.variable, self.epochs, self.rate)

    @property
    def twins(self) -> tuple[Twin, ...]:
        """The same with counterparts that belong to other examples, and in a model with random weights."""
        bare = self.model_copy(update={"controls": (), "tensors": (), "no_controls": "it is a control itself"})
        known = {
            "shuffled": Twin("shuffled", bare, shuffled=True),
            "random-weights": Twin("random weights", bare, True),
        }
        return tuple(known[name] for name in self.controls if name in known)

    def counterparts(self, examples: Sequence[Example]) -> list[Example | None]:
        return [self.task.counterpart(example, self.variable) for example in examples]


def _beside(levels: tuple[Level, ...], control: str) -> tuple[Level, ...]:
    return (*levels, (CONTROL, control))


def _sites(recipe: Align, number: int, lowering: Lowering) -> list[Site]:
    """Sites with features of their own, which the counterpart changes and from which something arrives."""
    key: Key = ("sets", number, "sites")
    names = lowering.names
    named = names.sites(key, recipe.sets[number].sites)
    for site in named:
        if site.port in (*BETWEEN_TOKENS, "out"):
            names.fault(key, f"{site} has no features of its own: give q, k, v or z, an MLP or a stream", site)
    lowering.check_places(named)
    named = lowering.reach.sites(key, lowering.differing(key, named, lambda site: site))
    if not named and not names.faults:
        names.fault(key, "no head of this checkpoint plays these roles")
    return named
