"""steer: one variable is changed at some sites; beside each set a control and the ceiling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from steer.anatomy.nodes import Site
from steer.base.dice import Dice
from steer.base.errors import Key
from steer.base.fields import Fields, one_of, refined
from steer.base.yaml import AT_LEAST_ONE
from steer.plan.plan import COUNTERPART, Edit, Of, Run
from steer.recipe.edits import as_counterpart, exchange
from steer.recipe.lowering import Lowering
from steer.recipe.schema import BEFORE, CEILING, Recipe
from steer.recipe.sets import SteeredSet, others
from steer.tasks.task import Example, Task

CONTROL = "control"


class Steer(Recipe):
    """One variable of {program} is changed at some sites: does the answer become the one that the algorithm gives?

    `counterpart`: the sites take their values from the run on a prompt that differs in this variable alone.
    `positions`: {exchanged}' position embeddings are exchanged, as seen by these ports.
    """

    clean_condition: ClassVar[str] = BEFORE
    ablates: ClassVar[bool] = False
    predicts: ClassVar[bool] = True
    kind: Literal["steer"]
    variable: Annotated[str, Field(description="what is changed")]
    by: Annotated[Literal["counterpart", "positions"], Field(description="how it is changed")] = "counterpart"
    sets: Annotated[tuple[SteeredSet, ...], AT_LEAST_ONE, Field(description="each a condition of its own")]
    control: Annotated[
        str | None, Field(description="name of a set: as many other heads of the same blocks are changed instead")
    ] = None
    no_control: Annotated[str, Field(description="without `control`, why there is none")] = ""

    @classmethod
    def task_fields(cls, task: Task) -> Fields:
        return {"variable": refined(cls, "variable", one_of(task.variables))}

    def runs(self, lowering: Lowering) -> list[Run]:
        """Each set of sites, then as many others (the control), then the counterpart itself (the ceiling)."""
        names = lowering.names
        sets = {one.name: _sites(self, lowering, number) for number, one in enumerate(self.sets)}
        _check(self, lowering, sets)
        if self.control is not None and not names.faults:
            sets[CONTROL] = _control(self.control, self.seed, lowering, sets)
        if names.faults:
            return []
        runs = [lowering.run(name, _edits(self, lowering, sites)) for name, sites in sets.items()]
        return [*runs, Run(CEILING, (as_counterpart(lowering.layout),), lowering.reads, CEILING)]

    @property
    def changed_variable(self) -> str | None:
        return self.variable

    @property
    def caution(self) -> str:
        if self.control is not None or self.no_control.strip():
            return ""
        return "no other heads are changed beside these: name a `control`, or say why not (`no_control`)"

    @property
    def shown(self) -> str:
        return self.sets[-1].name

    def counterparts(self, examples: Sequence[Example]) -> list[Example | None]:
        """Each example with the variable changed, and the answer that it then has."""
        return [self.task.counterpart(example, self.variable) for example in examples]


def _check(recipe: Steer, lowering: Lowering, sets: dict[str, list[Site]]) -> None:
    names = lowering.names
    lowering.check_selection("steering")
    known = recipe.task.exchange
    if recipe.by == "positions" and (known is None or recipe.variable != known.variable):
        changed = f"change the {known.variable}, not the" if known else "do not change the"
        names.fault(("by",), f"exchanged positions {changed} {recipe.variable}")
    for number, one in enumerate(recipe.sets):  # `$role:any` without a head: not an intervention that does nothing
        if not sets[one.name] and not names.faults:
            names.fault(("sets", number, "sites"), "no head of this checkpoint plays these roles")
    taken = [one.name for one in recipe.sets]
    for number, name in enumerate(taken):
        if name in (BEFORE, CONTROL, CEILING) or name in taken[:number]:
            names.fault(("sets", number, "name"), f"{name!r} is taken: conditions need names of their own")
    if recipe.control is not None and recipe.control not in sets:
        names.fault(("control",), f"no set is called {recipe.control!r}; there are: {', '.join(sets)}")


def _control(name: str, seed: int, lowering: Lowering, sets: dict[str, list[Site]]) -> list[Site]:
    wanted = sets[name]
    control = others(lowering.names.names, wanted, Dice(seed, CONTROL))
    if len(control) < len(wanted):
        few = f"only {len(control)} of {len(wanted)} sites have another head in their block that plays no role"
        lowering.names.fault(("control",), few)
    return control


def _sites(recipe: Steer, lowering: Lowering, number: int) -> list[Site]:
    key: Key = ("sets", number, "sites")
    if recipe.by == "counterpart":
        named = lowering.differing(key, lowering.names.sites(key, recipe.sets[number].sites), lambda site: site)
        lowering.check_places(named)
    else:
        named = lowering.names.ports(key, recipe.sets[number].sites)
        lowering.check_positions(key, named)
    return lowering.reach.sites(key, named)


def _edits(recipe: Steer, lowering: Lowering, sites: list[Site]) -> list[Edit]:
    if recipe.by == "counterpart":
        return [Edit(site, Of(COUNTERPART), recipe.places) for site in sites]
    assert recipe.task.exchange is not None  # checked before
    return exchange(lowering.layout, sites, recipe.task.exchange.places, recipe.places)
