"""intervene: several edits that hold together, in one pass and at every step of decoding.

What one edit says and means is in `interventions.py`. The other kinds are short forms of this one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator
from typing_extensions import Self

from steer.anatomy.layout import carrier, touched
from steer.base.errors import Key
from steer.base.fields import one_of, refined
from steer.base.yaml import AT_LEAST_ONE, Strict
from steer.plan.plan import Edit, Run
from steer.recipe.edits import as_counterpart
from steer.recipe.interventions import Intervention, Made, make
from steer.recipe.lowering import Lowering
from steer.recipe.schema import BEFORE, CEILING, Recipe
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
    kind: Literal["intervene"]
    conditions: Annotated[tuple[Joint, ...], AT_LEAST_ONE]
    variable: Annotated[
        str | None, Field(description="whose counterparts lend values, and whose answers are the predicted ones")
    ] = None
    controls: Annotated[int, Field(ge=0, le=20, description="random directions or subspaces beside each")] = 1
    no_controls: Annotated[str, Field(description="with `controls: 0`, why there are none")] = ""

    @classmethod
    def task_fields(cls, task: Task) -> dict[str, Any]:
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
        runs = [run for n, one in enumerate(self.conditions) for run in self._condition(one, lowering, n)]
        if lowering.names.faults:
            return []
        ceiling = Run(CEILING, (as_counterpart(lowering.layout),), lowering.reads, CEILING)
        return [*runs, ceiling] if self.variable is not None else runs

    def _condition(self, condition: Joint, lowering: Lowering, number: int) -> Iterator[Run]:
        """Its runs: one for each scale that its edits name, and as many controls of each."""
        key: Key = ("conditions", number, "edits")
        made = [make(one, lowering, (*key, n), self.variable) for n, one in enumerate(condition.edits)]
        if lowering.names.faults:
            return
        check_together(made, lowering, key)
        for several in product(*(one.versions for one in made)):
            words = ", ".join(one.words for one in several if one.words)
            name = f"{condition.name}, {words}" if words else condition.name
            yield from self._runs(name, [list(one.edits) for one in several], lowering)
            for draw in range(self.controls if any(one.random for one in several) else 0):
                random = [list(one.random(draw + self.seed) if one.random else one.edits) for one in several]
                yield from self._runs(f"{name}, {RANDOM} {draw + 1}", random, lowering)

    def _runs(self, name: str, edits: Sequence[list[Edit]], lowering: Lowering) -> Iterator[Run]:
        flat = tuple(edit for some in edits for edit in some)
        yield Run(name, (*flat, *lowering.freeze), lowering.reads, name)

    @property
    def changed_variable(self) -> str | None:
        return self.variable

    @property
    def foretells(self) -> bool:
        return self.variable is not None

    @property
    def shown(self) -> str:
        return self.conditions[-1].name

    @property
    def files(self) -> tuple[str, ...]:
        edits = [edit for condition in self.conditions for edit in condition.edits]
        named = [edit.add.direction for edit in edits if edit.add]
        return tuple(dict.fromkeys([*named, *(edit.project.subspace for edit in edits if edit.project)]))

    def counterparts(self, examples: Sequence[Example]) -> list[Example | None]:
        return [self.task.lender(example, self.variable) for example in examples] if self.variable else []


def check_together(made: Sequence[Made], lowering: Lowering, key: Key) -> None:
    """Edits of one condition must not undo one another, and each must be able to change what is measured."""
    names, layout = lowering.names, lowering.layout
    placed = [(n, edit) for n, one in enumerate(made) for edit in one.versions[0].edits]
    held = [edit.site for _, edit in placed if edit.holds] + [edit.site for edit in lowering.freeze]
    for place, (n, edit) in enumerate(placed):
        before = [(m, other) for m, other in placed[:place] if carrier(other.site) == carrier(edit.site)]
        if made[n].replaces and any(_overlap(edit, other) for _, other in before):
            first = before[0][0] + 1
            names.fault((*key, n), f"{edit.site} is replaced here, which undoes edit {first} of this condition")
        if not edit.holds and carrier(edit.site) in map(carrier, held):
            names.fault((*key, n), f"{edit.site} is frozen and edited in one condition")
        past = [site for site in held if carrier(site) != carrier(edit.site)]
        if not edit.holds and not lowering.reach.read.intersection(touched(layout, [edit.site], past)):
            names.fault((*key, n), f"nothing from {edit.site} arrives at what is measured")


def _overlap(one: Edit, other: Edit) -> bool:
    """May the two be made at one place? Names of places are only known with the examples."""
    if not one.places or not other.places:
        return True
    numbers = all(isinstance(place, int) for place in (*one.places, *other.places))
    return not numbers or not set(one.places).isdisjoint(other.places)
