"""intervene: several edits that hold together, in one pass and at every step of decoding.

What one edit says and means is in `interventions.py`. The other kinds are short forms of this one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator
from typing_extensions import Self

from steer.anatomy.nodes import Site
from steer.base.errors import Key, unknown
from steer.base.fields import Fields, one_of, refined
from steer.base.yaml import AT_LEAST_ONE, Strict
from steer.plan.plan import Edit, Of, Run
from steer.recipe.edits import as_counterpart
from steer.recipe.interventions import Intervention, Made, Version, make, recording
from steer.recipe.lowering import Lowering
from steer.recipe.schema import BEFORE, CEILING, Recipe
from steer.recipe.together import as_one, check_together
from steer.results.rows import CONTROL, SET, Level
from steer.tasks.task import Example, Task

RANDOM = "random"


class Joint(Strict):
    """Edits that hold together."""

    name: Annotated[str, Field(min_length=1, description="what its rows and panels are called")]
    edits: Annotated[tuple[Intervention, ...], AT_LEAST_ONE]


class Intervene(Recipe):
    """Several edits that hold together, in one pass and at every step of decoding; each condition beside the clean run.

    Where directions are added or subspaces exchanged, the same is done with random ones of the same size.
    """

    clean_condition: ClassVar[str] = BEFORE
    ablates: ClassVar[bool] = False
    takes_places: ClassVar[bool] = False
    place_key: ClassVar[str] = "conditions"
    kind: Literal["intervene"]
    conditions: Annotated[tuple[Joint, ...], AT_LEAST_ONE]
    variable: Annotated[
        str | None, Field(description="whose counterparts lend values, and whose answers are the predicted ones")
    ] = None
    controls: Annotated[int, Field(ge=0, le=20, description="random directions or subspaces beside each")] = 1
    no_controls: Annotated[str, Field(description="with `controls: 0`, why there are none")] = ""

    @classmethod
    def task_fields(cls, task: Task) -> Fields:
        return {"variable": refined(cls, "variable", one_of(task.variables) | None)}

    @model_validator(mode="after")
    def _different_names(self) -> Self:
        names = [BEFORE, CEILING, *(condition.name for condition in self.conditions)]
        if len(set(names)) < len(names):
            raise ValueError(f"conditions: each needs a name of its own, and {BEFORE} and {CEILING} are taken")
        if not self.controls and not self.no_controls.strip():
            raise ValueError("controls: 0 needs no_controls: why nothing random runs beside it")
        return self

    def runs(self, lowering: Lowering) -> list[Run]:
        known: dict[str, list[Made]] = {}
        runs = merged(run for n in range(len(self.conditions)) for run in self._condition(n, lowering, known))
        if lowering.names.faults:
            return []
        ceiling = Run(CEILING, (as_counterpart(lowering.layout),), lowering.reads, CEILING)
        return [*runs, ceiling] if self.variable is not None else runs

    def _condition(self, number: int, lowering: Lowering, known: dict[str, list[Made]]) -> Iterator[Run]:
        """Its runs: one for each scale that its edits name, and as many controls of each.

        `known`: the conditions before it.
        """
        condition, key = self.conditions[number], ("conditions", number, "edits")  # type: tuple[Joint, Key]
        made = [make(one, lowering, (*key, n), self.variable) for n, one in enumerate(condition.edits)]
        if not lowering.names.faults:
            check_together(made, lowering, key)
        records = [*recordings(made, lowering, key, known)] if not lowering.names.faults else []
        known[condition.name] = made
        if lowering.names.faults:
            return
        yield from records
        for several in product(*(one.versions for one in made)):
            name = ", ".join([condition.name, *(f"x {one.scale:g}" for one in several if one.scale is not None)])
            drawn = range(self.controls if any(one.random for one in several) else 0)
            levels = levels_of(condition.name, several) if drawn or any(one.several for one in made) else ()
            yield from joined(name, made, [one.edits for one in several], levels, lowering)
            for draw in drawn:
                called = f"{RANDOM} {draw + 1}"
                random = [one.random(draw + self.seed) if one.random else one.edits for one in several]
                yield from joined(f"{name}, {called}", made, random, (*levels, (CONTROL, called)), lowering)

    @property
    def changed_variable(self) -> str | None:
        return self.variable

    @property
    def foretells(self) -> bool:
        return self.variable is not None

    @property
    def all_edits(self) -> list[Any]:
        return [edit for condition in self.conditions for edit in condition.edits]

    @property
    def depends_on_batches(self) -> bool:
        return any(edit.ablate == "resample" for edit in self.all_edits)

    @property
    def varies(self) -> bool:
        return super().varies or any(len(edit.add.scale) > 1 for edit in self.all_edits if edit.add)

    @property
    def shown(self) -> str:
        return self.conditions[-1].name

    @property
    def files(self) -> tuple[str, ...]:
        named = [edit.add.direction for edit in self.all_edits if edit.add]
        return tuple(dict.fromkeys([*named, *(edit.project.subspace for edit in self.all_edits if edit.project)]))

    def counterparts(self, examples: Sequence[Example]) -> list[Example | None]:
        return [self.task.lender(example, self.variable) for example in examples] if self.variable else []


Edits = Sequence[tuple[Edit, ...]]


def joined(
    name: str, made: Sequence[Made], edits: Edits, levels: tuple[Level, ...], lowering: Lowering
) -> Iterator[Run]:
    """A condition's run; before it, one for each edit of which only what goes through some sites is taken over."""
    whole: list[Edit] = []
    for number, (one, mine) in enumerate(zip(made, edits, strict=True)):
        if one.through:
            alone = Run(f"{name}: edit {number + 1} alone", (*mine, *lowering.freeze), one.through)
            yield alone
            mine = tuple(Edit(site, Of(alone.name)) for site in one.through)
        whole += mine
    yield Run(name, (*as_one(whole), *lowering.freeze), lowering.reads, name, levels=levels)


def recordings(made: Sequence[Made], lowering: Lowering, key: Key, known: dict[str, list[Made]]) -> Iterator[Run]:
    """The runs of earlier conditions once more, where these edits take values from them."""
    wanted: dict[str, list[Site]] = {}
    for number, one in enumerate(made):
        if one.recorded is None:
            continue
        name, sites = one.recorded
        if name not in known:
            text = (
                unknown("condition before this one", name, list(known)) if known else "no condition comes before this"
            )
            lowering.names.fault((*key, number, "from", "condition"), text)
        elif any(edit.several for edit in known[name]):
            text = f"{name!r} has several scales: which one?"
            lowering.names.fault((*key, number, "from", "condition"), text)
        wanted.setdefault(name, []).extend(sites)
    for name, places in wanted.items() if not lowering.names.faults else ():
        edits = [one.versions[0].edits for one in known[name]]
        *before, last = joined(recording(name), known[name], edits, (), lowering)
        yield from before
        yield replace(last, reads=tuple(dict.fromkeys(places)), condition=None)


def merged(runs: Iterable[Run]) -> list[Run]:
    """Each run once, with all that is read of it."""
    by_name: dict[str, Run] = {}
    for run in runs:
        before = by_name.get(run.name, run)
        by_name[run.name] = replace(run, reads=tuple(dict.fromkeys((*before.reads, *run.reads))))
    return list(by_name.values())


def levels_of(name: str, several: Sequence[Version]) -> tuple[Level, ...]:
    """What the rows of a condition say about it: its name, and the scale of each edit that has several."""
    scales = [one.scale for one in several if one.scale is not None]
    return ((SET, name), *((f"scale {n + 1}" if n else "scale", scale) for n, scale in enumerate(scales)))
